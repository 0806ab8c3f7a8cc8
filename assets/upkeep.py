"""Upkeep of the lake: many small files become few, and files that no version needs any more are removed.

Promises that rows, cursors and views stay as they are, that a writer at work meanwhile loses nothing, and
that a reader of an older version keeps its files for as long as asked. Leaves out rebuilding
(`assets.rebuild`).
"""

import math
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any
from urllib.parse import unquote

import polars as pl
import pyarrow
import pyarrow.fs
import pyarrow.parquet

from assets import snapshots
from assets.lake import TABLES, Lake
from assets.snapshots import Snapshot
from assets.views import LakeConflictError

KEEP_HOURS = 168
WRITTEN_HOURS = 24  # so young a file may be a writer's that has yet to commit it
FILES_BEFORE_COMPACTION = 64
_TRIES = 3


@dataclass(frozen=True, slots=True)
class Upkept:
    """What upkeep did to a table: files of the newest version before and after, and old ones removed."""

    table: str
    files_before: int
    files: int
    removed: int

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        return asdict(self)


def files(table: Snapshot, queue: str | None = None) -> int:
    """How many files the newest version has, of one queue or of all."""
    parts = table.get_add_actions(flatten=True).column("partition.queue").to_pylist()
    return sum(queue is None or part == queue for part in parts)


def damaged(table: Snapshot) -> list[tuple[str, str]]:
    """The files that the log names and that are gone or not whole: their queue, and what is wrong.

    Two or three requests a file on object storage. Raises LakeError when the storage does not answer.
    """
    actions = pl.DataFrame(table.get_add_actions(flatten=True))
    storage = table.storage()
    found = []
    for action in actions.to_dicts():
        with snapshots.trouble(table.table_uri, "look at files"):
            there = storage.get_file_info(action["path"])
        problem = _fault_of(storage, there, action)
        if problem is not None:
            name = f"{unquote(table.table_uri.removeprefix('file://'))}{action['path']}"
            found.append((str(action["partition.queue"]), f"the file {name} {problem}"))
    return found


def _fault_of(
    storage: pyarrow.fs.FileSystem, there: pyarrow.fs.FileInfo, action: Mapping[str, Any]
) -> str | None:
    """What is wrong with one file, by what the storage says of it and by what stands in it."""
    if there.type == pyarrow.fs.FileType.NotFound:
        return "is gone"
    if there.size != action["size_bytes"]:
        return f"has {there.size} bytes, {action['size_bytes']} were written"
    try:
        rows = pyarrow.parquet.read_metadata(storage.open_input_file(action["path"])).num_rows
    except (OSError, pyarrow.ArrowException) as error:
        return f"cannot be read: {' '.join(str(error).split())[:200]}"
    if action["num_records"] is not None and rows != action["num_records"]:
        return f"has {rows} rows, {action['num_records']} were written"
    return None


def compact(lake: Lake, name: str, queue: str | None = None) -> tuple[int, int]:
    """Merge small files of a table, of one queue or of all; returns how many there were and are.

    A writer that replaces the same rows meanwhile goes first, and the merging begins anew.
    """
    for attempt in range(_TRIES):
        table = lake.open(name)
        if table is None:
            return 0, 0
        before = files(table, queue)
        try:
            with lake.trouble(f"compact {name}"):
                table.optimize.compact(
                    partition_filters=None if queue is None else [("queue", "=", queue)],
                    writer_properties=lake.parquet,
                )
        except LakeConflictError:
            if attempt == _TRIES - 1:
                raise
            continue
        return before, files(table, queue)
    raise AssertionError("unreachable")


def tidy(lake: Lake, name: str, queue: str, most: int = FILES_BEFORE_COMPACTION) -> int:
    """Merge a queue's files once there are more than `most` of them; returns how many there are.

    Whoever loses against another writer leaves it to the next one: nothing depends on it.
    """
    table = lake.open(name)
    if table is None:
        return 0
    found = files(table, queue)
    if found <= most:
        return found
    try:
        return compact(lake, name, queue)[1]
    except LakeConflictError:
        return found


def remove_old(lake: Lake, name: str, keep_hours: float = KEEP_HOURS) -> int:
    """Remove files that no version of the last `keep_hours`, rounded up, needs; returns how many.

    A reader that opened an older version fails with an error that says so, and reads the newest when it opens
    the table again.
    """
    table = lake.open(name)
    if table is None:
        return 0
    kept = math.ceil(keep_hours)
    with lake.trouble(f"remove old files of {name}"):
        gone = table.vacuum(retention_hours=kept, enforce_retention_duration=False, dry_run=False)
        # and those that no version ever had: whoever wrote them died before the commit
        kept = max(kept, WRITTEN_HOURS)
        gone += table.vacuum(retention_hours=kept, enforce_retention_duration=False, dry_run=False, full=True)
    return len(gone)


def upkeep(lake: Lake, keep_hours: float = KEEP_HOURS) -> list[Upkept]:
    """Merge and remove in every table that is there."""
    done = []
    for name in (*TABLES, "views"):
        if lake.open(name) is None:
            continue
        before, after = compact(lake, name)
        done.append(Upkept(name, before, after, remove_old(lake, name, keep_hours)))
    return done
