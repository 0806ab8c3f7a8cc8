"""A window of a queue that is too large for one process: cut at cursors, computed in parts, merged exactly.

Promises the bytes of the window read at once, from one version of the lake, with memory bounded by a part:
what parts leave to be merged lies in temporary files and is read a range of values at a time. Leaves out what
is computed (`learners.parts`) and by whom (`assets.spread`).
"""

import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import polars as pl

from assets.lake import Lake, count_rows
from assets.publish import BudgetCrossed
from assets.snapshots import Snapshot
from assets.views import LakeError
from learners.contract import InParts, Outcome, Parted, Run, Scope
from learners.parts import TALLIES, Groups, Partial, keys_of, renumbered
from learners.statistics import Pinned, run_ids

RANGE_ROWS = 1_000_000
"""How many rows of parts' tallies are merged at once, as long as no single value has more."""
_SAMPLED = 64  # one value in so many is kept to divide by
_STEPS = 8  # a part is that many steps of cursors, or more


@dataclass(frozen=True, slots=True)
class Slice:
    """The rows of a scope with `after` < cursor <= `upto`, and how many they are."""

    after: int
    upto: int
    rows: int


@dataclass(frozen=True, slots=True)
class Cut:
    """The newest observations of a scope in one version of the lake, cut into slices of capture order."""

    lake: Lake
    scope: Scope
    version: int
    slices: tuple[Slice, ...]

    def read(self, part: Slice, columns: Sequence[str] | None) -> pl.DataFrame:
        """The rows of a slice. Raises LakeError when they are not as many as when it was cut."""
        (rows,) = self.batches(part, columns, part.rows)
        return rows

    def batches(self, part: Slice, columns: Sequence[str] | None, most: int) -> Iterator[pl.DataFrame]:
        """The rows of a slice, at most so many at a time."""
        after, rows = part.after, 0
        while rows < part.rows:
            found = self.lake.observations(
                self.scope.queue,
                kind=self.scope.kind,
                after=after,
                upto=part.upto,
                first=most if most < part.rows else None,
                columns=None if columns is None else list(dict.fromkeys([*columns, "cursor"])),
                version=self.version,
            )
            rows += found.height
            if found.is_empty() or rows > part.rows:
                raise LakeError(
                    f"queue {self.scope.queue} of the lake has {rows} rows from {part.after + 1} to "
                    f"{part.upto}, where {part.rows} were counted before. Run it again, and "
                    "`workspace doctor` if that does not help."
                )
            after = int(found["cursor"][-1])
            yield found


class Window(Parted):
    """A cut as a run's evidence."""

    __slots__ = ("cut",)
    cut: Cut

    def __init__(self, cut: Cut) -> None:
        slices = cut.slices
        super().__init__(
            sum(one.rows for one in slices),
            str(slices[0].after),
            str(slices[-1].upto),
            lambda columns: (cut.read(one, columns) for one in slices),
        )
        object.__setattr__(self, "cut", cut)

    def learn(
        self, learner: InParts, run: Run, columns: Sequence[str] | None, most_bytes: int | None = None
    ) -> Outcome:
        """What the learner makes of the window, its parts computed by the lake's spread.

        Raises BudgetCrossed as soon as there are more groups than `most_bytes` can hold.
        """
        lean = replace(run, state=None, records=(), entries=())  # a part is fixed by options and surface
        tasks = [Task(self.cut, one, learner, lean, columns) for one in self.cut.slices]
        pinned = Pinned()
        with tempfile.TemporaryDirectory(prefix="tessera-parts-") as folder:
            whole = Spilled(Path(folder), learner.examples)
            for part in self.cut.lake.spread.map(compute, tasks):
                pinned.add(part.counted, part.ids)
                whole.add(part.partial)
                found = whole.groups.height
                if most_bytes is not None and found * learner.group_bytes > most_bytes:
                    raise BudgetCrossed(
                        f"a part of the window has {found} groups already, more than the budget of "
                        f"{most_bytes} output_bytes holds; nothing was published. Group by fewer dimensions."
                    )
            return learner.merged(run, self, pinned, whole)


@dataclass(frozen=True, slots=True)
class Task:
    """A part to be computed, wherever."""

    cut: Cut
    slice: Slice
    learner: InParts
    run: Run
    columns: Sequence[str] | None


@dataclass(frozen=True, slots=True)
class Part:
    """What a part came to: how many rows count, their ids, and their statistics."""

    counted: int
    ids: bytes
    partial: Partial


def compute(task: Task) -> Part:
    """Read a part and compute it."""
    rows = task.run.countable(task.cut.read(task.slice, task.columns))
    return Part(rows.height, run_ids(rows["run_id"]), task.learner.partial(task.run, rows))


