"""Look at a queue: how often its runs are accepted over time, what waits in the store, why runs fail.

Reads the lake, one version of it at a time, and asks the store only how much waits. Nothing is locked while
it is open.
"""

import marimo

app = marimo.App(width="medium", app_title="One queue")


@app.cell
def imports():
    import altair as alt
    import marimo as mo
    import polars as pl

    from assets.lake import Lake
    from learners.statistics import failure_reasons
    from learners.wilson import wilson_columns
    from pipelines import notebook_pages as pages
    from tessera.settings import Settings

    return Lake, Settings, alt, failure_reasons, mo, pages, pl, wilson_columns


@app.cell
def again_button(mo):
    again = mo.ui.run_button(label="read the lake again")
    again
    return (again,)


@app.cell
def the_lake(Lake, Settings, again, mo, pages):
    again
    settings = Settings.from_environment()
    lake = Lake(settings.lake)
    names = pages.queues(lake, mo.cli_args().get("queue"))
    mo.stop(
        not names,
        pages.block(pages.nothing_yet("The lake has no runs yet", lake.location, *pages.EMPTY_STEPS)),
    )
    return lake, names, settings


@app.cell
def choose(mo, names):
    chosen = mo.ui.dropdown(names, value=names[0], label="queue")
    chosen
    return (chosen,)


@app.cell
def rows_of_the_queue(chosen, failure_reasons, lake, mo, pl):
    queue = chosen.value
    mo.stop(queue is None, mo.md("Choose a queue."))
    columns = ["cursor", "kind", "result", "retry", "private", "task_id", "submitted_at", "failure_text"]
    runs = lake.observations(queue, columns=columns).with_columns(
        accepted=pl.col("result") == "accepted", reason=failure_reasons(pl.col("failure_text"))
    )
    return queue, runs


@app.cell
def counts(pages, pl, queue, runs, wilson_columns):
    total = wilson_columns(
        runs.select(
            pl.col("accepted").sum().cast(pl.Int64),
            attempts=pl.len().cast(pl.Int64),
            tasks=pl.col("task_id").n_unique(),
            retried=pl.col("retry").sum(),
            private=pl.col("private").sum(),
            first=pl.col("submitted_at").min().dt.strftime("%Y-%m-%d %H:%M:%S UTC"),
            newest=pl.col("submitted_at").max().dt.strftime("%Y-%m-%d %H:%M:%S UTC"),
        )
    ).to_dicts()
    for _row in total:
        _row["rate"] = f"{_row['acceptance_rate']:.1%}"
        _row["interval"] = pages.span(_row["wilson_low"], _row["wilson_high"])
    pages.block(
        f"<h1>{pages.shown(queue)}</h1><p>Accepted means that a worker submitted with ok=true; the interval "
        "is Wilson's at 95%. Retries of a task resemble each other, so with many of them it is too narrow.</p>"
        + pages.table(
            {
                "attempts": "runs#",
                "accepted": "accepted#",
                "rate": "rate#",
                "interval": "95% interval#",
                "tasks": "tasks#",
                "retried": "retries#",
                "private": "private#",
                "first": "first",
                "newest": "newest",
            },
            total,
        )
    )
    return


@app.cell
def trend_rows(pl, runs, wilson_columns):
    steps = {"1s": 1, "5s": 5, "15s": 15, "1m": 60, "5m": 300, "15m": 900, "1h": 3600, "6h": 21600}
    steps |= {"1d": 86400, "7d": 604800, "30d": 2592000, "365d": 31536000}
    timed = runs.filter(pl.col("submitted_at").is_not_null()).sort("submitted_at")
    seconds = 0.0
    if timed.height:
        seconds = (timed["submitted_at"][-1] - timed["submitted_at"][0]).total_seconds()
    step = next((name for name, size in steps.items() if seconds / size <= 30), "365d")
    trend = wilson_columns(
        timed.group_by(at=pl.col("submitted_at").dt.truncate(step))
        .agg(pl.col("accepted").sum().cast(pl.Int64), attempts=pl.len().cast(pl.Int64))
        .sort("at")
    ).with_columns(
        at=pl.col("at").dt.strftime("%Y-%m-%dT%H:%M:%SZ"),
        failed=pl.col("attempts") - pl.col("accepted"),
        sample=pl.when(pl.col("attempts") < 5)
        .then(pl.lit("under 5 runs"))
        .otherwise(pl.lit("5 runs or more")),
    )
    clock = "%H:%M:%S" if steps[step] < 60 else "%d %b %H:%M" if steps[step] < 86400 else "%Y-%m-%d"
    untimed = runs.height - timed.height
    return clock, step, trend, untimed


