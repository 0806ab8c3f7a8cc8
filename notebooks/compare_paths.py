"""Compare paths: which way of working is accepted how often, how surely, and which differences hold.

Reads the scorecards of the lake and nothing else: no store has to run, and nothing is locked while it is open.
"""

import marimo

app = marimo.App(width="medium", app_title="Compare paths")


@app.cell
def imports():
    import json

    import altair as alt
    import marimo as mo
    import polars as pl

    from assets.lake import Lake
    from learners.group_tests import LEVEL, group_tests
    from pipelines import notebook_pages as pages
    from tessera.settings import Settings

    return LEVEL, Lake, Settings, alt, group_tests, json, mo, pages, pl


@app.cell
def again_button(mo):
    again = mo.ui.run_button(label="read the lake again")
    again
    return (again,)


@app.cell
def the_lake(Lake, Settings, again, mo, pages):
    again
    lake = Lake(Settings.from_environment().lake)
    mo.stop(
        lake.open("scorecards") is None,
        pages.block(pages.nothing_yet("The lake has no scorecards yet", lake.location, *pages.EMPTY_STEPS)),
    )
    table = lake.collect(lake.scan("scorecards"))
    mo.stop(table.is_empty(), mo.md("The scorecards hold no groups yet: no run has been counted."))
    return (table,)


@app.cell
def choose(mo, table):
    _cards = table.group_by("queue", "key", "version").len()
    _asked = mo.cli_args().get("queue")
    # The card with most groups says most, so it comes first; what was asked for comes before.
    _order = sorted(_cards.iter_rows(), key=lambda card: (card[0] != _asked, -card[3], card[1]))
    cards = {f"{key} · version {version}": key for _, key, version, _ in _order}
    chosen = mo.ui.dropdown(cards, value=next(iter(cards)), label="scorecard")
    chosen
    return (chosen,)


@app.cell
def groups_of_the_card(chosen, group_tests, json, mo, pages, pl, table):
    mo.stop(chosen.value is None, mo.md("Choose a scorecard."))
    card = table.filter(pl.col("key") == chosen.value).sort("position")
    _groups = [{**row, "dimensions": json.loads(row["dimensions"])} for row in card.iter_rows(named=True)]
    groups = []
    for _group, _test in zip(_groups, group_tests(_groups), strict=True):
        _named = [
            "not reported" if value is None else value or "none"
            for name, value in _group["dimensions"].items()
            if name != "category"
        ]
        _path = " · ".join(_named) or "all"
        groups.append(
            {
                **_group,
                "category": _group["dimensions"].get("category") or "all",
                "path": _path[:60] + ("…" if len(_path) > 60 else ""),
                "sample": "under 5 attempts" if _group["small"] else "5 attempts or more",
                "interval": pages.span(_group["wilson_low"], _group["wilson_high"]),
                "rate": None if _group["acceptance_rate"] is None else f"{_group['acceptance_rate']:.0%}",
                "test": _test,
            }
        )
    return card, groups


@app.cell
def heading(LEVEL, card, groups, pages):
    _tests = [group["test"] for group in groups if group["test"].p is not None]
    _differ = sum(test.differs for test in _tests)
    _alone = sum(test.p < LEVEL for test in _tests)
    _small = sum(group["small"] for group in groups)
    _randomized = sum(group["randomized"] for group in groups)
    _attempts = sum(group["attempts"] for group in groups)
    pages.block(
        f"<h1>{pages.shown(card['queue'][0])}: its paths compared</h1>"
        "<p><b>Observational.</b> Paths saw different inputs, workers and times: a difference here is an "
        "association, not an effect. Only drawn paths can show effects; "
        f"{_randomized:,} of these {_attempts:,} attempts followed a draw of a grouped dimension.</p>"
        f"<p><b>{len(_tests)} comparisons were made</b>, each path against the rest of its category (two-sided "
        f"exact test). Were all paths alike, about {LEVEL * len(_tests):.1f} of them would still look "
        f"different at {LEVEL:.0%}. By itself {_alone} do; <b>after Holm's adjustment over all "
        f"{len(_tests)}, {_differ} differ</b>. Choosing another scorecard begins a family of its own.</p>"
        f"<p><b>Small samples:</b> {_small} of {len(groups)} groups have under 5 attempts. They are grey, and "
        "not tested. Retries of one task resemble each other, so where tasks are fewer than attempts the "
        "intervals are too narrow.</p>"
    )
    return


