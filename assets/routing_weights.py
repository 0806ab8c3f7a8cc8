"""The asset `routing_weights`: the share of the work that each arm should get, published as nouns.

What is its own: the table `routing_weights`, posteriors and weights by category. Weights advise and grant
nothing. Leaves out how they come about, which is `learners.routing_weights`.
"""

from collections.abc import Mapping
from typing import Any

from assets import plots
from assets.learned_tables import newest
from assets.learner_asset import Shown, Stands
from assets.markdown import figure, interval, table
from assets.scope_runs import Stand
from learners.routing_weights import LEARNER
from schemas import routing_weights as schema
from tessera.client import Client

_VERSIONS = 30
_TABLE_ARMS = 40
_HEADS = ("category", "arm", "attempts", "accepted", "drawn", "mean", "95% interval", "score", "weight")


def _figures(stand: Stand) -> dict[str, Any]:
    categories = stand.body["categories"]
    arms = [arm for category in categories for arm in category["arms"]]
    return {
        "dimension": stand.body["dimension"],
        "runs": stand.body["window"]["count"],
        "categories": len(categories),
        "arms": len(arms),
        "attempts_with_an_arm": sum(arm["attempts"] for arm in arms),
        "attempts_drawn": sum(arm["randomized"] for arm in arms),
        "label": stand.body["label"],
    }


def _title(body: Mapping[str, Any]) -> str:
    return f"{body['dimension']} on {body['scope']['queue']}"


def _table(stands: Stands) -> str:
    return "\n\n".join(_arms(stand.body) for stand in stands)


def _arms(body: Mapping[str, Any]) -> str:
    """Each category's arms; what nobody reported has a row of counts and no weight."""
    rows = []
    for category in body["categories"]:
        name = "–" if category["category"] is None else category["category"]
        rows += [[name, *_cells(arm)] for arm in category["arms"]]
        silent = category["unreported"]
        if silent["accepted"] + silent["failed"]:
            counts = [str(silent["accepted"] + silent["failed"]), str(silent["accepted"])]
            rows.append([name, "–", *counts, *[""] * 5])
    more = len(rows) - _TABLE_ARMS
    shown = table(_HEADS, rows[:_TABLE_ARMS], _title(body))
    return shown if more <= 0 else f"{shown}\n\nand {more} more rows in the noun"


def _cells(arm: Mapping[str, Any]) -> list[str]:
    return [
        arm["arm"] or "none",
        *(str(arm[name]) for name in ("attempts", "accepted", "randomized")),
        figure(arm["mean"]),
        interval(arm["interval_low"], arm["interval_high"]),
        *(figure(arm[name]) for name in ("score", "weight")),
    ]


def _plot(stands: Stands) -> str:
    drawn = [
        (plots.posteriors(stand.body["categories"], _title(stand.body)), _title(stand.body))
        for stand in stands
    ]
    return "\n\n".join(plots.inline(picture, f"posteriors and weights, {title}") for picture, title in drawn)


def _over_versions(client: Client, stands: Stands) -> str:
    """Each arm's weight from version to version of the noun, the newest thirty."""
    made = []
    for stand in stands:
        record = stand.standing
        newest = int(record["version"])
        series = []
        for version in range(max(1, newest - _VERSIONS + 1), newest + 1):
            one = client.get_record(record["store"], record["key"], version)
            for category in one["body"]["categories"]:
                of = "all" if category["category"] is None else category["category"]
                series += [(version, of, arm["arm"] or "none", arm["weight"]) for arm in category["arms"]]
        title = _title(stand.body)
        if series:
            drawn = plots.over_versions(series, title)
            made.append(plots.inline(drawn, f"weights over versions, {title}"))
    return "\n\n".join(made) or "no arm has a weight yet"


SHOWN = Shown(
    name="routing_weights",
    learner=LEARNER,
    description="The share of a category's work that each arm of a dimension should get, with its posterior.",
    figures=_figures,
    table=_table,
    plot=_plot,
    over_versions=_over_versions,
    keep=newest("routing_weights", schema.rows, schema.table(), schema.RoutingWeights),
)
