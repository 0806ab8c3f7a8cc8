"""Follow a lesson: from its noun to the records it rests on, and from these to the very runs.

Reads nouns from the store and runs from the lake, and writes neither.
"""

import marimo

app = marimo.App(width="medium", app_title="Follow a lesson")


@app.cell
def imports():
    import altair as alt
    import marimo as mo

    from assets.lake import Lake
    from assets.lesson_trail import trail
    from learners.comparisons import interval
    from pipelines import notebook_pages as pages
    from schemas.lessons import STORE
    from tessera.canonical import digest
    from tessera.settings import Settings

    return Lake, STORE, Settings, alt, digest, interval, mo, pages, trail


@app.cell
def again_button(mo):
    again = mo.ui.run_button(label="read again")
    again
    return (again,)


@app.cell
def the_store(Lake, Settings, again, mo, pages):
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
            pages.nothing_yet(
                "Lessons are nouns of the store, and none answers", settings.url, *pages.NO_STORE_STEPS
            )
        ),
    )
    return client, lake


@app.cell
def lessons(STORE, client, digest, mo, pages):
    _items, _after = [], None
    while True:
        _page = client.list_records(store=STORE, prefix="lessons:", after=_after)
        _items += _page["items"]
        if not _page["has_more"]:
            break
        _after = _page["next_after"]
    _asked = mo.cli_args().get("queue")
    found = {}
    for _item in _items:
        _record = client.get_record(_item["store"], _item["key"], _item["version"])
        for _entry in _record["body"].get("entries", []):
            if _entry["support"] and _asked in (None, _record["body"]["scope"]["queue"]):
                _name = f"{_record['body']['scope']['queue']}: {' '.join(_entry['text'].split())[:90]}"
                found[f"{_name} [{_entry['key']}]"] = (
                    _entry,
                    {**_record, "verified": digest(_record["body"]) == _record["sha256"]},
                )
    mo.stop(
        not found,
        pages.block(
            pages.nothing_yet(
                "No lesson has been earned yet",
                client.url,
                "A lesson needs at least 20 attempts on each side and 95% intervals that lie apart.",
                "<code>learner configure lessons:review-and-learn:v1 --queue NAME</code>, a scorecard on the "
                "same queue, and <code>workspace run</code> have them looked for.",
            )
        ),
    )
    return (found,)


@app.cell
def choose(found, mo):
    chosen = mo.ui.dropdown(list(found), value=next(iter(found)), label="lesson", full_width=True)
    chosen
    return (chosen,)


@app.cell
def the_lesson(chosen, found, mo, pages):
    mo.stop(chosen.value is None, mo.md("Choose a lesson."))
    entry, record = found[chosen.value]
    _digest = "its body has this digest" if record["verified"] else "its body does NOT have this digest"
    pages.block(
        "<h1>A lesson, followed to its runs</h1>"
        '<blockquote style="border-left:4px solid #1f6feb;margin:.75rem 0;padding:.25rem 1rem">'
        f"{pages.shown(entry['text'], most=2200)}</blockquote>"
        f"<p>Lesson <code>{pages.shown(entry['key'])}</code> in <code>{pages.shown(record['store'])} / "
        f"{pages.shown(record['key'])}</code>, version {record['version']}, sha256 "
        f"<code>{record['sha256'][:16]}…</code> ({_digest}). Earned {pages.shown(entry['earned_at'])}, to be "
        f"rechecked {pages.shown(entry['recheck_at'])}.</p><p>A lesson is evidence, not permission. Unless it "
        "says randomized, it is an association: the two sides saw different inputs.</p>"
    )
    return (entry,)


