"""The memory index: the shapes of its nouns, and the lake's `memory_entries` table with one row an entry.

Promises explicit types for every column, and the same values in table and noun. Leaves out how entries are
made (`learners.memory`) and found (`tessera.advice`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

import pandera.polars as pa
import polars as pl

from tessera.advice.shapes import (
    ENTRY_BYTES,
    ENTRY_FIELDS,
    HEAD,
    MANIFEST,
    PIN_FIELDS,
    PINNED_SEGMENTS,
    SEGMENT,
    SEGMENT_ENTRIES,
)
from tessera.fingerprints import SCHEME
from tessera.observations import TRAINING_CORPUS

__all__ = [
    "CATEGORY",
    "ENTRY_BYTES",
    "ENTRY_FIELDS",
    "HEAD",
    "MANIFEST",
    "PINNED_SEGMENTS",
    "PIN_FIELDS",
    "SCHEMA",
    "SCHEME",
    "SEGMENT",
    "SEGMENT_ENTRIES",
    "MemoryEntries",
    "rows",
]

CATEGORY = "noun.eval_run"

SCHEMA: dict[str, pl.DataType] = {
    "queue": pl.String(),
    "head": pl.String(),
    "segment": pl.String(),
    "sha256": pl.String(),
    "position": pl.Int64(),
    "cursor": pl.Int64(),
    "run_id": pl.String(),
    "kind": pl.String(),
    "template": pl.String(),
    "scheme": pl.String(),
    "exact": pl.String(),
    "minhash": pl.String(),
    "result": pl.String(),
    "retry": pl.Boolean(),
    "task_id": pl.String(),
    "worker_outcome": pl.String(),
    "failure_reason": pl.String(),
    "problems": pl.List(pl.String()),
    "server_duration_seconds": pl.Float64(),
    "total_tokens": pl.Int64(),
    "reported_duration_seconds": pl.Float64(),
    "cost_amount": pl.Float64(),
    "cost_currency": pl.String(),
    "cost_source": pl.String(),
    "use_policy": pl.String(),
}
"""Columns of the lake's table; ``segment`` and ``sha256`` name the noun that an entry stands in."""

_KNOWN = (
    "queue",
    "head",
    "segment",
    "sha256",
    "position",
    "cursor",
    "run_id",
    "kind",
    "scheme",
    "result",
    "retry",
    "task_id",
    "problems",
    "use_policy",
)

MemoryEntries = pa.DataFrameSchema(
    {
        name: pa.Column(
            dtype,
            checks=[pa.Check.isin(["accepted", "failed"])] if name == "result" else None,
            nullable=name not in _KNOWN,
        )
        for name, dtype in SCHEMA.items()
    },
    unique=["head", "cursor"],
    strict=True,
    ordered=True,
    name="memory_entries",
)


def rows(
    queue: str, head: str, segment: str, sha256: str, body_entries: Sequence[Mapping[str, Any]]
) -> pl.DataFrame:
    """A segment's entries as rows of the table, in their order."""
    made = []
    for position, entry in enumerate(body_entries):
        cost = entry["cost"] or {}
        made.append(
            {
                **{name: entry[name] for name in ENTRY_FIELDS if name != "cost"},
                "cursor": int(entry["cursor"]),
                "queue": queue,
                "head": head,
                "segment": segment,
                "sha256": sha256,
                "position": position,
                "scheme": SCHEME,
                **{f"cost_{name}": cost.get(name) for name in ("amount", "currency", "source")},
                "use_policy": TRAINING_CORPUS,
            }
        )
    return pl.DataFrame(
        [pl.Series(name, [one[name] for one in made], dtype=dtype) for name, dtype in SCHEMA.items()]
    )
