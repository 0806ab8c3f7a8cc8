"""The pull: what the store has captured since the last one, into the lake.

Promises that rows, cursor and quarantine add up to what the store sent, each run once, whenever the pull
ends. Leaves out how rows are stored (`assets.lake`) and paged (`assets.feed`).
"""

import time
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from typing import Any

import polars as pl

from assets.feed import Feed, Group
from assets.lake import Lake
from assets.views import View
from assets.writer import Writer
from schemas import pages, quarantine
from schemas.observations import SCHEMA
from tessera.client import Client

COMMIT_ROWS = 20_000
COMMIT_BYTES = 48 << 20  # of JSON; a batch's columns take about as much again

Progress = Callable[[int], None]
watcher: ContextVar[Progress | None] = ContextVar("watcher", default=None)
"""Who is told how many runs the pulls of this context have read; nobody unless someone asks."""


@dataclass(slots=True)
class PullResult:
    """What one pull did: rows and quarantined items added, and where the lake stands."""

    queue: str
    after: int
    cursor: int
    rows: int = 0
    quarantined: int = 0
    pages: int = 0
    commits: int = 0
    version: int | None = None
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """The result as a JSON object, cursors as strings."""
        return {**asdict(self), "after": str(self.after), "cursor": str(self.cursor)}


@dataclass(slots=True)
class _Batch:
    frames: list[pl.DataFrame] = field(default_factory=list)
    misfits: list[pages.Misfit] = field(default_factory=list)
    rows: int = 0
    size: int = 0


def pull(
    client: Client,
    lake: Lake,
    queue: str,
    *,
    page_size: int = 100,
    commit_rows: int = COMMIT_ROWS,
    progress: Progress | None = None,
) -> PullResult:
    """Bring a queue's rows in the lake up to the store's newest readable run.

    Each batch of about `commit_rows` is durable before the next begins, so memory is bounded and a crash
    costs at most one batch of reading. Raises what the client raises, LakeError and PageError.
    """
    started = time.perf_counter()
    progress = progress or watcher.get()
    view = View.of(client.whoami())
    writer = Writer(lake, queue, view)
    result = PullResult(queue, writer.cursor, writer.cursor, version=writer.version)
    batch = _Batch()
    with Feed(client, queue, writer.cursor, view.store_id, page_size) as groups:
        for group in groups:
            _take(batch, group, result, queue)
            full = batch.rows + len(batch.misfits) >= commit_rows or batch.size >= COMMIT_BYTES
            if full or not group.has_more:
                _commit(writer, batch, result, group.cursor)
                batch = _Batch()
            if progress is not None:
                progress(result.rows + result.quarantined + batch.rows + len(batch.misfits))
    result.seconds = time.perf_counter() - started
    return result


def _take(batch: _Batch, group: Group, result: PullResult, queue: str) -> None:
    page = pages.read(group.bodies, queue)
    seen = batch.frames[-1]["cursor"][-1] if batch.frames else result.cursor
    _check_order(page.rows["cursor"], seen, group.cursor, queue)
    if not page.rows.is_empty():
        batch.frames.append(page.rows)
    batch.misfits.extend(page.misfits)
    batch.rows += len(page.rows)
    batch.size += sum(map(len, group.bodies))
    result.pages += len(group.bodies)


def _check_order(cursors: pl.Series, seen: int, upto: int, queue: str) -> None:
    """Each cursor once and rising, whatever the store sends: the lake's word depends on it."""
    if cursors.is_empty():
        return
    rising = bool((cursors.diff().drop_nulls() > 0).all())
    if not rising or cursors[0] <= seen or cursors[-1] > upto:
        raise pages.PageError(
            f"a page of queue {queue} repeats a run or is out of order: cursors {cursors[0]} to "
            f"{cursors[-1]} after {seen}, with next_after {upto}"
        )


def _commit(writer: Writer, batch: _Batch, result: PullResult, cursor: int) -> None:
    if cursor == writer.cursor:
        return
    if batch.misfits:
        result.quarantined += writer.quarantine(quarantine.frame(result.queue, batch.misfits), cursor)
    rows = pl.concat(batch.frames) if batch.frames else pl.DataFrame(schema=SCHEMA)
    writer.append(rows, cursor)
    result.rows += len(rows)
    result.cursor, result.version = writer.cursor, writer.version
    result.commits += 1
