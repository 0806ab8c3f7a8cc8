"""What the commands say and how: tables and JSON on stdout, complaints and progress bars on stderr.

A bar appears only on a terminal, and only once the work has lasted two seconds. Text from the store or from
files is never taken as markup, and loses the control characters that would command the terminal.
"""

import json
import sys
import time
from collections.abc import Iterable, Sequence
from types import TracebackType
from typing import Annotated, Any, Self

import typer

from tessera.errors import TesseraError

Json = Annotated[bool, typer.Option("--json", help="Print JSON, for programs.")]

_PATIENCE = 2.0  # seconds of work before a bar is shown
_CONTROLS = dict.fromkeys((*range(32), *range(127, 160)), "\N{REPLACEMENT CHARACTER}")


def shown(value: object) -> str:
    """A value as one line of harmless text; unknown is a dash."""
    if value is None:
        return "–"
    if isinstance(value, (list, tuple)):
        return ", ".join(shown(entry) for entry in value) or "–"
    return str(value).translate(_CONTROLS)


def say(text: str) -> None:
    """One line for the person at the terminal."""
    typer.echo(text)


def say_json(value: Any) -> None:
    """One JSON document, for programs."""
    typer.echo(json.dumps(value, ensure_ascii=False, indent=2))


def complain(text: str) -> None:
    """One line on stderr."""
    typer.echo(f"tessera: {text}", err=True)


def one_line(error: TesseraError | str) -> str:
    """An error, or its words, as one line: what was wrong, then each fault's path and message."""
    return "; ".join(shown(line.strip()) for line in str(error).splitlines())


def say_table(columns: Sequence[str], rows: Iterable[Sequence[object]]) -> None:
    """A table; columns whose name ends in `#` hold numbers and are set to the right."""
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        number = column.endswith("#")
        table.add_column(
            column.removesuffix("#"), justify="right" if number else "left", no_wrap=number, overflow="fold"
        )
    for row in rows:
        table.add_row(*(Text(f"{value:,}" if type(value) is int else shown(value)) for value in row))
    console = Console(width=None if sys.stdout.isatty() else 200)
    console.print(table)


def sized(count: int) -> str:
    """A number of bytes for people."""
    value, unit = float(count), "B"
    for larger in ("KiB", "MiB", "GiB", "TiB"):
        if value < 1024:
            break
        value, unit = value / 1024, larger
    return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"


class Progress:
    """A bar of work: `at(done)` moves it. `total` is None while it is unknown."""

    def __init__(self, label: str, total: float | None) -> None:
        self._label = label
        self._total = total
        self._due = time.monotonic() + _PATIENCE if sys.stderr.isatty() else float("inf")
        self._bar: Any = None
        self._task: Any = None

    def at(self, done: float) -> None:
        """Say how much is done, in the unit of `total`."""
        if self._bar is None and time.monotonic() < self._due:
            return
        if self._bar is None:
            self._show()
        self._bar.update(self._task, completed=done)

    def _show(self) -> None:
        from rich.console import Console
        from rich.progress import BarColumn, TaskProgressColumn, TextColumn, TimeRemainingColumn
        from rich.progress import Progress as Bar

        self._bar = Bar(
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            TaskProgressColumn(),
            TimeRemainingColumn(),
            console=Console(stderr=True),
            transient=True,
        )
        self._task = self._bar.add_task(self._label, total=self._total)
        self._bar.start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()