@app.cell
def intervals_plot(alt, groups, pages):
    _shown = [group for group in groups if group["attempts"]][:40]
    _values = [
        {
            "label": f"{group['path']}  (n = {group['attempts']})",
            "place": place,
            **{name: group[name] for name in ("category", "sample", "wilson_low", "wilson_high")},
            "rate": group["acceptance_rate"],
        }
        for place, group in enumerate(sorted(_shown, key=lambda one: (one["category"], -one["attempts"])))
    ]
    _base = alt.Chart().encode(
        y=alt.Y(
            "label:N",
            title=None,
            sort=alt.EncodingSortField("place", order="ascending"),
            axis=alt.Axis(labelLimit=420),
        ),
        color=alt.Color(
            "sample:N",
            title=None,
            legend=alt.Legend(orient="bottom"),
            scale=alt.Scale(
                domain=["5 attempts or more", "under 5 attempts"],
                range=[pages.ACCEPTED, pages.SMALL_SAMPLE],
            ),
        ),
    )
    _share = alt.Scale(domain=[0, 1])
    _rules = _base.mark_rule(strokeWidth=2).encode(
        x=alt.X(
            "wilson_low:Q",
            scale=_share,
            title="accepted, with its 95% Wilson interval (%)",
            axis=alt.Axis(format=".0%"),
        ),
        x2="wilson_high:Q",
    )
    _dots = _base.mark_point(filled=True, size=60, opacity=1).encode(x=alt.X("rate:Q", scale=_share))
    _chart = (
        alt.layer(_rules, _dots, data=alt.InlineData(values=_values))
        .properties(width=560, height=alt.Step(19))
        .facet(
            row=alt.Row(
                "category:N",
                title=None,
                header=alt.Header(labelAngle=0, labelAlign="left", labelOrient="top", labelFontWeight="bold"),
            )
        )
        .resolve_scale(y="independent")
    )
    _rest = f"<p>The 40 groups with most attempts of {len(groups)}.</p>" if len(groups) > 40 else ""
    pages.block(
        "<h2>Accepted, by path</h2>"
        + (pages.picture(_chart, "acceptance rates with intervals, by path") if _values else "")
        + _rest
    )
    return


@app.cell
def comparisons_table(LEVEL, groups, pages):
    def _verdict(group):
        test = group["test"]
        if test.p is None:
            return "not tested: small" if group["small"] else "not tested: nothing to compare with"
        if not test.differs:
            return "no difference shown"
        return "accepted more often" if test.difference > 0 else "accepted less often"

    _rows = []
    for _group in sorted(groups, key=lambda one: (one["test"].adjusted is None, one["test"].adjusted or 0)):
        _test = _group["test"]
        _rows.append(
            {
                **{name: _group[name] for name in ("category", "path", "rate", "interval", "distinct_tasks")},
                "counts": f"{_test.accepted} of {_test.attempts}" + (" (small)" if _group["small"] else ""),
                "rest": f"{_test.rest_accepted} of {_test.rest_attempts}",
                "gap": None
                if _test.difference is None
                else f"{100 * _test.difference:+.0f} ({100 * _test.low:+.0f} to {100 * _test.high:+.0f})",
                "p": _test.p,
                "holm": _test.adjusted,
                "verdict": _verdict(_group),
            }
        )
    _titles = {
        "category": "category",
        "path": "path",
        "verdict": f"at {LEVEL:.0%}, after Holm",
        "counts": "accepted#",
        "rate": "rate#",
        "interval": "95% interval#",
        "distinct_tasks": "tasks#",
        "rest": "the rest#",
        "gap": "difference, points (95%)#",
        "p": "p#",
        "holm": "p after Holm#",
    }
    pages.block(
        "<h2>Each path against the rest of its category</h2><p>The intervals of the differences are each by "
        "itself (Newcombe), not adjusted: judge by what stands after Holm.</p>" + pages.table(_titles, _rows)
    )
    return


@app.cell
def origin(card, mo):
    mo.md(
        f"Published as version {card['version'][0]} of `{card['key'][0]}`, sha256 `{card['sha256'][0]}`, "
        f"from runs up to cursor {card['cursor'][0]}."
    )
    return


if __name__ == "__main__":
    app.run()
