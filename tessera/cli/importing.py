"""`tessera import`: past attempts out of a file, into a queue.

The whole file is checked before anything is sent, so that a faulty one leaves nothing behind. Attempts are
known by their identity: a second run adds nothing. A call that meets a conflict writes nothing; others stand.
"""

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import typer

from tessera.cli.attempts_file import AttemptsFile, Batch, LineFault
from tessera.cli.terminal import Json, Progress, complain, say, say_json, shown
from tessera.client import Client
from tessera.errors import Conflict, Invalid, TesseraError

_WHICH = re.compile(r"attempts\[([0-9]+)\]\.?(.*)", re.DOTALL)


@dataclass(slots=True)
class Outcome:
    """What became of a file's attempts."""

    attempts: int = 0
    imported: int = 0
    already_there: int = 0
    held_back: int = 0
    faults: list[LineFault] = field(default_factory=list)
    conflicts: list[LineFault] = field(default_factory=list)


def import_file(
    file: Annotated[
        Path,
        typer.Argument(metavar="FILE.jsonl[.gz]", help="One attempt a line.", exists=True, dir_okay=False),
    ],
    queue: Annotated[str, typer.Option(help="The queue that the attempts belong to.")],
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only check the file; send nothing.")] = False,
    as_json: Json = False,
) -> None:
    """Import past attempts. Safe to run twice; names the line and path of each fault."""
    outcome = Outcome()
    with AttemptsFile(file) as attempts:
        _check(attempts, outcome)
        if not outcome.faults and not dry_run:
            with Client() as client:
                _send(client, queue, attempts, outcome)
    _report(file, queue, outcome, dry_run, as_json)
    if outcome.faults or outcome.conflicts:
        raise typer.Exit(1)


def _check(file: AttemptsFile, outcome: Outcome) -> None:
    """Judge every line; faults are said as they are found."""
    with Progress(f"checking {file.path.name}", file.size) as progress:
        for _number, _value, faults in file.checked():
            outcome.attempts += 1
            for fault in faults:
                _complain(file.path, fault)
            outcome.faults += faults
            progress.at(file.position)


def _send(client: Client, queue: str, file: AttemptsFile, outcome: Outcome) -> None:
    with Progress(f"importing {file.path.name}", outcome.attempts) as progress:
        done = 0
        for batch in file.batches():
            try:
                answer = client.import_attempts(queue, batch.attempts)
            except Conflict as conflict:
                named = _named(batch, conflict)
                if not named:
                    raise
                outcome.held_back += len(batch.lines) - len({fault.line for fault in named})
                outcome.conflicts += named
                for fault in named:
                    _complain(file.path, fault)
            except Invalid as invalid:
                raise _refused(file.path, batch, invalid) from None
            else:
                outcome.imported += answer["imported"]
                outcome.already_there += len(batch.lines) - answer["imported"]
            done += len(batch.lines)
            progress.at(done)


def _named(batch: Batch, conflict: Conflict) -> list[LineFault]:
    """The conflicts of a refused call, by line."""
    return [
        LineFault(
            batch.lines[entry["index"]],
            "",
            "conflicts with an attempt of the same identity that was imported with other content",
        )
        for entry in conflict.conflicts
        if "index" in entry
    ]


def _refused(path: Path, batch: Batch, invalid: Invalid) -> TesseraError:
    """What the store does not take although the file passed the check, with lines for positions."""
    told = []
    for fault in invalid.errors:
        which = _WHICH.fullmatch(fault.path)
        place = f"{path}:{batch.lines[int(which[1])]}: {which[2]}" if which else fault.path
        told.append(f"{place}: {fault.message}")
    return TesseraError("; ".join(told) or invalid.detail)


def _complain(path: Path, fault: LineFault) -> None:
    place = f"{path}:{fault.line}" + (f": {fault.path}" if fault.path else "")
    complain(shown(f"{place}: {fault.message}"))


def _report(path: Path, queue: str, outcome: Outcome, dry_run: bool, as_json: bool) -> None:
    if as_json:
        say_json(_document(path, queue, outcome, dry_run))
        return
    if outcome.faults:
        lines = len({fault.line for fault in outcome.faults})
        say(f"{outcome.attempts:,} lines checked, {lines:,} faulty; nothing was sent.")
        return
    if dry_run:
        say(f"{outcome.attempts:,} attempts checked, no faults; nothing was sent (--dry-run).")
        return
    say(
        f"{outcome.imported:,} imported into {shown(queue)}, {outcome.already_there:,} already there, "
        f"{len(outcome.conflicts):,} in conflict."
    )
    if outcome.held_back:
        say(
            f"{outcome.held_back:,} further attempts shared a call with a conflict and were not imported: "
            "take the lines in conflict out and run it again."
        )


def _document(path: Path, queue: str, outcome: Outcome, dry_run: bool) -> dict[str, Any]:
    return {
        "file": str(path),
        "queue": queue,
        "dry_run": dry_run,
        "attempts": outcome.attempts,
        "imported": outcome.imported,
        "already_there": outcome.already_there,
        "held_back": outcome.held_back,
        "conflicts": [fault.document() for fault in outcome.conflicts],
        "faults": [fault.document() for fault in outcome.faults],
    }