def cut(
    lake: Lake,
    table: Snapshot | None,
    scope: Scope,
    *,
    after: int = 0,
    last: int | None = None,
    rows: int | None = None,
) -> Cut | None:
    """The rows of a scope behind a cursor, of these the newest `last`, in parts; None when one holds all.

    `table` is a snapshot of the lake's observations; `rows` is a smaller size of parts than the lake's.
    """
    most = min(lake.spread.rows, rows or lake.spread.rows)
    if table is None or count_rows(table, scope.queue) <= most or (last is not None and last <= most):
        return None
    version = int(table.version())
    steps = _steps(lake, table, scope, after, max(1, most // _STEPS))
    skipped = 0 if last is None else max(0, int(steps["rows"].sum()) - last)
    if skipped:
        after, steps = _behind(lake, scope, version, steps, skipped)
    if int(steps["rows"].sum()) <= most:
        return None
    return Cut(lake, scope, version, tuple(_slices(steps, after, most)))


def _steps(lake: Lake, table: Snapshot, scope: Scope, after: int, width: int) -> pl.DataFrame:
    """The scope's rows by steps of `width` cursors, so never more in one: `first, last, rows`, ascending."""
    rows = table.lazy().filter(pl.col("queue") == scope.queue, pl.col("cursor") > after)
    if scope.kind is not None:
        rows = rows.filter(pl.col("kind") == scope.kind)
    counted = rows.group_by(pl.col("cursor") // width).agg(
        pl.col("cursor").min().alias("first"), pl.col("cursor").max().alias("last"), pl.len().alias("rows")
    )
    with lake.trouble("count observations"):
        found = counted.select("first", "last", pl.col("rows").cast(pl.Int64)).collect(engine="streaming")
    return found.sort("first")


def _behind(
    lake: Lake, scope: Scope, version: int, steps: pl.DataFrame, skipped: int
) -> tuple[int, pl.DataFrame]:
    """The cursor of the last of the oldest `skipped` rows, and the steps of those behind it."""
    upto = steps["rows"].cum_sum()
    place = int((upto < skipped).sum())
    first, last, rows = steps.row(place)
    inside = skipped - (int(upto[place]) - rows)
    cursors = lake.observations(
        scope.queue, kind=scope.kind, after=first - 1, upto=last, columns=["cursor"], version=version
    )["cursor"]
    rest = [(first, last, rows - inside)] if rows > inside else []
    return int(cursors[inside - 1]), pl.concat(
        [pl.DataFrame(rest, schema=steps.schema, orient="row"), steps.slice(place + 1)]
    )


def _slices(steps: pl.DataFrame, after: int, most: int) -> Iterator[Slice]:
    """Adjacent slices of about equal size, as few as `most` rows in each allow, give or take a step."""
    total = int(steps["rows"].sum())
    count = -(-total // most)
    taken = rows = 0
    number = 1
    for _, last, height in steps.iter_rows():
        taken, rows = taken + height, rows + height
        if taken >= number * total / count:
            yield Slice(after, last, rows)
            after, rows = last, 0
            number = taken * count // total + 1


class Spilled:
    """Merged parts whose tallies lie in files: groups are in memory, tallies a range of values at a time."""

    def __init__(self, folder: Path, examples: int) -> None:
        self._folder = folder
        self._met = Groups(examples)
        self._totals: dict[str, pl.DataFrame] = {}
        self._sampled: dict[str, list[pl.Series]] = {name: [] for name in TALLIES}
        self._parts = 0

    @property
    def groups(self) -> pl.DataFrame:
        """As in `Partial`."""
        return self._met.groups

    @property
    def examples(self) -> pl.DataFrame:
        """As in `Partial`."""
        return self._met.examples

    def add(self, part: Partial) -> None:
        """Take a part in; the order does not matter."""
        numbers = self._met.add(part)
        for name, tally in part.tallies.items():
            here = renumbered(tally, numbers)
            here.write_parquet(self._file(name, self._parts), compression="lz4", row_group_size=_ROW_GROUP)
            self._sampled[name].append(here["value"].gather_every(_SAMPLED))
            totals = Partial(part.groups, part.examples, {name: here}).totals(name)
            known = [totals, self._totals[name]] if name in self._totals else [totals]
            self._totals[name] = pl.concat(known).group_by(keys_of(name)[:-1]).agg(pl.col("known").sum())
        self._parts += 1

    def totals(self, name: str) -> pl.DataFrame:
        """As in `Partial`."""
        return self._totals[name]

    def ranges(self, name: str) -> Iterator[pl.DataFrame]:
        """As in `Partial`, about `RANGE_ROWS` rows of all parts at a time."""
        files = [pl.scan_parquet(self._file(name, part)) for part in range(self._parts)]
        ends = self._ends(name)
        for low, high in zip([None, *ends], [*ends, None], strict=True):
            within = [pl.col("value") > low] if low is not None else []
            within += [pl.col("value") <= high] if high is not None else []
            read = [file.filter(*within) if within else file for file in files]
            yield pl.concat(pl.collect_all(read))

    def _ends(self, name: str) -> list[Any]:
        """Values that divide a tally into ranges of about as many rows as are merged at once."""
        sampled = pl.concat(self._sampled[name]).sort()
        every = max(1, RANGE_ROWS // _SAMPLED)
        ends = sampled.gather_every(every).slice(1)
        return ends.unique(maintain_order=True).to_list()

    def _file(self, name: str, part: int) -> Path:
        return self._folder / f"{name}-{part}.parquet"


_ROW_GROUP = 50_000
