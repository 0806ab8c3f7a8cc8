"""A queue's scorecards, read from the lake: which way of working is accepted how often, and how surely.

Reads Parquet and nothing else: no store has to run, and nothing is locked while it is open.
"""

import marimo

app = marimo.App(width="medium", app_title="Scorecard")


@app.cell
def _():
    import json

    import altair as alt
    import marimo as mo
    import polars as pl

    from assets.lake import Lake
    from tessera.settings import Settings

    return Lake, Settings, alt, json, mo, pl


@app.cell
def _(Lake, Settings, mo):
    lake = Lake(Settings.from_environment().lake)
    has_scorecards = lake.open("scorecards") is not None
    mo.md(
        f"""
        # Scorecards

        Attempts, accepted, and the 95% Wilson interval of the rate, for every group of runs, from the lake at
        `{lake.location}`. They are observational: groups saw different inputs, so a difference is an
        association, not an effect.
        """
        if has_scorecards
        else f"""
        # No scorecards yet

        The lake at `{lake.location}` holds none. `make run` fills it once with real work of this machine; for
        your own queue, `workspace run` does. Then open this page again.
        """
    )
    return has_scorecards, lake


@app.cell
def _(has_scorecards, lake, mo, pl):
    mo.stop(not has_scorecards)
    table = lake.scan("scorecards").collect()
    cards = table.group_by("queue", "key", "version").len().sort("len", "key", descending=[True, False])
    asked = mo.cli_args().get("queue")
    labels = {
        f"{key} · version {version}": (queue, key)
        for queue, key, version, _ in cards.iter_rows()
        if asked in (None, queue)
    }
    # The card with most groups says most, so it comes first.
    chosen = mo.ui.dropdown(labels, value=next(iter(labels), None), label="scorecard")
    chosen
    return chosen, table


@app.cell
def _(chosen, json, mo, pl, table):
    mo.stop(chosen.value is None, mo.md("The scorecards hold no groups yet: no run has been counted."))
    queue, key = chosen.value
    rows = table.filter((pl.col("queue") == queue) & (pl.col("key") == key)).sort("position")
    names = [
        " · ".join("not reported" if value is None else str(value) for value in json.loads(text).values())
        for text in rows["dimensions"]
    ]
    groups = rows.select(
        pl.Series("group", names, dtype=pl.String),
        "attempts",
        "accepted",
        "acceptance_rate",
        "wilson_low",
        "wilson_high",
        "distinct_tasks",
        "retried",
        "median_reported_duration_seconds",
        "small",
    ).to_dicts()
    return groups, rows


@app.cell
def _(alt, groups, mo):
    share = alt.Scale(domain=[0, 1])
    base = alt.Chart(alt.Data(values=groups)).encode(
        y=alt.Y("group:N", sort=None, title=None, axis=alt.Axis(labelLimit=420))
    )
    span = base.mark_rule(strokeWidth=3, color="#9fb3d9").encode(
        x=alt.X(
            "wilson_low:Q", title="accepted, with its 95% interval", scale=share, axis=alt.Axis(format="%")
        ),
        x2="wilson_high:Q",
    )
    dot = base.mark_circle(size=80, color="#3a55a4").encode(
        x="acceptance_rate:Q", tooltip=["group:N", "attempts:Q", "accepted:Q"]
    )
    mo.ui.altair_chart(
        (span + dot).properties(width=520, height=alt.Step(22)), chart_selection=False, legend_selection=False
    )
    return


@app.cell
def _(groups, mo):
    percent = dict.fromkeys(("acceptance_rate", "wilson_low", "wilson_high"), "{:.1%}")
    mo.ui.table(groups, selection=None, page_size=25, format_mapping=percent)
    return


@app.cell
def _(mo, rows):
    mo.md(
        f"Published as version {rows['version'][0]} of `{rows['key'][0]}`, sha256 `{rows['sha256'][0]}`, "
        f"from runs up to cursor {rows['cursor'][0]}."
    )
    return


if __name__ == "__main__":
    app.run()
