"""Lessons as a noun, and what became of each proposal as a table: one row a proposal of a step.

Promises that a fault of options or body is named by its path, and that every column of the table is typed
even when all null. Leaves out how lessons are earned: that is `learners.lessons`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from schemas.nouns import CITATION, COMMON, CURSOR, PREFIX, SHA256, choice, model, prefix
from schemas.rules import mapping
from tessera.checks import array, nullable, number, text
from tessera.errors import Fault

BODY_SCHEMA = "tessera.lessons.v1"
CATEGORY = "noun.reflex_procedure"
STORE = "learn.memory"
TARGETS = ("memory", "user")
OUTCOMES = ("applied", "rejected", "failed")

_OPTIONS = mapping({}, {"threshold": number(1), "proposer": text(128), "gate": text(128)})


def options_faults(options: Any, root: str = "options") -> list[Fault]:
    """What is wrong with the learner's options, empty when they are fine; total."""
    return list(_OPTIONS(options, root))


_ENTRY = mapping(
    {
        "key": nullable(text(1 << 16)),
        "text": text(1 << 16),
        "support": array(1000, CITATION),
        "runs_sha256": nullable(SHA256),
        "earned_at": nullable(text(64)),
        "recheck_at": nullable(text(64)),
    }
)
_BODY = mapping(
    {
        **COMMON,
        "schema": choice(BODY_SCHEMA),
        "cursor": CURSOR,
        "target": choice(*TARGETS),
        "entries": array(2200, _ENTRY),
    }
)


def body_faults(body: Any, root: str = "body") -> list[Fault]:
    """What is wrong with the shape of a lessons body, empty when it is fine; total."""
    return list(_BODY(body, root))


_S, _I, _F = pl.String(), pl.Int64(), pl.Float64()
SCHEMA: dict[str, Any] = {
    **PREFIX,
    "position": _I,
    "outcome": _S,
    "target": _S,
    "action": _S,
    "lesson": _S,
    "match": _S,
    "text": _S,
    "score": _F,
    "reason": _S,
    "rationale": _S,
}
"""The lake's `review_outcomes`: one row a proposal; `version` is that of the state noun the step wrote."""

_OPTIONAL = ("kind", "lesson", "match", "text", "reason", "rationale")
ReviewOutcomes = model(
    "review_outcomes",
    SCHEMA,
    required=tuple(column for column in SCHEMA if column not in _OPTIONAL),
    rules={
        "outcome": pl.col("outcome").is_in(list(OUTCOMES)),
        "target": pl.col("target").is_in(list(TARGETS)),
        "score": pl.col("score").is_between(0, 1),
        "reason": pl.col("reason").is_not_null() | (pl.col("outcome") == "applied"),
    },
)


def rows(
    queue: str,
    version: int,
    sha256: str,
    key: str,
    body: Mapping[str, Any],
    outcomes: Mapping[str, Sequence[Mapping[str, Any]]],
) -> pl.DataFrame:
    """A step's proposals as rows: `outcomes` has `applied`, a list of proposals, and two lists with
    reasons.
    """
    shared = prefix(queue, version, sha256, key, body)
    told = [("applied", proposal, None) for proposal in outcomes["applied"]]
    told += [(name, one["proposal"], one["reason"]) for name in OUTCOMES[1:] for one in outcomes[name]]
    return table(
        [
            {
                **shared,
                "position": position,
                "outcome": outcome,
                "target": proposal["target"],
                "action": proposal["op"]["action"],
                "lesson": proposal["op"].get("key"),
                "match": proposal["op"].get("match"),
                "text": proposal["op"].get("text"),
                "score": float(proposal["score"]),
                "reason": reason,
                "rationale": proposal.get("rationale"),
            }
            for position, (outcome, proposal, reason) in enumerate(told)
        ]
    )


def table(records: Sequence[Mapping[str, Any]] = ()) -> pl.DataFrame:
    """Rows of the table with their declared types, also when there are none."""
    return pl.DataFrame(list(records), schema=SCHEMA, orient="row")
