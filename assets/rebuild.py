"""Reading a queue anew: a new data set beside the old one, swapped in by one commit.

Promises that readers see the old rows or the new ones, that pulls may go on meanwhile without loss, that a
table derived from the queue which lost a file is emptied of it, to be filled by the next run, and that a
replacement smaller than what it replaces is refused unless the grants changed or the caller says so. Leaves
out another store: that is another lake.
"""

from dataclasses import dataclass
from typing import Any

import polars as pl
import pyarrow.dataset

from assets.lake import TABLES, Lake, count_rows, view_of
from assets.pull import Progress, pull
from assets.snapshots import Snapshot
from assets.upkeep import damaged
from assets.views import LakeConflictError, LakeError, View
from schemas import observations, quarantine
from tessera.client import Client

_TRIES = 5


class FewerRowsError(LakeError):
    """The new data set holds fewer rows than the old one, and nothing explains it."""


@dataclass(frozen=True, slots=True)
class RebuildResult:
    """What a rebuild did: rows before and after, and where the queue stands now."""

    queue: str
    rows_before: int
    rows: int
    quarantined: int
    cursor: int
    version: int

    def document(self) -> dict[str, Any]:
        """The result as a JSON object, the cursor as a string."""
        return {
            "queue": self.queue,
            "rows_before": self.rows_before,
            "rows": self.rows,
            "quarantined": self.quarantined,
            "cursor": str(self.cursor),
            "version": self.version,
        }


def rebuild(
    client: Client,
    lake: Lake,
    queue: str,
    *,
    allow_fewer: bool = False,
    progress: Progress | None = None,
) -> RebuildResult:
    """Read all of a queue under the key at hand and put it in the place of what the lake holds of it.

    Raises AnotherStoreError, FewerRowsError, LakeConflictError when pulls keep coming first, and what `pull`
    raises; the old rows stay in each of these cases.
    """
    view = View.of(client.whoami())
    lake.check_store(view.store_id)
    beside = lake.beside(f"rebuild/{queue}")
    _empty(beside, queue, view)
    for _ in range(_TRIES):
        pull(client, beside, queue, progress=progress)
        try:
            result = _swap(lake, beside, queue, view, allow_fewer)
        except LakeConflictError:  # a pull committed meanwhile: read what it read, then try again
            continue
        _empty(beside, queue, view)
        _mend(lake, queue)
        return result
    raise LakeConflictError(f"pulls of queue {queue} kept coming first; the lake is as it was, run it again")


def _swap(lake: Lake, beside: Lake, queue: str, view: View, allow_fewer: bool) -> RebuildResult:
    live = lake.ensure("observations", observations.SCHEMA, view.store_id)
    cursor, before, rows = beside.cursor(queue), count_rows(live, queue), beside.count("observations", queue)
    behind = (live.transaction_version(queue) or 0) > cursor
    same_view = live.transaction_version(view_of(queue)) in (None, view.fingerprint)
    if same_view and not allow_fewer and (rows < before or behind):
        raise FewerRowsError(
            f"queue {queue} read anew holds {rows} rows up to cursor {cursor}, the lake holds {before} up "
            f"to {live.transaction_version(queue)}. The lake is as it was. If the store really lost runs: "
            f"`workspace rebuild --queue {queue} --allow-fewer`."
        )
    lake.remember_view(queue, view)
    rejected = _replace_quarantine(lake, beside, queue, view)
    with lake.trouble("swap"):
        lake.replace(live, queue, _stream(beside, queue), {queue: cursor, view_of(queue): view.fingerprint})
    return RebuildResult(queue, before, rows, rejected, cursor, int(live.version()))


def _replace_quarantine(lake: Lake, beside: Lake, queue: str, view: View) -> int:
    """The new data set's misfits in the place of the old one's, before the rows that they belong to."""
    found = beside.open("quarantine")
    fresh = pl.DataFrame(schema=quarantine.SCHEMA)
    if found is not None:
        fresh = beside.collect(found.lazy().filter(queue=queue)).select(list(quarantine.SCHEMA))
    if not fresh.is_empty() or lake.count("quarantine", queue):
        table = lake.ensure("quarantine", quarantine.SCHEMA, view.store_id)
        lake.replace(table, queue, fresh, {queue: beside.cursor(queue)})
    return len(fresh)


def _mend(lake: Lake, queue: str) -> None:
    """Empty the queue's part of each derived table that lost a file; the next run fills it from the nouns."""
    for name in TABLES:
        table = None if name in ("observations", "quarantine") else lake.open(name)
        if table is not None and any(broken == queue for broken, _ in damaged(table)):
            nothing = lake.collect(table.lazy().head(0))
            lake.replace(table, queue, nothing, {})


def _stream(beside: Lake, queue: str) -> Any:
    """A queue's rows as Arrow batches, a few at a time, whatever their number."""
    table = beside.open("observations")
    if table is None or not count_rows(table, queue):
        return pl.DataFrame(schema=observations.SCHEMA)
    mine = pyarrow.dataset.field("queue") == queue
    scanner = table.to_pyarrow_dataset().scanner(
        filter=mine, batch_size=10_000, batch_readahead=1, fragment_readahead=1
    )
    return scanner.to_reader()


def _empty(beside: Lake, queue: str, view: View) -> None:
    """Leave nothing of a queue beside the lake: neither rows nor files nor a cursor."""
    marks = {queue: 0, view_of(queue): view.fingerprint}
    _clear(beside, "observations", queue, marks)
    _clear(beside, "quarantine", queue, {queue: 0})


def _clear(beside: Lake, name: str, queue: str, marks: dict[str, int]) -> None:
    table = beside.open(name)
    if table is None:
        return
    schema = observations.SCHEMA if name == "observations" else quarantine.SCHEMA
    if count_rows(table, queue):
        beside.replace(table, queue, pl.DataFrame(schema=schema), marks)
    else:
        beside.append(table, pl.DataFrame(schema=schema), marks)
    with beside.trouble("clear"):
        _vacuum(table)


def _vacuum(table: Snapshot) -> None:
    table.vacuum(retention_hours=0, enforce_retention_duration=False, dry_run=False)
