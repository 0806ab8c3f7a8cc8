"""A simulator of what grows: rows written an operation, the memory index's head and manifests, bytes a run.

`python -m bench.scale` prints the arithmetic to 1,000 queues and a billion runs, `--svg FILE` draws it.
Counts and head sizes are exact, byte for byte, and held against a real store by a test; sizes of what varies
(an observation, an index entry) are parameters, whose defaults were measured.
"""

import argparse
import sys
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from learners.contract import common_fields
from learners.memory import LEARNER
from schemas.memory import HEAD, PINNED_SEGMENTS, SEGMENT_ENTRIES
from tessera.canonical import dumps
from tessera.cli.terminal import sized

DIGEST = "0" * 64
BUDGET = int(LEARNER.spec["budget"]["observations"])
"""Observations of one index run at most."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of what varies, as measured by a soak; docs/scale.md says where."""

    live_run: float = 7_000.0
    lake_row: float = 580.0
    index_entry: float = 670.0


@dataclass(frozen=True, slots=True)
class Costs:
    """What operations write: entries of tables and indexes together, as `tessera stats --write-cost` counts.

    Of an index run the table rows apart, since those can be counted over a whole run of it.
    """

    enqueue: int = 4
    claim: int = 3
    draw: int = 1
    submit: int = 17
    index_run: int = 21
    index_rows: int = 14
    further_noun: int = 3
    first_head: int = 2

    @property
    def observation(self) -> int:
        """From enqueue to submit, with a draw and a report."""
        return self.enqueue + self.claim + self.draw + self.submit

    def rows(self, nouns: int, first: bool) -> int:
        """Table rows that an index run writes with so many new segments and manifests."""
        return self.index_rows + self.further_noun * (nouns - 1) + self.first_head * first

    def entries(self, rows: int, runs: int) -> int:
        """The same with the entries of indexes, for so many rows of so many runs."""
        return rows + (self.index_run - self.index_rows) * runs


@dataclass(slots=True)
class Index:
    """The memory index of one queue, as it stands after some runs.

    ``pins`` are those of segments: entries, first and last cursor, and the number in the key. ``written`` is
    bytes of all head versions, ``largest`` of the largest, ``rows`` all table rows that its runs wrote.
    """

    name: str
    base: int
    entries: int = 0
    cursor: int = 0
    runs: int = 0
    segments: int = 0
    pins: list[tuple[int, int, int, int]] = field(default_factory=list)
    manifests: int = 0
    rows: int = 0
    written: int = 0
    largest: int = 0
    _pinned: int = 0
    _manifests: int = 0

    def run(self, cursors: range, costs: Costs) -> None:
        """One index run over observations of these cursors, at most the budget's number of them."""
        new = 0
        for at in range(0, len(cursors), SEGMENT_ENTRIES):
            held = cursors[at : at + SEGMENT_ENTRIES]
            self.segments, new = self.segments + 1, new + 1
            self.pins.append((len(held), held[0], held[-1], self.segments))
            self._pinned += self._pin("seg", 6, *self.pins[-1])
        while len(self.pins) > PINNED_SEGMENTS:
            oldest, self.pins = self.pins[:PINNED_SEGMENTS], self.pins[PINNED_SEGMENTS:]
            self._pinned -= sum(self._pin("seg", 6, *pin) for pin in oldest)
            number = oldest[-1][3] // PINNED_SEGMENTS
            whole = sum(pin[0] for pin in oldest), oldest[0][1], oldest[-1][2], number
            self.manifests, new = self.manifests + 1, new + 1
            self._manifests += self._pin("man", 4, *whole)
        self.entries, self.cursor, self.runs = self.entries + len(cursors), cursors[-1], self.runs + 1
        self.rows += costs.rows(new, first=self.runs == 1)
        self.written += self.head_bytes
        self.largest = max(self.largest, self.head_bytes)

    @property
    def head_bytes(self) -> int:
        """Bytes of the head's canonical JSON."""
        commas = max(0, len(self.pins) - 1) + max(0, self.manifests - 1)
        digits = len(str(self.cursor)) + len(str(self.entries))
        return self.base + digits + self._pinned + self._manifests + commas

    def _pin(self, sort: str, width: int, entries: int, first: int, last: int, number: int) -> int:
        """Bytes of one pin."""
        fixed = len('{"entries":,"first":"","key":"::","last":"","sha256":"","version":1}')
        key = len(self.name) + len(sort) + max(width, len(str(number)))
        return fixed + len(str(entries)) + len(str(first)) + len(str(last)) + key + len(DIGEST)


