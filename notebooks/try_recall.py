"""Try a recall: what happened when runs like this one were tried.

Asks the store as a worker would, with the same key and the same verification, and writes nothing.
"""

import marimo

app = marimo.App(width="medium", app_title="Try a recall")


@app.cell
def imports():
    import altair as alt
    import marimo as mo
    import polars as pl

    from assets.lake import Lake
    from pipelines import notebook_pages as pages
    from tessera.advice import Cache, recall
    from tessera.settings import Settings

    return Cache, Lake, Settings, alt, mo, pages, pl, recall


@app.cell
def again_button(mo):
    again = mo.ui.run_button(label="ask again")
    again
    return (again,)


@app.cell
def the_indexes(Lake, Settings, again, mo, pages):
    again
    settings = Settings.from_environment()
    lake = Lake(settings.lake)
    mo.stop(
        not lake.queues(),
        pages.block(pages.nothing_yet("The lake has no runs yet", lake.location, *pages.EMPTY_STEPS)),
    )
    client = pages.store(settings)
    mo.stop(
        client is None,
        pages.block(
            pages.nothing_yet("Recall asks a store, and none answers", settings.url, *pages.NO_STORE_STEPS)
        ),
    )
    names = [name for name in pages.queues(lake, mo.cli_args().get("queue")) if pages.indexed(client, name)]
    mo.stop(
        not names,
        pages.block(
            pages.nothing_yet(
                "No queue has a memory index yet",
                client.url,
                "<code>learner configure memory:minhash-lsh:v1 --queue NAME</code>, then "
                "<code>workspace run --queue NAME</code>.",
            )
        ),
    )
    return client, lake, names


@app.cell
def choose_queue(mo, names):
    queue = mo.ui.dropdown(names, value=names[0], label="queue")
    queue
    return (queue,)


@app.cell
def newest_run(lake, mo, pl, queue):
    mo.stop(queue.value is None, mo.md("Choose a queue."))
    _columns = ["kind", "wording", "cursor"]
    _recent = lake.observations(queue.value, last=500, columns=_columns)
    kinds = sorted(_recent["kind"].unique())
    _wording = _recent.unnest("wording").drop("cursor", "kind")
    _texts = _wording.select(pl.coalesce(pl.all())).to_series().drop_nulls()
    example = str(_texts[-1]) if len(_texts) else ""
    example_kind = str(_recent["kind"][-1])
    return example, example_kind, kinds


@app.cell
def choose_category(example_kind, kinds, mo):
    category = mo.ui.dropdown(
        kinds, value=mo.cli_args().get("category") or example_kind, label="category of the work"
    )
    category
    return (category,)


@app.cell
def choose_text(example, mo):
    text = mo.ui.text_area(
        value=str(mo.cli_args().get("text") or example),
        label="what the work is about, in the words of its brief",
        full_width=True,
    )
    text
    return (text,)


@app.cell
def answer(Cache, category, client, mo, pages, queue, recall, text):
    mo.stop(category.value is None, mo.md("Choose a category."))
    found = recall(
        queue.value,
        category.value,
        {"title": text.value},
        limit=10,
        client=client,
        cache=Cache(),
        shadow=True,
    )
    figures = found["statistics"]
    _asked = (
        "<h1>A recall tried</h1>"
        f"<p>Queue <b>{pages.shown(queue.value)}</b>, category <b>{pages.shown(category.value)}</b>, about: "
        f"<i>{pages.shown(text.value) or '(nothing)'}</i></p><p>{found['index']['entries']:,} runs are indexed, "
        f"up to cursor {pages.shown(found['index']['cursor'])}; later runs appear after the next index run.</p>"
    )
    mo.stop(
        not figures["attempts"],
        pages.block(_asked + "<p>None of them is like this text. Likeness is of words, not of meaning.</p>"),
    )
    pages.block(
        _asked
        + "<p><b>Evidence only:</b> a like run is no permission to reuse what it made; validate before you "
        "do. Likeness is of words, not of meaning, and like runs are not a random sample.</p>"
    )
    return figures, found