@app.cell
def trend_plot(alt, clock, pages, step, trend, untimed):
    _axis = alt.X(
        "at:T",
        scale=alt.Scale(type="utc"),
        title=f"submitted (UTC), one point per {step}",
        axis=alt.Axis(labelAngle=-30, format=clock, tickCount=8, labelFlush=False),
    )
    _base = alt.Chart(alt.InlineData(values=trend.to_dicts())).encode(
        x=_axis,
        color=alt.Color(
            "sample:N",
            title="sample",
            scale=alt.Scale(
                domain=["5 runs or more", "under 5 runs"], range=[pages.ACCEPTED, pages.SMALL_SAMPLE]
            ),
        ),
    )
    _share = alt.Scale(domain=[0, 1])
    _bars = _base.mark_rule(strokeWidth=2).encode(
        y=alt.Y(
            "wilson_low:Q", scale=_share, title="accepted, 95% interval (%)", axis=alt.Axis(format=".0%")
        ),
        y2="wilson_high:Q",
    )
    _dots = _base.mark_point(filled=True, size=50, opacity=1).encode(y="acceptance_rate:Q")
    _counts = (
        alt.Chart(alt.InlineData(values=trend.to_dicts()))
        .transform_fold(["accepted", "failed"], as_=["result", "runs"])
        .mark_bar(size=9)
        .encode(
            x=_axis,
            y=alt.Y("runs:Q", title=f"runs per {step}", axis=alt.Axis(tickMinStep=1)),
            color=alt.Color(
                "result:N",
                title="result",
                scale=alt.Scale(domain=["accepted", "failed"], range=[pages.ACCEPTED, pages.FAILED]),
            ),
        )
    )
    _chart = alt.vconcat(
        (_bars + _dots).properties(width=640, height=170), _counts.properties(width=640, height=110)
    ).resolve_scale(color="independent")
    _left_out = f"<p>{untimed:,} runs have no time (imported) and are not drawn.</p>" if untimed else ""
    pages.block(
        "<h2>Trend</h2>"
        + (pages.picture(_chart, "acceptance and number of runs over time") if trend.height else "")
        + _left_out
    )
    return


@app.cell
def lag(lake, pages, queue, settings):
    _client = pages.store(settings)
    _cursor = lake.cursor(queue)
    if _client is None:
        _said = f"the store at {settings.url} does not answer, so how much waits there is not known"
    else:
        with _client:
            _waiting = _client.pending(queue, after=str(_cursor))
        _more = " or more" if _waiting["capped"] else ""
        _said = f"{_waiting['count']:,}{_more} runs wait in the store"
        if _waiting["count"]:
            _said += f"; workspace run --queue {queue} takes them"
    _bad = lake.count("quarantine", queue)
    pages.block(
        f"<h2>Lag</h2><p>The lake has the runs up to cursor {_cursor:,}; {pages.shown(_said)}. "
        f"{_bad:,} runs are in quarantine.</p>"
    )
    return


@app.cell
def failures(mo, pages, pl, queue, runs):
    _query = """
        SELECT coalesce(reason, 'no reason given') AS reason, kind, count(*)::BIGINT AS failures,
               count(DISTINCT task_id)::BIGINT AS tasks, max(cursor)::BIGINT AS newest
        FROM runs WHERE NOT accepted
        GROUP BY ALL ORDER BY failures DESC, reason, kind
    """
    reasons = pages.sql(_query, runs=runs.select("reason", "kind", "accepted", "task_id", "cursor"))
    _failed = int(reasons["failures"].sum())
    mo.stop(not _failed, mo.md("## Failures\n\nNone: every run was accepted."))
    _rows = reasons.with_columns(
        share=pl.format("{}%", (100 * pl.col("failures") / _failed).round(1))
    ).to_dicts()
    _titles = {
        "reason": "reason, numbers as # (worker's words)",
        "kind": "kind",
        "failures": "failures#",
        "share": "share of failures#",
        "tasks": "tasks#",
        "newest": "newest cursor#",
    }
    pages.block(
        f"<h2>Failures</h2><p>{_failed:,} of {runs.height:,} runs of {pages.shown(queue)} failed.</p>"
        + pages.table(_titles, _rows, most=15)
    )
    return (reasons,)


@app.cell
def failures_plot(alt, pages, pl, reasons):
    _most = (
        reasons.group_by("reason")
        .agg(pl.col("failures").sum())
        .sort(["failures", "reason"], descending=[True, False])
        .head(8)
    )
    _kept = reasons.filter(reasons["reason"].is_in(_most["reason"].implode()))
    _chart = (
        alt.Chart(alt.InlineData(values=_kept.select("reason", "kind", "failures").to_dicts()))
        .mark_bar()
        .encode(
            x=alt.X("failures:Q", title="failed runs (count)", axis=alt.Axis(tickMinStep=1)),
            y=alt.Y(
                "reason:N",
                title=None,
                sort=list(_most["reason"]),
                axis=alt.Axis(labelLimit=360),
            ),
            color=alt.Color("kind:N", title="kind"),
        )
        .properties(width=380, height=alt.Step(24))
    )
    pages.block(pages.picture(_chart, "failed runs by reason and kind"))
    return


if __name__ == "__main__":
    app.run()
