"""A simulator of what grows: rows written an operation, the memory index's head and manifests, bytes a run.

`python -m bench.scale` prints the arithmetic to 1,000 queues and a billion runs, `--svg FILE` draws it. Counts
and head sizes are exact, byte for byte, and held against a real store by a test; sizes of what varies (an
observation, an index entry) are parameters, whose defaults were measured.
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

    stored_run: float = 3_010.0
    lake_row: float = 200.0
    index_entry: float = 640.0
    dagster_run: float = 400_000.0


@dataclass(frozen=True, slots=True)
class Costs:
    """What operations write: entries of tables and indexes together, as `tessera stats --write-cost` prints them.

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

    ``pins`` and ``manifests`` are what the head pins: entries, first and last cursor, and the number in its
    key. ``written`` is bytes of all head versions, ``rows`` all table rows that its runs wrote.
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
