"""The asset `path_scorecard`: how often each path of a queue was accepted, published as a noun.

What is its own: the table `scorecards`, the groups as a table and as intervals. Leaves out the figures
themselves, which are `learners.path_statistics`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assets import plots
from assets.learned_tables import newest
from assets.learner_asset import Shown, Stands
from assets.markdown import figure, interval, line
from assets.scope_runs import Stand
from learners.path_statistics import LEARNER
from schemas import path_scorecard as schema

_TABLE_GROUPS = 30


def _figures(stand: Stand) -> dict[str, Any]:
    groups = stand.body["groups"]
    return {
        "runs": stand.body["window"]["count"],
        "accepted": sum(group["accepted"] for group in groups),
        "groups": len(groups),
    }


def _title(body: Mapping[str, Any]) -> str:
    by = f"by {', '.join(body['dimensions'])}" if body["dimensions"] else "overall"
    return f"{body['scope']['queue']} {by}"


def _groups(body: Mapping[str, Any]) -> str:
    """The groups with most attempts as a markdown table; unknown figures are left empty."""
    names: Sequence[str] = body["dimensions"]
    heads = [*names, "attempts", "accepted", "rate", "95% interval"]
    lines = [f"**{_title(body)}**", "", line(heads), line(["---"] * len(heads))]
    for group in body["groups"][:_TABLE_GROUPS]:
        values = ["–" if group["dimensions"][name] is None else group["dimensions"][name] for name in names]
        counts = [str(group["attempts"]), str(group["accepted"]), figure(group["acceptance_rate"])]
        lines.append(line([*values, *counts, interval(group["wilson_low"], group["wilson_high"])]))
    more = len(body["groups"]) - _TABLE_GROUPS
    return "\n".join([*lines, *(["", f"and {more} more groups in the noun"] if more > 0 else [])])


def _table(stands: Stands) -> str:
    return "\n\n".join(_groups(stand.body) for stand in stands)


def _plot(stands: Stands) -> str:
    drawn = [
        (plots.intervals(_in_order(stand.body), _title(stand.body)), _title(stand.body)) for stand in stands
    ]
    return "\n\n".join(plots.inline(png, f"acceptance, {title}") for png, title in drawn)


def _in_order(body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The groups, the values of each in the order in which the noun names its dimensions."""
    names = body["dimensions"]
    return [
        {**group, "dimensions": {name: group["dimensions"][name] for name in names}}
        for group in body["groups"]
    ]


SHOWN = Shown(
    name="path_scorecard",
    learner=LEARNER,
    description="How often each path was accepted, with its Wilson interval, costs and times.",
    figures=_figures,
    table=_table,
    plot=_plot,
    keep=newest("scorecards", schema.rows, schema.table(), schema.Scorecards),
)
