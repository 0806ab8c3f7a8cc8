"""Which Dagster runs belong to a process that is still there.

A run in this process is tagged with a lock file that the process holds while it lives; the operating system
lets go of it however the process ends. Promises that a run whose process was killed is told as failed before
the next one begins, so that it blocks none. Leaves out runs that Dagster's daemon starts: those are its own.
"""

import contextlib
import fcntl
import os
import secrets
from collections.abc import Iterator
from pathlib import Path

import dagster as dg

TAG = "workspace/process"
UNFINISHED = [
    status
    for status in dg.DagsterRunStatus
    if status not in (dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED)
]
WORDS = (
    "The process that ran it was ended before it was done. What was committed stands; the next run goes on."
)


@contextlib.contextmanager
def alive(home: Path) -> Iterator[str]:
    """Hold a lock file under Dagster's home while the block runs; gives its name, the value of the tag."""
    folder = _folder(home)
    folder.mkdir(parents=True, exist_ok=True)
    name = f"{os.getpid()}-{secrets.token_hex(4)}"
    path = folder / name
    with path.open("wb") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        try:
            yield name
        finally:
            path.unlink(missing_ok=True)


def end_orphans(instance: dg.DagsterInstance, home: Path) -> list[str]:
    """Tell the runs whose process is gone as failed; returns their ids."""
    ended = []
    for record in instance.get_run_records(dg.RunsFilter(statuses=UNFINISHED)):
        run = record.dagster_run
        name = run.tags.get(TAG)
        if name is not None and not _lives(_folder(home) / Path(name).name):
            instance.report_run_failed(run, WORDS)
            ended.append(run.run_id)
    return ended


def _folder(home: Path) -> Path:
    return home / "processes"


def _lives(path: Path) -> bool:
    """Whether some process holds the lock; a file that nobody holds is taken away."""
    try:
        with path.open("rb") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return True
            path.unlink(missing_ok=True)
    except FileNotFoundError:
        pass
    return False
