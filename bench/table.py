"""What a line of the benchmark table is, and how a figure is taken."""

import gc
import statistics
import time
from collections.abc import Callable
from dataclasses import dataclass

from rich.table import Table


@dataclass(frozen=True, slots=True)
class Line:
    """One comparison. `ours` and `theirs` are in `unit`; `theirs` is None where there is no peer.

    `ratio` is how many times better ours is, computed by whoever knows whether more or less is better.
    """

    work: str
    ours: float
    peer: str
    theirs: float | None
    unit: str
    ratio: float | None
    reach: str
    binds: str


def median_seconds(act: Callable[[], object], runs: int) -> float:
    """Median wall-clock seconds of `runs` calls of `act`, after one that is not counted."""
    act()
    taken = []
    for _ in range(runs):
        gc.collect()
        start = time.perf_counter()
        act()
        taken.append(time.perf_counter() - start)
    return statistics.median(taken)


def rates(
    work: str, rows: int, ours: float, peers: dict[str, tuple[float, str]], binds: str, unit: str = "rows/s"
) -> list[Line]:
    """Lines for work of `rows` rows; `ours` in seconds, `peers` = {name: (seconds, what to reach)}."""
    return [
        Line(work, rows / ours, peer, rows / theirs, unit, theirs / ours, reach, binds)
        for peer, (theirs, reach) in peers.items()
    ]


def printed(lines: list[Line]) -> Table:
    """The lines as a table for a terminal."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading in ("work", "ours", "peer", "the peer's", "ratio", "reach", "what binds"):
        table.add_column(heading, justify="left" if heading in {"work", "peer", "what binds"} else "right")
    for line in lines:
        table.add_row(
            line.work,
            f"{figure(line.ours)} {line.unit}",
            line.peer,
            "-" if line.theirs is None else f"{figure(line.theirs)} {line.unit}",
            "-" if line.ratio is None else f"{line.ratio:.2f} ×",
            line.reach,
            line.binds,
        )
    return table


def figure(value: float) -> str:
    """A figure as a person writes it: 16.9 M, 4.3 k, 148."""
    for size, letter in ((1e6, " M"), (1e3, " k")):
        if value >= size:
            return f"{value / size:.3g}{letter}"
    return f"{value:.3g}"
