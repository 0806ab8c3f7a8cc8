"""The pull: what the store has captured since the last one, into the lake.

Promises that rows, cursor and quarantine add up to what the store sent, each run once, whenever the pull
ends. Leaves out how rows are stored (`assets.lake`) and paged (`assets.feed`).
"""

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextvars import ContextVar
from dataclasses import asdict, dataclass, field
from types import TracebackType
from typing import Any

import polars as pl

from assets.feed import Feed, Group
from assets.lake import Lake
from assets.views import View
from assets.writer import Writer
from schemas import pages, quarantine
from schemas.observations import SCHEMA
from tessera.client import Client

COMMIT_ROWS = 10_000
COMMIT_BYTES = 32 << 20  # of JSON; a batch's columns take about as much again

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
    read: int = 0
    pages: int = 0
    commits: int = 0
    version: int | None = None
    seconds: float = 0.0

    def document(self) -> dict[str, Any]:
        """The result as a JSON object, cursors as strings."""
        return {**asdict(self), "after": str(self.after), "cursor": str(self.cursor)}


@dataclass(slots=True)
class _Batch:
    cursor: int
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
    with (
        _Commits(writer, result) as commits,
        Feed(client, queue, writer.cursor, view.store_id, page_size, commit_rows) as groups,
    ):
        batch = _Batch(result.after)
        for group in groups:
            _take(batch, group, result, queue)
            if batch.rows + len(batch.misfits) >= commit_rows or batch.size >= COMMIT_BYTES:
                commits.put(batch)
                batch = _Batch(batch.cursor)
            if progress is not None:
                progress(result.read)
        commits.put(batch)
    result.seconds = time.perf_counter() - started
    return result


class _Commits:
    """Commits batches in order on a thread of its own, one while the next is read: two are in memory at most.

    On the way out it waits for the one under way, so that no commit is left in the dark.
    """

    def __init__(self, writer: Writer, result: PullResult) -> None:
        self._writer, self._result = writer, result
        self._thread = ThreadPoolExecutor(1, thread_name_prefix="commits")
        self._under_way: Future[None] | None = None

    def __enter__(self) -> "_Commits":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._thread.shutdown()
        if kind is None:
            self._wait()

    def put(self, batch: _Batch) -> None:
        """Hand a batch over, once the one before it is durable; raises what that one raised."""
        self._wait()
        self._under_way = self._thread.submit(_commit, self._writer, batch, self._result)

    def _wait(self) -> None:
        if self._under_way is not None:
            self._under_way.result()


def _take(batch: _Batch, group: Group, result: PullResult, queue: str) -> None:
    page = pages.read(group.bodies, queue)
    _check_order(page.rows["cursor"], batch.cursor, group.cursor, queue)
    if not page.rows.is_empty():
        batch.frames.append(page.rows)
    batch.misfits.extend(page.misfits)
    batch.rows += len(page.rows)
    batch.size += sum(map(len, group.bodies))
    batch.cursor = group.cursor
    result.pages += len(group.bodies)
    result.read += len(page.rows) + len(page.misfits)


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


def _commit(writer: Writer, batch: _Batch, result: PullResult) -> None:
    if batch.cursor == writer.cursor:
        return
    if batch.misfits:
        misfits = quarantine.frame(result.queue, batch.misfits)
        result.quarantined += writer.quarantine(misfits, batch.cursor)
    rows = pl.concat(batch.frames) if batch.frames else pl.DataFrame(schema=SCHEMA)
    writer.append(rows, batch.cursor)
    result.rows += len(rows)
    result.cursor, result.version = writer.cursor, writer.version
    result.commits += 1