@app.cell
def support(client, entry, interval, lake, pages, trail):
    steps = trail(client, lake, entry)
    _rows = []
    for _step in steps:
        _claim = _step.claim
        _told = _step.trouble
        if _told is None and _step.counted is not None:
            _same = _step.counted == tuple(round(count) for count in _claim.group)
            _told = f"{_step.counted[0]} of {_step.counted[1]}" + (" ✓" if _same else ", NOT the same")
            _told += (
                "; the same runs ✓" if _step.same_runs else "; NOT the same runs (lake behind or rebuilt)"
            )
        _rows.append(
            {
                "record": f"{_step.pin['key']} version {_step.pin['version']}",
                "digest": "verified ✓" if _step.verified else "not verified",
                "group": _claim and f"{_claim.dimension} {_claim.value}",
                "counts": _claim and f"{_claim.group[0]:.0f} of {_claim.group[1]:.0f}",
                "interval": _claim and pages.span(*interval(_claim.group)),
                "rest": _claim and f"{_claim.rest[0]:.0f} of {_claim.rest[1]:.0f}",
                "rest_interval": _claim and pages.span(*interval(_claim.rest)),
                "label": _claim and _claim.label,
                "lake": _told,
            }
        )
    _titles = {
        "record": "record",
        "digest": "digest",
        "group": "group",
        "counts": "the noun says#",
        "interval": "95% interval#",
        "rest": "the rest#",
        "rest_interval": "95% interval#",
        "label": "label",
        "lake": "recounted from the lake",
    }
    pages.block("<h2>What it rests on</h2>" + pages.table(_titles, _rows))
    return (steps,)


@app.cell
def sides_plot(alt, interval, mo, pages, steps):
    _values = []
    for _place, _step in enumerate(steps):
        if _step.claim is None:
            continue
        for _side, _counts in (("the group", _step.claim.group), ("the rest", _step.claim.rest)):
            _low, _high = interval(_counts)
            _values.append(
                {
                    "row": f"{_place + 1}. {_side}  (n = {_counts[1]:.0f})",
                    "side": _side,
                    "rate": _counts[0] / _counts[1],
                    "low": _low,
                    "high": _high,
                }
            )
    mo.stop(not _values)
    _counted = (
        "failed so" if any(_step.claim and "fails" in _step.claim.claim for _step in steps) else "accepted"
    )
    _base = alt.Chart(alt.InlineData(values=_values)).encode(
        y=alt.Y("row:N", title=None, sort=None, axis=alt.Axis(labelLimit=300)),
        color=alt.Color(
            "side:N",
            title=None,
            legend=None,
            scale=alt.Scale(domain=["the group", "the rest"], range=[pages.ACCEPTED, pages.SMALL_SAMPLE]),
        ),
    )
    _scale = alt.Scale(domain=[0, 1])
    _x = alt.X(
        "low:Q", scale=_scale, title=f"{_counted}, with its 95% interval (%)", axis=alt.Axis(format=".0%")
    )
    _chart = (
        _base.mark_rule(strokeWidth=2).encode(x=_x, x2="high:Q")
        + _base.mark_point(filled=True, size=70, opacity=1).encode(x=alt.X("rate:Q", scale=_scale))
    ).properties(width=560, height=alt.Step(22))
    pages.block(pages.picture(_chart, "both sides of the lesson with their intervals"))
    return


@app.cell
def runs(mo, pages, steps):
    _followed = next((step for step in steps if step.runs is not None), None)
    mo.stop(_followed is None, mo.md("## Its runs\n\nNone of the records could be followed to runs."))
    _rows = _followed.runs.reverse().head(20).to_dicts()
    _titles = {
        "cursor": "cursor#",
        "run_id": "run",
        "kind": "kind",
        "method": "method",
        "result": "result",
        "retry": "retry",
        "failure_text": "failure (worker's words)",
    }
    pages.block(
        f"<h2>Its runs</h2><p>The newest {len(_rows)} of {_followed.runs.height:,} runs that the first record "
        "counted for the group.</p>" + pages.table(_titles, _rows)
    )
    return


if __name__ == "__main__":
    app.run()
