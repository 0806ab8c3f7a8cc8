"""An evaluation as a noun and as a table: what a candidate would have achieved beside a baseline, one row a
version.

Promises that a fault of options or body is named by its path, and that every column of the table is typed
even when all null. Leaves out the estimates themselves: those are `learners.off_policy`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import polars as pl

from schemas.nouns import CITATION, COMMON, CURSOR, PREFIX, SHA256, WINDOW, between, choice, model, prefix
from schemas.rules import integer, mapping, name
from tessera.checks import array, boolean, nullable, text
from tessera.errors import Fault

BODY_SCHEMA = "tessera.evaluation.v1"
CATEGORY = "noun.eval_run"
LESSON = "lesson"
DIMENSIONS = ("shim", "method", "harness", "model", LESSON)
VERDICTS = ("better", "worse", "keep_baseline")
ESTIMATORS = ("ips", "snips", "dr")
SIDES = ("candidate", "baseline", "difference")
MAX_CITED = 256

_OPTIONS = mapping({"dimension": choice(*DIMENSIONS)}, {"strategy": name, "last": integer(1)})


def options_faults(options: Any, root: str = "options") -> list[Fault]:
    """What is wrong with the learner's options, empty when they are fine; total."""
    faults = list(_OPTIONS(options, root))
    if not faults and "strategy" in options and options["dimension"] == LESSON:
        faults.append(
            Fault(f"{root}.strategy", "is not for the dimension lesson: lessons are judged one by one")
        )
    return faults


def _bounds(low: float, high: float) -> Any:
    end = nullable(between(low, high))
    return mapping({"low": end, "high": end})


def _estimate(low: float, high: float) -> Any:
    end = nullable(between(low, high))
    return mapping({"estimate": nullable(between(-1e300, 1e300)), "low": end, "high": end})


_THREE = mapping({"candidate": _estimate(0, 1), "baseline": _estimate(0, 1), "difference": _estimate(-1, 1)})
_COUNT = integer(0)
_SHARE = between(0, 1)
_FIGURE = between(0, 1e300)

_BODY = mapping(
    {
        **COMMON,
        "schema": choice(BODY_SCHEMA),
        "cursor": CURSOR,
        "dimension": choice(*DIMENSIONS),
        "window": WINDOW,
        "runs_sha256": SHA256,
        "candidate": nullable(CITATION),
        "baseline": nullable(CITATION),
        "standing": nullable(CITATION),
        "number": _COUNT,
        "minimum_evidence": integer(1),
        "alpha": nullable(_SHARE),
        "rows": _COUNT,
        "unsupported": _COUNT,
        "compliance": nullable(_SHARE),
        "effective_sample_size": mapping({"candidate": _FIGURE, "baseline": _FIGURE}),
        "largest_weight": mapping({"candidate": nullable(_FIGURE), "baseline": nullable(_FIGURE)}),
        "estimates": mapping(dict.fromkeys(ESTIMATORS, _THREE)),
        "sequence": _bounds(-1, 1),
        "verdict": choice(*VERDICTS),
        "cited": mapping(
            {
                "label": choice("observational"),
                "label_reason": text(512),
                "records": array(
                    MAX_CITED,
                    mapping(
                        {
                            "store": text(256),
                            "key": text(512),
                            "version": integer(1),
                            "attempts": integer(1),
                            "accepted": _COUNT,
                            "interval_low": _SHARE,
                            "interval_high": _SHARE,
                        }
                    ),
                ),
            }
        ),
    },
    {
        "lesson": text(64),
        "lessons": array(
            10_000,
            mapping({"key": text(64), "enough": boolean, "rows": _COUNT, "verdict": choice(*VERDICTS)}),
        ),
    },
)


def _verdict_fits(body: Mapping[str, Any], root: str) -> Iterator[Fault]:
    if body["candidate"] is None and "lesson" not in body and body["verdict"] != "keep_baseline":
        yield Fault(f"{root}.verdict", "must be keep_baseline without a candidate")


def body_faults(body: Any, root: str = "body") -> list[Fault]:
    """What is wrong with the shape of an evaluation body, empty when it is fine; total."""
    return list(_BODY(body, root)) or list(_verdict_fits(body, root))


_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()
_NUMBERS = {
    f"{estimator}_{side}{end}": _F
    for estimator in ESTIMATORS
    for side in SIDES
    for end in ("", "_low", "_high")
}
_CITED = {
    f"{who}_{field}": _I if field == "version" else _S
    for who in ("candidate", "baseline", "standing")
    for field in ("key", "version")
}
SCHEMA: dict[str, Any] = {
    **PREFIX,
    "dimension": _S,
    "lesson": _S,
    "window_after": _I,
    "window_upto": _I,
    "runs_sha256": _S,
    **_CITED,
    "number": _I,
    "minimum_evidence": _I,
    "alpha": _F,
    "rows": _I,
    "unsupported": _I,
    "compliance": _F,
    "effective_sample_size_candidate": _F,
    "effective_sample_size_baseline": _F,
    "largest_weight_candidate": _F,
    "largest_weight_baseline": _F,
    **_NUMBERS,
    "sequence_low": _F,
    "sequence_high": _F,
    "verdict": _S,
}
"""The lake's `evaluations`: one row a published version."""

_OPTIONAL = {"kind", "lesson", "alpha", "compliance", "sequence_low", "sequence_high", *_CITED, *_NUMBERS}
_OPTIONAL |= {"largest_weight_candidate", "largest_weight_baseline"}
Evaluations = model(
    "evaluations",
    SCHEMA,
    required=tuple(column for column in SCHEMA if column not in _OPTIONAL),
    rules={
        "verdict": pl.col("verdict").is_in(list(VERDICTS)),
        "compliance": pl.col("compliance").is_between(0, 1),
        "sequence_low": pl.col("sequence_low") <= pl.col("sequence_high"),
        "rows": pl.col("rows") >= 0,
    },
)


def rows(queue: str, version: int, sha256: str, key: str, body: Mapping[str, Any]) -> pl.DataFrame:
    """One published version as a row of the table."""
    record: dict[str, Any] = {
        **prefix(queue, version, sha256, key, body),
        "lesson": body.get("lesson"),
        "window_after": int(body["window"]["after"]),
        "window_upto": int(body["window"]["upto"]),
        "sequence_low": body["sequence"]["low"],
        "sequence_high": body["sequence"]["high"],
    }
    for who in ("candidate", "baseline", "standing"):
        cited = body[who] or {}
        record |= {f"{who}_key": cited.get("key"), f"{who}_version": cited.get("version")}
    for figure in ("effective_sample_size", "largest_weight"):
        record |= {f"{figure}_{side}": body[figure][side] for side in ("candidate", "baseline")}
    for estimator in ESTIMATORS:
        for side in SIDES:
            found = body["estimates"][estimator][side]
            record |= {f"{estimator}_{side}": found["estimate"]}
            record |= {f"{estimator}_{side}_{end}": found[end] for end in ("low", "high")}
    record |= {column: body[column] for column in SCHEMA if column in body and column not in record}
    return table([record])


def table(records: Sequence[Mapping[str, Any]] = ()) -> pl.DataFrame:
    """Rows of the table with their declared types, also when there are none."""
    return pl.DataFrame(list(records), schema=SCHEMA, orient="row")
