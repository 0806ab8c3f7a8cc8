"""The lake's `memory_entries` table: the entries of a queue's indexes as rows, in step with their heads.

Promises that what a run published is appended with the head's version in one commit, and that a table which
is not in step (a crash between, a restart, another writer) is read anew from the store, every digest checked.
Leaves out what an index means.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from assets.lake import Lake
from learners.contract import Noun, Scope
from learners.memory_checks import Coverage, coverage
from schemas.memory import SCHEMA, SEGMENT, MemoryEntries, rows
from tessera.advice.index import Cache, IndexFault, load, pins
from tessera.client import Client

TABLE = "memory_entries"


def append(lake: Lake, queue: str, nouns: Sequence[Noun], head: Mapping[str, Any], replaced: int) -> bool:
    """Add the entries of new segments, when the table stands at the head's version before; else nothing.

    ``head`` is the published record's ``{store, key, version, sha256}``, ``replaced`` the version before it.
    """
    store_id = lake.store_id()
    if store_id is None:
        return False
    table = lake.ensure(TABLE, SCHEMA, store_id)
    if (table.transaction_version(head["key"]) or 0) != replaced:
        return False
    frames = [
        rows(queue, head["key"], noun.key, noun.sha256(), noun.body["entries"])
        for noun in nouns
        if noun.body["schema"] == SEGMENT
    ]
    lake.append(table, _frame(frames), {head["key"]: head["version"]})
    return True


def in_step(lake: Lake, heads: Mapping[str, int]) -> bool:
    """Whether the table holds what these versions of the heads pin."""
    table = lake.open(TABLE)
    return table is not None and all(
        table.transaction_version(key) == version for key, version in heads.items()
    )


def read_anew(client: Client, lake: Lake, queue: str, heads: Sequence[str]) -> None:
    """Replace a queue's rows by what its heads pin in the store now."""
    store_id = lake.store_id()
    if store_id is None:
        return
    table = lake.ensure(TABLE, SCHEMA, store_id)
    held = lake.collect(table.lazy().filter(pl.col("queue") == queue).select(pl.col("head").unique()))
    frames, versions = [], dict.fromkeys(held["head"], 0)
    for key in heads:
        index = load(client, key, Cache())
        if index is None:
            continue
        versions[key] = index.version
        pinned = pins(client, index.store, index.body)
        for pin, segment in zip(pinned, index.segments, strict=True):
            entries = [segment.entry(position) for position in range(len(segment))]
            frames.append(rows(queue, key, pin["key"], pin["sha256"], entries))
    lake.replace(table, queue, _frame(frames), versions)


def covered(lake: Lake, scope: Scope, head: str, cursor: str, surface: Mapping[str, Any] | None) -> Coverage:
    """Hold an index's entries against the lake's rows that count up to its cursor."""
    counted = lake.observations(
        scope.queue, kind=scope.kind, upto=int(cursor), columns=["cursor", "run_id", "private"]
    )
    if surface is not None:
        counted = counted.filter(~pl.col("private"))
    table = lake.open(TABLE)
    if table is None:
        indexed = pl.DataFrame(schema=SCHEMA)
    else:
        mine = (pl.col("queue") == scope.queue) & (pl.col("head") == head)
        indexed = lake.collect(table.lazy().filter(mine).select("cursor", "run_id"))
    return coverage(counted, indexed)


def _frame(frames: Sequence[pl.DataFrame]) -> pl.DataFrame:
    made = pl.concat([pl.DataFrame(schema=SCHEMA), *frames])
    checked: pl.DataFrame = MemoryEntries.validate(made, lazy=True)
    return checked


__all__ = ["TABLE", "IndexFault", "append", "covered", "in_step", "read_anew"]
