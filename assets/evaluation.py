"""The asset `evaluation`: whether weights, or lessons, would have done better, published as nouns.

What is its own: the table `evaluations`, which keeps each version, and the estimates as a table and a plot. A
verdict moves nothing by itself. Leaves out the judging, which is `learners.evaluation`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from assets import plots
from assets.learned_tables import every
from assets.learner_asset import Shown, Stands
from assets.markdown import figure, interval, table
from assets.publish import read_state
from assets.scope_runs import Stand
from learners.evaluation import LEARNER
from schemas import evaluation as schema
from tessera.client import Client

_NAMES = {"ips": "IPS", "snips": "SNIPS", "dr": "DR"}
_LESSONS = 30


def _figures(stand: Stand) -> dict[str, Any]:
    body = stand.body
    return {
        "dimension": body["dimension"],
        "verdict": body["verdict"],
        "candidate": _cited(body["candidate"]),
        "standing": _cited(body["standing"]),
        "number": body["number"],
        "rows": body["rows"],
        "unsupported": body["unsupported"],
        "lessons": len(body.get("lessons", ())),
    }


def _cited(cited: Mapping[str, Any] | None) -> str:
    return "none" if cited is None else f"{cited['key']} version {cited['version']}"


def _nouns(client: Client, stand: Stand) -> list[Mapping[str, Any]]:
    """The state, and the nouns of the lessons that it lists."""
    record, lessons = stand.standing, stand.body.get("lessons", ())
    found = [read_state(client, record["store"], f"{record['key']}:{one['key']}") for one in lessons]
    return [*(one for one in found if one is not None), record]


def _title(body: Mapping[str, Any]) -> str:
    return f"{body['dimension']} on {body['scope']['queue']}: {body['verdict']}"


def _table(stands: Stands) -> str:
    return "\n\n".join(_one(stand.body) for stand in stands)


def _one(body: Mapping[str, Any]) -> str:
    if "lessons" in body:
        rows = [[one["key"], str(one["rows"]), one["verdict"]] for one in body["lessons"][:_LESSONS]]
        return table(("lesson", "rows", "verdict"), rows, _title(body))
    rows = [
        [name, figure(one.get("estimate")), interval(one["low"], one["high"])]
        for name, _, one in _spans(body)
    ]
    made = table(("estimate", "value", "interval"), rows, _title(body))
    if not body["rows"]:
        made = f"**{_title(body)}**\n\nNo draws after the candidate's own runs yet to judge it on."
    compliance = figure(body["compliance"]) or "unknown"
    said = [
        f"candidate {_cited(body['candidate'])}, baseline {_cited(body['baseline'])}",
        f"{body['rows']} rows, {body['unsupported']} unsupported, compliance {compliance}",
    ]
    return "\n\n".join([made, *said])


def _spans(body: Mapping[str, Any]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """Each estimate with its name and whose it is; last the sequence that the verdict comes from."""
    for estimator in schema.ESTIMATORS:
        for side in schema.SIDES:
            yield f"{_NAMES[estimator]} {side}", side, body["estimates"][estimator][side]
    yield "sequence of the DR difference", "difference", body["sequence"]


def _plot(stands: Stands) -> str:
    return "\n\n".join(_drawn(stand.body) for stand in stands)


def _drawn(body: Mapping[str, Any]) -> str:
    spans: Sequence[tuple[str, str, Mapping[str, Any]]] = list(_spans(body))
    if all(one["low"] is None for _, _, one in spans):
        return f"Nothing to draw yet of {_title(body)}: {body['rows']} rows."
    return plots.inline(plots.estimates(spans, _title(body)), f"estimates, {_title(body)}")


SHOWN = Shown(
    name="evaluation",
    learner=LEARNER,
    description="Whether a candidate would have done better than what stands, judged on randomized draws.",
    figures=_figures,
    table=_table,
    plot=_plot,
    keep=every("evaluations", schema.rows, schema.table(), schema.Evaluations, _nouns),
    deps=("observations", "routing_weights"),
)