@app.cell
def figures_of_all(figures, pages):
    _small = " (small: under 5)" if figures["attempts"] < 5 else ""
    _rows = [
        {
            "attempts": f"{figures['attempts']:,}{_small}",
            "accepted": figures["accepted"],
            "rate": f"{figures['acceptance_rate']:.0%}",
            "interval": pages.span(figures["wilson_low"], figures["wilson_high"]),
            "tasks": figures["distinct_tasks"],
            "retried": figures["retried"],
            "held": figures["median_server_duration_seconds"],
            "duration": figures["median_reported_duration_seconds"],
            "tokens": figures["median_total_tokens"],
        }
    ]
    _titles = {
        "attempts": "like runs#",
        "accepted": "accepted#",
        "rate": "rate#",
        "interval": "95% interval#",
        "tasks": "tasks#",
        "retried": "retries#",
        "held": "median time held (s)#",
        "duration": "median reported duration (s)#",
        "tokens": "median tokens#",
    }
    _reasons = pages.table(
        {"count": "failures#", "text": "reason (worker's words)"}, figures["failure_reasons"]
    )
    pages.block(
        "<h2>What became of all like runs</h2>"
        + pages.table(_titles, _rows)
        + (_reasons if figures["failure_reasons"] else "")
    )
    return


@app.cell
def matches_table(found, pages):
    _rows = [
        {
            "rank": rank,
            "run": match["run_id"],
            "likeness": "equal"
            if match["exact"]
            else f"{match['similarity']:.2f}"
            if match["similarity"] is not None
            else None,
            "result": match["entry"]["result"],
            "kind": match["entry"]["kind"],
            "words": next(
                (value for value in match["execution"]["brief"]["wording"].values() if value is not None),
                None,
            ),
            "wrong": match["entry"]["failure_reason"] or "; ".join(match["entry"]["problems"]) or None,
        }
        for rank, match in enumerate(found["matches"], 1)
    ]
    _titles = {
        "rank": "rank#",
        "run": "run",
        "likeness": "likeness#",
        "result": "result",
        "kind": "kind",
        "words": "its brief",
        "wrong": "what went wrong (worker's words)",
    }
    pages.block(f"<h2>The {len(_rows)} most like</h2>" + pages.table(_titles, _rows))
    return


@app.cell
def matches_plot(alt, found, mo, pages):
    _values = [
        {
            "row": f"{rank}. {'equal' if match['exact'] else 'like'} · {match['entry']['kind'][:40]}",
            "likeness": 1.0 if match["exact"] else match["similarity"],
            "result": match["entry"]["result"],
        }
        for rank, match in enumerate(found["matches"], 1)
        if match["exact"] or match["similarity"] is not None
    ]
    mo.stop(not _values)
    _chart = (
        alt.Chart(alt.InlineData(values=_values))
        .mark_bar()
        .encode(
            x=alt.X(
                "likeness:Q", scale=alt.Scale(domain=[0, 1]), title="likeness of words (0 to 1; equal = 1)"
            ),
            y=alt.Y("row:N", sort=None, title=None, axis=alt.Axis(labelLimit=320)),
            color=alt.Color(
                "result:N",
                title="result",
                scale=alt.Scale(domain=["accepted", "failed"], range=[pages.ACCEPTED, pages.FAILED]),
            ),
        )
        .properties(width=560, height=alt.Step(20))
    )
    pages.block(pages.picture(_chart, "likeness of each match, by result"))
    return


@app.cell
def citation(found, pages):
    _said = "; ".join(f"{name}: {value}" for name, value in (found["advice"] or {}).items())
    pages.block(f"<p>To cite in a report under learning.advice: <code>{pages.shown(_said)}</code></p>")
    return


if __name__ == "__main__":
    app.run()
