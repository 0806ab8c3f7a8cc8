"""What a learner run reads: the same window of observations from the lake, from the store, or from a file.

Promises the same rows for the same newest observation whichever way they came, so that a learner gives the
same bytes. Leaves out who may read: the lake and the store answer for one key's view.
"""

import gzip
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import polars as pl

from assets.feed import Feed
from assets.lake import Lake
from learners.contract import Evidence, Reading, Scope
from schemas import observations, pages
from tessera import json_door
from tessera.client import Client
from tessera.errors import Problem, TesseraError, listed

Progress = Callable[[int], None]

_LINES_AT_ONCE = 500


class ExportError(TesseraError):
    """A file that is no export of observations: the sentence names the line and what is wrong."""


def from_lake(lake: Lake, scope: Scope, reading: Reading) -> Evidence:
    """The window of a scope in the lake, all of it from one snapshot."""
    if reading.last is not None:
        rows = lake.observations(
            scope.queue, kind=scope.kind, last=reading.last + 1, columns=_columns(reading)
        )
    else:
        rows = lake.observations(
            scope.queue,
            kind=scope.kind,
            after=int(reading.after),
            first=reading.limit,
            columns=_columns(reading),
        )
    return window(rows, reading)


def from_api(client: Client, scope: Scope, reading: Reading, progress: Progress | None = None) -> Evidence:
    """The window of a scope as the store answers the client's key; items that are none are left out."""
    columns, seen = _columns(reading), 0
    kept = [pl.DataFrame(schema=observations.SCHEMA).select(columns)]
    if reading.last == 0:  # a learner of records alone
        return window(kept[0], reading)
    start = 0 if reading.last is not None else int(reading.after)
    store_id = client.whoami()["store_id"]
    with Feed(client, scope.queue, start, store_id, most_rows=reading.limit) as groups:
        for group in groups:
            rows = pages.read(group.bodies, scope.queue).rows
            seen += rows.height
            kept.append(_of_scope(rows, scope).select(columns))
            if progress is not None:
                progress(seen)
            if reading.limit is not None and sum(frame.height for frame in kept) >= reading.limit:
                break
    return window(pl.concat(kept), reading)


def from_file(path: Path, progress: Progress | None = None) -> pl.DataFrame:
    """All observations of an exported JSONL file, one item a line, in capture order.

    Raises ExportError naming the first line that is no observation.
    """
    frames = [pl.DataFrame(schema=observations.SCHEMA)]
    try:
        for first, lines in _batches(path):
            frames.append(_rows(path, first, lines))
            if progress is not None:
                progress(first + len(lines) - 1)
    except (gzip.BadGzipFile, EOFError, zlib.error) as error:
        raise ExportError(f"{path} is not a whole gzip file: {error}") from None
    rows = pl.concat(frames)
    twice = rows.filter(pl.col("cursor").is_duplicated() | pl.col("run_id").is_duplicated())
    if twice.height:
        raise ExportError(f"{path} holds run {twice['run_id'][0]} more than once: export the queue again")
    return rows.sort("cursor")


def of_frame(rows: pl.DataFrame, scope: Scope, reading: Reading) -> Evidence:
    """The window of a scope in rows that are all there is of it."""
    return window(_of_scope(rows, scope).select(_columns(reading)), reading)


def window(rows: pl.DataFrame, reading: Reading) -> Evidence:
    """What a reading takes of a scope's rows, and the cursor of the observation before them."""
    ordered = rows if rows["cursor"].is_sorted() else rows.sort("cursor")
    if reading.last is not None:
        before = ordered.height - reading.last
        after = "0" if before <= 0 else str(ordered["cursor"][before - 1])
        return Evidence(ordered.tail(reading.last), after)
    later = ordered.filter(pl.col("cursor") > int(reading.after))
    return Evidence(later if reading.limit is None else later.head(reading.limit), reading.after)


def _columns(reading: Reading) -> list[str]:
    return list(observations.SCHEMA if reading.columns is None else reading.columns)


def _of_scope(rows: pl.DataFrame, scope: Scope) -> pl.DataFrame:
    of_queue = rows.filter(pl.col("queue") == scope.queue)
    return of_queue if scope.kind is None else of_queue.filter(pl.col("kind") == scope.kind)


def _batches(path: Path) -> Iterator[tuple[int, list[bytes]]]:
    """The file's lines, some at a time, with the number of the first; blank lines are kept to count by."""
    opener: Any = gzip.open if path.suffix == ".gz" else open
    with opener(path, "rb") as file:
        first, lines = 1, []
        for line in file:
            lines.append(line)
            if len(lines) == _LINES_AT_ONCE:
                yield first, lines
                first, lines = first + len(lines), []
        if lines:
            yield first, lines


def _rows(path: Path, first: int, lines: list[bytes]) -> pl.DataFrame:
    """The rows of some lines: each passes the strict door, then all are read at once where all are good."""
    items = []
    for number, line in enumerate(lines, first):
        if not line.strip():
            continue
        try:
            items.append((number, json_door.loads(line)))
        except Problem as problem:
            raise ExportError(f"{path}, line {number}: {listed(problem.errors) or problem}") from None
    held = b'{"items":[' + b",".join(line for line in lines if line.strip()) + b"]}"
    read = pages.read([held])
    if read.misfits:
        _refuse(path, items)
    return read.rows


def _refuse(path: Path, items: list[tuple[int, object]]) -> None:
    for number, item in items:
        values, faults = observations.row(item)
        if not faults:
            faults = observations.broken_rules(observations.frame_of_rows([values])).get(0, [])
        if faults:
            raise ExportError(f"{path}, line {number}: {listed(faults[:5])}")
