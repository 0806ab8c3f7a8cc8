"""Small tables in markdown for a materialization's metadata.

Promises that what a cell holds is stored text and stays inside its cell, and that unknown is left empty,
never shown as 0.
"""

from collections.abc import Sequence

_CELL = 80


def line(cells: Sequence[str], most: int = _CELL) -> str:
    """One row of a table, each cell of at most so many characters."""
    shown = (" ".join(cell.split())[:most].replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(cell.replace('<', '&lt;') for cell in shown)} |"


def table(
    heads: Sequence[str], rows: Sequence[Sequence[str]], title: str | None = None, most: int = _CELL
) -> str:
    """A whole table, with a title in bold above it."""
    above = [] if title is None else [f"**{' '.join(title.split())}**", ""]
    return "\n".join([*above, line(heads), line(["---"] * len(heads)), *(line(row, most) for row in rows)])


def figure(value: float | None, digits: int = 3) -> str:
    """A number for people."""
    return "" if value is None else f"{value:.{digits}f}"


def interval(low: float | None, high: float | None, digits: int = 3) -> str:
    """Both ends, or nothing when they are unknown."""
    return "" if low is None or high is None else f"{figure(low, digits)} – {figure(high, digits)}"
