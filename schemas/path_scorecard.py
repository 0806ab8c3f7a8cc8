"""The path scorecard: the shape of its noun, and the lake's `scorecards` table with one row a group.

Promises explicit types for every column, and the same figures in table and noun. Leaves out how they are
computed: that is `learners.path_statistics`.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandera.polars as pa
import polars as pl

from tessera.canonical import dumps

BODY_SCHEMA = "tessera.path-scorecard.v1"
CATEGORY = "noun.eval_run"

_COUNTS = (
    "attempts",
    "accepted",
    "distinct_tasks",
    "retried",
    "imported",
    "blocked",
    "randomized",
)
_FIGURES = (
    "acceptance_rate",
    "wilson_low",
    "wilson_high",
    "median_server_duration_seconds",
    "median_total_tokens",
    "median_reported_duration_seconds",
)
_NESTED = ("median_cost", "worker_outcomes", "failure_reasons", "problems", "example_run_ids")

SCHEMA: dict[str, pl.DataType] = {
    "queue": pl.String(),
    "key": pl.String(),
    "version": pl.Int64(),
    "sha256": pl.String(),
    "cursor": pl.Int64(),
    "position": pl.Int64(),
    "dimensions": pl.String(),
    **dict.fromkeys(_COUNTS, pl.Int64()),
    **dict.fromkeys(_FIGURES, pl.Float64()),
    "small": pl.Boolean(),
    **dict.fromkeys(_NESTED, pl.String()),
    "use_policy": pl.String(),
}
"""Columns of the lake's table; ``dimensions`` and what nests is canonical JSON text, read by name."""

_KNOWN = pl.col("wilson_low").is_null() | (
    (pl.col("wilson_low") <= pl.col("acceptance_rate")) & (pl.col("acceptance_rate") <= pl.col("wilson_high"))
)


def _holds(expression: pl.Expr, message: str) -> pa.Check:
    def check(data: pa.PolarsData) -> pl.LazyFrame:
        return data.lazyframe.select(expression)

    return pa.Check(check, name=message, error=message)


Scorecards = pa.DataFrameSchema(
    {
        name: pa.Column(dtype, nullable=name in _FIGURES or name == "dimensions")
        for name, dtype in SCHEMA.items()
    },
    checks=[
        _holds(pl.col("accepted").is_between(0, pl.col("attempts")), "accepted is within attempts"),
        _holds(_KNOWN, "the interval holds the rate"),
    ],
    strict=True,
    ordered=True,
    name="scorecards",
)


def rows(queue: str, version: int, sha256: str, key: str, body: Mapping[str, Any]) -> pl.DataFrame:
    """A scorecard's groups as rows of the table, in the noun's order."""
    records = [
        {
            "queue": queue,
            "key": key,
            "version": version,
            "sha256": sha256,
            "cursor": int(body["cursor"]),
            "position": position,
            "use_policy": body["use_policy"]["training_corpus"],
            "small": group["small"],
            **{name: group[name] for name in (*_COUNTS, *_FIGURES)},
            **{name: dumps(group[name]).decode() for name in ("dimensions", *_NESTED)},
        }
        for position, group in enumerate(body["groups"])
    ]
    return table(records)


def table(records: Sequence[Mapping[str, Any]] = ()) -> pl.DataFrame:
    """Rows of the table with their declared types, also when there are none."""
    return pl.DataFrame(
        [pl.Series(name, [record[name] for record in records], dtype=dtype) for name, dtype in SCHEMA.items()]
    )
