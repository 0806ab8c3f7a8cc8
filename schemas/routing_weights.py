"""Routing weights as a noun and as a table: the shape of options and body, and one row an arm in the lake.

Promises that a fault of options or body is named by its path, and that every column of the table is typed
even when all null. Leaves out how weights come about: that is `learners.routing_weights`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from schemas.nouns import COMMON, CURSOR, PREFIX, SHA256, WINDOW, choice, model, prefix
from schemas.rules import integer, mapping
from tessera.checks import Check, array, nullable, number, text
from tessera.errors import Fault

BODY_SCHEMA = "tessera.routing-weights.v1"
CATEGORY = "noun.reflex_procedure"
DIMENSIONS = ("template", "phrasing", "shim", "method", "harness", "model")
LABELS = ("observational", "randomized")
MAX_KNOWN_ARMS = 1000
MAX_ARM_BYTES = 128

_ARM = text(MAX_ARM_BYTES)


def _known_arms(value: Any, path: str) -> Iterator[Fault]:
    faults = list(array(MAX_KNOWN_ARMS, _ARM)(value, path))
    yield from faults
    if not faults:
        seen: set[str] = set()
        for position, arm in enumerate(value):
            if arm in seen:
                yield Fault(f"{path}[{position}]", "must not be listed twice")
            seen.add(arm)


_OPTIONS = mapping(
    {"dimension": choice(*DIMENSIONS)},
    {
        "by": choice("category", "template"),
        "epsilon": number(1),
        "min_evidence": integer(0),
        "last": integer(1),
        "known_arms": _known_arms,
        "baseline": mapping({"arm": _ARM, "share": number(1)}),
    },
)


def options_faults(options: Any, root: str = "options") -> list[Fault]:
    """What is wrong with the learner's options, empty when they are fine; total."""
    return list(_OPTIONS(options, root))


_COUNT = integer(0)
_SHARE = number(1)


def _arm_label(value: Any, path: str) -> Iterator[Fault]:
    # a run that declares it used no model has the arm "" of that dimension
    if value != "":
        yield from _ARM(value, path)


ARM_FIELDS: dict[str, Check] = {
    "arm": _arm_label,
    "accepted": _COUNT,
    "failed": _COUNT,
    "attempts": _COUNT,
    "randomized": _COUNT,
    "alpha": integer(1),
    "beta": integer(1),
    "mean": _SHARE,
    "interval_low": _SHARE,
    "interval_high": _SHARE,
    "score": _SHARE,
    "weight": _SHARE,
}
"""The fields of one arm in the body, and their rules."""

_BODY = mapping(
    {
        **COMMON,
        "schema": choice(BODY_SCHEMA),
        "cursor": CURSOR,
        "dimension": choice(*DIMENSIONS),
        "window": WINDOW,
        "runs_sha256": SHA256,
        "label": choice(*LABELS),
        "label_reason": text(512),
        "epsilon": _SHARE,
        "min_evidence": _COUNT,
        "baseline": nullable(mapping({"arm": _ARM, "share": _SHARE})),
        "categories": array(
            1_000_000,
            mapping(
                {
                    "category": nullable(text(128)),
                    "arms": array(1_000_000, mapping(ARM_FIELDS)),
                    "unreported": mapping({"accepted": _COUNT, "failed": _COUNT}),
                }
            ),
        ),
    }
)


def body_faults(body: Any, root: str = "body") -> list[Fault]:
    """What is wrong with the shape of a routing-weights body, empty when it is fine; total."""
    return list(_BODY(body, root))


_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()
SCHEMA: dict[str, Any] = {
    **PREFIX,
    "dimension": _S,
    "window_after": _I,
    "window_upto": _I,
    "window_count": _I,
    "runs_sha256": _S,
    "label": _S,
    "epsilon": _F,
    "min_evidence": _I,
    "baseline_arm": _S,
    "baseline_share": _F,
    "category": _S,
    "unreported_accepted": _I,
    "unreported_failed": _I,
    "arm": _S,
    "accepted": _I,
    "failed": _I,
    "attempts": _I,
    "randomized": _I,
    "alpha": _I,
    "beta": _I,
    "mean": _F,
    "interval_low": _F,
    "interval_high": _F,
    "score": _F,
    "weight": _F,
}
"""The lake's `routing_weights`: one row an arm; a category without arms is one row whose `arm` is null."""

_NULLABLE = {"kind", "category", "baseline_arm", "baseline_share", *ARM_FIELDS}
RoutingWeights = model(
    "routing_weights",
    SCHEMA,
    required=tuple(column for column in SCHEMA if column not in _NULLABLE),
    rules={
        "weight": pl.col("weight").is_between(0, 1),
        "score": pl.col("score").is_between(0, 1),
        "mean": pl.col("mean").is_between(pl.col("interval_low"), pl.col("interval_high")),
        "attempts": pl.col("attempts") == pl.col("accepted") + pl.col("failed"),
        "label": pl.col("label").is_in(list(LABELS)),
    },
)


def rows(queue: str, version: int, sha256: str, key: str, body: Mapping[str, Any]) -> pl.DataFrame:
    """A noun's arms as rows of the table, in the noun's order."""
    shared = {
        **prefix(queue, version, sha256, key, body),
        "dimension": body["dimension"],
        **{f"window_{name}": int(body["window"][name]) for name in ("after", "upto", "count")},
        **{name: body[name] for name in ("runs_sha256", "label", "epsilon", "min_evidence")},
        "baseline_arm": body["baseline"]["arm"] if body["baseline"] else None,
        "baseline_share": body["baseline"]["share"] if body["baseline"] else None,
    }
    records: list[dict[str, Any]] = []
    for category in body["categories"]:
        one = {
            **shared,
            "category": category["category"],
            "unreported_accepted": category["unreported"]["accepted"],
            "unreported_failed": category["unreported"]["failed"],
        }
        records += [{**one, **arm} for arm in category["arms"] or [dict.fromkeys(ARM_FIELDS)]]
    return table(records)


def table(records: Sequence[Mapping[str, Any]] = ()) -> pl.DataFrame:
    """Rows of the table with their declared types, also when there are none."""
    return pl.DataFrame(list(records), schema=SCHEMA, orient="row")