def index_of(run: Any) -> Index:
    """An empty index for the learner run of a scope."""
    _, head = LEARNER.state_key(run.scope, run.options)
    body = {**common_fields(HEAD, LEARNER, run), "cursor": "", "entries": 0, "segments": [], "manifests": []}
    return Index(head.removesuffix(":head"), len(dumps(body)) - len("0"))


def batches(total: int, size: int) -> Iterator[range]:
    """The cursors of `total` observations, `size` to an index run."""
    for first in range(1, total + 1, size):
        yield range(first, min(first + size, total + 1))


def grown(index: Index, parts: Iterable[range], costs: Costs) -> Index:
    """The index after runs over these parts."""
    for part in parts:
        index.run(part, costs)
    return index


QUEUES = 1_000
TOTAL = 1_000_000_000
RHYTHMS = (32, 333, BUDGET)
"""Observations of one index run: the trigger, a busy queue's few seconds, and the most."""


@dataclass(frozen=True, slots=True)
class Point:
    """A queue's index at some number of observations."""

    size: int
    observations: int
    largest: int
    manifests: int
    head_history: int
    rows: int
    runs: int


def curve(size: int, most: int) -> list[Point]:
    """An index as it grows to `most` observations, `size` to an index run, at about 40 sizes of it."""
    index, found, due = Index("memory:minhash-lsh:v1:soak.00", 380), [], float(size)
    for part in batches(most, size):
        index.run(part, Costs())
        if index.entries >= due or index.entries >= most:
            found.append(
                Point(
                    size,
                    index.entries,
                    index.largest,
                    index.manifests,
                    index.written,
                    Costs().entries(index.rows, index.runs),
                    index.runs,
                )
            )
            due = max(due + 1, due * 1.3)
    return found


def table(queues: int, total: int, sizes: Sizes) -> Table:
    """What so many observations over so many queues come to, by the rhythm of the index."""
    each = total // queues
    shown = Table(box=None, pad_edge=False, header_style="bold")
    for heading in (
        "observations an index run",
        "rows written an observation",
        "largest head of a queue",
        "manifests",
        "heads ever written, an observation",
        "entries, an observation",
        "store, whole",
        "lake, whole",
    ):
        shown.add_column(heading, justify="right")
    for size in RHYTHMS:
        last = curve(size, each)[-1]
        heads = last.head_history / last.observations
        stored = total * (sizes.live_run + sizes.index_entry + heads)
        shown.add_row(
            f"{size:,}",
            f"{Costs().observation + last.rows / last.observations:.1f}",
            sized(last.largest),
            f"{last.manifests:,}",
            sized(round(heads)),
            sized(round(sizes.index_entry)),
            sized(round(stored)),
            sized(round(total * sizes.lake_row)),
        )
    return shown


def picture(most: int) -> str:
    """An SVG: the largest head of a queue so far, and bytes of heads an observation, as the queue grows."""
    import altair as alt
    import vl_convert

    rows = [
        {
            "runs": point.observations,
            "head": point.largest / 1024,
            "history": point.head_history / point.observations / 1024,
            "rhythm": f"{point.size:,}",
        }
        for size in RHYTHMS
        for point in curve(size, most)
    ]
    base = (
        alt.Chart(alt.InlineData(values=rows))
        .mark_line()
        .encode(
            x=alt.X("runs:Q", title="observations of one queue", scale=alt.Scale(type="log")),
            color=alt.Color(
                "rhythm:N", title="observations an index run", sort=[f"{size:,}" for size in RHYTHMS]
            ),
        )
    )

    def panel(name: str, title: str) -> Any:
        return base.encode(y=alt.Y(f"{name}:Q", title=title, scale=alt.Scale(type="log"))).properties(
            width=300, height=220
        )

    chart = panel("head", "largest head so far, KiB") | panel(
        "history", "heads ever written, KiB an observation"
    )
    return str(vl_convert.vegalite_to_svg(chart.to_dict()))


def main() -> int:
    """Print the arithmetic; draw it when asked to."""
    parser = argparse.ArgumentParser(prog="scale", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--queues", type=int, default=QUEUES)
    parser.add_argument("--total", type=int, default=TOTAL, help="observations in all of them")
    parser.add_argument("--svg", type=Path, help="where to draw the growth of one queue's index")
    given = parser.parse_args()
    print(f"{given.total:,} observations in {given.queues:,} queues, written as they come:")
    Console(width=200).print(table(given.queues, given.total, Sizes()))
    if given.svg is not None:
        given.svg.write_text(picture(10_000_000), "utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
