"""The lake's tables of learned nouns: what stands in the store, as rows.

Promises that a queue's part of a table is what its nouns say after each materialization, also after a crash
in between, and that nothing is written when it already is. Leaves out the columns: those are in `schemas`.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import polars as pl

from assets.lake import Lake
from assets.scope_runs import Stand
from tessera.client import Client

Rows = Callable[[str, int, str, str, Mapping[str, Any]], pl.DataFrame]
"""Queue, version, sha256, key and body of a noun as rows of a table that has all but the body as columns."""
Keep = Callable[[Client, Lake, str, Sequence[Stand]], None]
Nouns = Callable[[Client, Stand], Sequence[Mapping[str, Any]]]


def newest(table: str, rows: Rows, empty: pl.DataFrame, model: Any) -> Keep:
    """Keeps the newest version of each entry's state noun, and nothing else of the queue."""

    def keep(client: Client, lake: Lake, queue: str, stands: Sequence[Stand]) -> None:
        records = [stand.standing for stand in stands]
        if _versions(lake, table, queue) == {(one["key"], int(one["version"])) for one in records}:
            return
        frames = [_rows(rows, queue, record) for record in records]
        lake.write_table(table, queue, model.validate(pl.concat([empty, *frames]), lazy=True))

    return keep


def every(table: str, rows: Rows, empty: pl.DataFrame, model: Any, nouns: Nouns) -> Keep:
    """Keeps every version that was seen to stand of the nouns of each entry."""

    def keep(client: Client, lake: Lake, queue: str, stands: Sequence[Stand]) -> None:
        known = _versions(lake, table, queue)
        records = [record for stand in stands for record in nouns(client, stand)]
        new = [record for record in records if (record["key"], int(record["version"])) not in known]
        if not new:
            return
        held = [lake.collect(lake.scan(table).filter(pl.col("queue") == queue))] if known else []
        frames = [_rows(rows, queue, record) for record in new]
        made = pl.concat([empty, *held, *frames]).sort("key", "version", maintain_order=True)
        lake.write_table(table, queue, model.validate(made, lazy=True))

    return keep


def _rows(rows: Rows, queue: str, record: Mapping[str, Any]) -> pl.DataFrame:
    return rows(queue, int(record["version"]), record["sha256"], record["key"], record["body"])


def _versions(lake: Lake, table: str, queue: str) -> set[tuple[str, int]]:
    """The nouns that a table has rows of, by key and version."""
    if lake.version(table) is None:
        return set()
    mine = lake.scan(table).filter(pl.col("queue") == queue)
    return set(lake.collect(mine.select("key", "version").unique()).iter_rows())
