"""Reading ahead for runs that go on from a cursor, a few thousand observations each: many runs' rows at once.

Promises each run the rows that the lake would give it then, no others; what a learner makes of each row alone
is made along with the reading, by the lake's spread, while runs are done. Leaves out the runs.
"""

from collections.abc import Generator, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import polars as pl

from assets import runs, windows
from assets.lake import Lake
from assets.runs import Prepared
from assets.windows import Cut, Slice
from learners.contract import Evidence, RowByRow

RUNS_AT_ONCE = 10


@dataclass(frozen=True, slots=True)
class Task:
    """Rows to be read and made something of, wherever."""

    cut: Cut
    part: Slice
    learner: RowByRow
    columns: Sequence[str] | None


def compute(task: Task) -> tuple[pl.DataFrame, Sequence[Any]]:
    """The rows of a part, and what the learner makes of each."""
    rows = task.cut.read(task.part, task.columns)
    return rows, task.learner.of_rows(rows)


class Ahead:
    """Reads the runs of one config entry, one after the other; ahead when more than some runs wait."""

    def __init__(self, lake: Lake) -> None:
        self._lake, self._at_once = lake, runs.from_lake(lake)
        self._parts: Iterator[tuple[pl.DataFrame, Sequence[Any]]] | None = None
        self._rows, self._made = pl.DataFrame(), list[Any]()
        self._cursor: int | None = None

    def __call__(self, prepared: Prepared) -> Evidence:
        """The evidence of a run."""
        reading, learner = prepared.reading(), prepared.learner
        if not prepared.ours or not isinstance(learner, RowByRow) or reading.limit is None:
            return self._at_once(prepared)
        if self._cursor != int(reading.after):
            self._begin(prepared, learner, int(reading.after), reading.limit)
        while self._parts is not None and len(self._made) < reading.limit:
            more = next(self._parts, None)
            if more is None:
                self.close()
            else:
                self._rows = more[0] if self._rows.is_empty() else pl.concat([self._rows, more[0]])
                self._made = [*self._made, *more[1]]
        if self._parts is None:  # and what is left here may not be all that the lake has by now
            return self._at_once(prepared)
        rows, made = self._rows.head(reading.limit), self._made[: reading.limit]
        self._rows, self._made = self._rows.slice(reading.limit), self._made[reading.limit :]
        self._cursor = int(rows["cursor"][-1])
        return Evidence(rows, reading.after, made)

    def close(self) -> None:
        """Stop reading ahead, and end the processes that do."""
        if isinstance(self._parts, Generator):
            self._parts.close()
        self._parts, self._cursor = None, None
        self._rows, self._made = pl.DataFrame(), []

    def _begin(self, prepared: Prepared, learner: RowByRow, after: int, limit: int) -> None:
        self.close()
        scope, columns = prepared.run.scope, prepared.reading().columns
        table = self._lake.open("observations")
        cut = windows.cut(self._lake, table, scope, after=after, rows=limit * RUNS_AT_ONCE)
        if cut is None:
            return
        tasks = [Task(cut, part, learner, columns) for part in cut.slices]
        self._parts = iter(self._lake.spread.map(compute, tasks))


@contextmanager
def reader(lake: Lake) -> Iterator[Ahead]:
    """A reader that leaves no process behind."""
    ahead = Ahead(lake)
    try:
        yield ahead
    finally:
        ahead.close()
