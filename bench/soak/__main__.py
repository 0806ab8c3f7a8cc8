"""`make soak`: the load on an empty store, then the same with old observations already there.

Exit status 1 when anything is lost or doubled or a lag grows. What was measured is kept in a folder: JSON
lines, the same as Parquet, `findings.json` and `soak.svg`; the store and the lake are removed unless told
otherwise.
"""

import argparse
import json
import shutil
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import polars as pl
from rich.console import Console
from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

from bench.soak import findings, picture, run
from pipelines import attached
from tessera.errors import TesseraError
from tessera.settings import Settings

console = Console(highlight=False, emoji=False)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run what was asked for; 0 when all verdicts are good, 1 when one is not, or the signal's status."""
    given = _given(arguments)
    attached.end_on_signals()
    plan = run.Plan(given.seconds, given.rate, 0, given.queues, given.live, given.processes)
    folder = given.out or Settings.from_environment().home / "soak"
    good = True
    try:
        for name, one in (("empty", plan), ("old", replace(plan, old=given.old))):
            if (name == "old" and not given.old) or given.only not in (None, name):
                continue
            found = _one(name, one, folder / name, given)
            good = good and (found is None or findings.passed(found))
    except TesseraError as error:
        console.print(f"[bold]failed:[/bold] {error}", soft_wrap=True)
        return 1
    except attached.Stopped as stopped:
        console.print("stopped; nothing is left running")
        return stopped.status
    if given.prepare:
        return 0
    console.print(
        "nothing lost, nothing doubled, no lag grows, the pace was kept"
        if good
        else "[bold]a verdict is not good[/bold]"
    )
    return 0 if good else 1


def _given(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="soak", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seconds", type=int, default=600, help="of load")
    parser.add_argument("--rate", type=float, default=10_000, help="observations a minute")
    parser.add_argument("--old", type=int, default=5_000_000, help="old observations; 0 leaves that half out")
    parser.add_argument("--queues", type=int, default=20, help="queues that the old ones are in")
    parser.add_argument("--live", type=int, default=4, help="queues that the load goes to")
    parser.add_argument("--processes", type=int, default=2, help="processes of the load")
    parser.add_argument("--only", choices=("empty", "old"), help="one half alone")
    parser.add_argument("--out", type=Path, help="where the measurements go (default: soak in the home)")
    parser.add_argument("--keep", action="store_true", help="keep the store and the lake, to go on from")
    parser.add_argument("--prepare", action="store_true", help="put the old ones there and end")
    return parser.parse_args(arguments)


def _one(name: str, plan: run.Plan, out: Path, given: argparse.Namespace) -> dict[str, Any] | None:
    """One half: prepare, soak, judge, draw, print."""
    home = (out / "home").absolute()
    old = f"{plan.old:,} old observations" if plan.old else "an empty store"
    console.print(
        f"[bold]{name}[/bold]: {plan.rate:,.0f} observations a minute for {plan.seconds} s beside {old}"
    )
    with _bars() as told:
        prepared = run.prepare(home, plan, told)
        if given.prepare:
            console.print(f"prepared {home}: {prepared['seconds']}")
            return None
        found = findings.of(out, run.soak(home, plan, out, told))
    found["prepared"] = prepared
    (out / "findings.json").write_text(json.dumps(found, indent=1), "utf-8")
    for file in ("lag", "runs", "machine"):
        rows = findings.lines(out / f"{file}.jsonl")
        pl.from_dicts(rows, infer_schema_length=None).write_parquet(out / f"{file}.parquet")
    pl.from_dicts(run.observations(out), infer_schema_length=None).write_parquet(out / "load.parquet")
    (out / "soak.svg").write_text(
        picture.draw(out, found["begin"], f"{plan.rate:,.0f} a minute, {old}"), "utf-8"
    )
    console.print(findings.table(found))
    console.print(f"measured: {out}", soft_wrap=True)
    if not given.keep:
        shutil.rmtree(home)
    return found


@contextmanager
def _bars() -> Iterator[run.Told]:
    """A bar for each part, on a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), TaskProgressColumn(), TimeRemainingColumn())
    with Progress(*columns, console=console, disable=not console.is_terminal, transient=True) as progress:
        bars: dict[str, Any] = {}

        def told(what: str, done: float, total: float | None) -> None:
            if what not in bars:
                bars[what] = progress.add_task(what, total=total)
            progress.update(bars[what], completed=done)

        yield told


if __name__ == "__main__":
    sys.exit(main())
