"""Rows of observations as rows of fingerprints, and a part of a large queue as a file of them.

Promises what a process that computes parts needs, and no more: it starts without Dagster. Leaves out which
rows are due: see `assets.fingerprints`.
"""

from dataclasses import dataclass

import polars as pl

from assets import data_files
from assets.data_files import DataFile
from assets.windows import Cut, Slice
from learners.fingerprints import exact_fingerprints, observation_signatures
from schemas.fingerprints import SCHEMA, Fingerprints
from tessera.fingerprints import SCHEME

TABLE = "fingerprints"
_AT_ONCE = 50_000
READ = (
    "queue",
    "cursor",
    "run_id",
    "kind",
    "private",
    "wording",
    "problem",
    "types_input",
    "types_output",
    "input_type",
    "input_digest",
    "use_policy",
)


@dataclass(frozen=True, slots=True)
class Task:
    """A part to be fingerprinted, wherever, into a file of that name."""

    cut: Cut
    part: Slice
    name: str


def compute(task: Task) -> DataFile:
    """Write a part's fingerprints, some rows at a time."""
    batches = task.cut.batches(task.part, READ, _AT_ONCE)
    made = (Fingerprints.validate(fingerprinted(rows)) for rows in batches)
    return data_files.write(task.cut.lake, TABLE, task.cut.scope.queue, task.name, made)


def fingerprinted(rows: pl.DataFrame) -> pl.DataFrame:
    """Rows of `observations` (at least the columns of ``READ``) as rows of the table."""
    found = observation_signatures(rows)
    return rows.with_columns(
        pl.lit(SCHEME).alias("scheme"),
        exact_fingerprints(rows),
        found.encoded(),
        pl.Series("features", found.features, dtype=pl.Int64),
    ).select(list(SCHEMA))
