"""Appending one queue's runs to the lake, each batch in one commit with the cursor behind it.

Promises that a crash at any point neither loses nor repeats a run, and that two writers of a queue never both
succeed. Leaves out asking the store.
"""

import polars as pl

from assets.lake import Lake, view_of
from assets.views import LakeConflictError, View
from schemas import observations, quarantine


class Writer:
    """Appends one queue's rows to `observations`, each batch with its cursor, against a snapshot opened once.

    Raises LakeConflictError when another writer of the queue was faster.
    """

    def __init__(self, lake: Lake, queue: str, view: View) -> None:
        lake.require_name(queue)
        self._lake, self._queue, self._view = lake, queue, view
        self._table = lake.open("observations")
        if self._table is not None:
            lake.compare_view(self._table, queue, view)
        self.cursor = self._committed()

    @property
    def version(self) -> int | None:
        """The version of `observations` that the last commit made; None while there is no table."""
        return None if self._table is None else int(self._table.version())

    def _committed(self) -> int:
        return 0 if self._table is None else self._table.transaction_version(self._queue) or 0

    def append(self, rows: pl.DataFrame, cursor: int) -> None:
        """Commit rows and the cursor behind them, together. `rows` are checked, values and all."""
        checked = observations.Observations.validate(rows, lazy=True)
        if self._table is None:
            self._table = self._lake.ensure("observations", observations.SCHEMA, self._view.store_id)
        if self._committed() != self.cursor:
            raise LakeConflictError(
                f"another pull of queue {self._queue} went on while this one was reading; nothing is lost or "
                "doubled: run it again"
            )
        if self._table.transaction_version(view_of(self._queue)) is None:
            self._lake.remember_view(self._queue, self._view)
        marks = {self._queue: cursor, view_of(self._queue): self._view.fingerprint}
        self._lake.append(self._table, checked, marks)
        self.cursor = cursor

    def quarantine(self, misfits: pl.DataFrame, cursor: int) -> int:
        """Commit items that are no observations, those not there yet; returns how many were new."""
        checked = quarantine.Quarantine.validate(misfits, lazy=True)
        table = self._lake.ensure("quarantine", quarantine.SCHEMA, self._view.store_id)
        digests = checked["item_sha256"].to_list()
        mine = table.lazy().filter(queue=self._queue).filter(pl.col("item_sha256").is_in(digests))
        new = checked.join(self._lake.collect(mine.select("item_sha256")), on="item_sha256", how="anti")
        if not new.is_empty():
            self._lake.append(table, new, {self._queue: cursor})
        return len(new)
