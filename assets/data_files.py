"""Files of a table written before it has them: each part writes its own, and one commit brings them all.

Promises that no reader sees a file before its commit, and all of a commit's files with it. One that no commit
ever names, because its process died, is removed by `assets.upkeep`. Leaves out what is in them.
"""

import json
import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import polars as pl
import pyarrow.fs
import pyarrow.parquet
from deltalake.transaction import AddAction, RemoveAction

from assets.lake import Lake, properties
from assets.snapshots import Snapshot
from assets.views import LakeError


@dataclass(frozen=True, slots=True)
class DataFile:
    """A file by its path in the table: its bytes, its rows, and their lowest and highest cursor."""

    path: str
    size: int
    rows: int
    low: int
    high: int

    def statistics(self) -> str:
        """As a Delta log has them."""
        bounds = {"minValues": {"cursor": self.low}, "maxValues": {"cursor": self.high}}
        return json.dumps({"numRecords": self.rows, **bounds, "nullCount": {"cursor": 0}})


def path_of(queue: str, name: str) -> str:
    """Where a file of a queue lies in a table that is partitioned by queue."""
    return f"queue={queue}/{name}.parquet"


def write(lake: Lake, table: str, queue: str, name: str, frames: Iterable[pl.DataFrame]) -> DataFile:
    """Write rows of a queue, in the order of their cursor and never none, as a file of a table."""
    path, writer = path_of(queue, name), None
    rows = low = high = 0
    with lake.trouble("write"), lake.filesystem(table).open_output_stream(path) as sink:
        for frame in frames:
            block = frame.drop("queue").to_arrow(compat_level=pl.CompatLevel.oldest())
            if writer is None:
                writer = pyarrow.parquet.ParquetWriter(
                    sink, block.schema, compression="zstd", compression_level=1
                )
                low = int(frame["cursor"][0])
            writer.write_table(block)
            rows, high = rows + frame.height, int(frame["cursor"][-1])
        if writer is None:
            raise LakeError(f"there are no rows to write as {path}")
        writer.close()
        size = sink.tell()
    return DataFile(path, size, rows, low, high)


def commit(
    lake: Lake, table: Snapshot, queue: str, files: Sequence[DataFile], transactions: Mapping[str, int]
) -> None:
    """Add files of a queue, and application transactions, in one commit on this snapshot."""
    now = int(time.time() * 1000)
    actions: list[AddAction | RemoveAction] = [
        AddAction(one.path, one.size, {"queue": queue}, now, data_change=True, stats=one.statistics())
        for one in files
    ]
    with lake.trouble("write"):
        table.create_write_transaction(
            actions,
            "append",
            table.schema(),
            partition_by=["queue"],
            commit_properties=properties(transactions),
        )
        table.update_incremental()


def remove(lake: Lake, table: str, queue: str, names: Sequence[str]) -> None:
    """Remove files that no commit has named, those that are there."""
    files = lake.filesystem(table)
    with lake.trouble("remove files"):
        for path in (path_of(queue, name) for name in names):
            if files.get_file_info(path).type == pyarrow.fs.FileType.File:
                files.delete_file(path)
