"""One run of a queue at a time, whoever started it: a person, the sensor, a backfill or `workspace run`.

Promises that a process which died, however it died, holds no turn, and that the run it left behind in
Dagster's history is found and ended there. These are locks of the file system, so they are of one machine;
`pipelines.shared_turns` has those of several. Leaves out what is done in a turn.
"""

import fcntl
import os
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from contextvars import ContextVar
from pathlib import Path
from typing import TYPE_CHECKING

from tessera.errors import TesseraError

if TYPE_CHECKING:
    from dagster import DagsterInstance

PATIENCE_SECONDS = 900.0
START_SECONDS = 120.0  # from a run's start to its first breath here: a process that loads the assets
_POLL_SECONDS = 0.1
FOREIGN_SECONDS = 6 * 3600.0  # a run of another machine, which cannot be looked at, counts as over then
KEEPER = "tessera/turns"  # the tag that says in which folder of turns a run breathes
DIED = "its process ended without a word (killed, or the machine went down); what it had committed stands"

Told = Callable[[str], None]

kept: ContextVar[str | None] = ContextVar("kept", default=None)
"""The run that works in this context in a turn that is kept for it elsewhere, as on a cluster's worker."""


class TurnError(TesseraError):
    """Another run of the queue was at work for too long; nothing was done."""


class Turns:
    """The turns of one workspace, as lock files in a folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    @contextmanager
    def take(
        self, queue: str | None, run_id: str, patience: float = PATIENCE_SECONDS, told: Told | None = None
    ) -> Iterator[None]:
        """Hold the queue's turn for a run. Waits for the one before, then raises TurnError.

        Meanwhile the run is `alive`; one of no queue waits for none and is alive alone.
        """
        self._folder.mkdir(parents=True, exist_ok=True)
        breath = self._open(f"run.{run_id}")
        fcntl.flock(breath, fcntl.LOCK_SH)
        turn = None if queue is None else self._open(f"queue.{queue}")
        try:
            if queue is not None and turn is not None:
                wait_for_turn(lambda: _locked(turn), queue, patience, told)
            yield
        finally:
            if turn is not None:
                os.close(turn)
            with suppress(FileNotFoundError):
                self._breath(run_id).unlink()
            os.close(breath)

    @property
    def name(self) -> str:
        """What this folder is called in the tags of runs, the same for ever."""
        self._folder.mkdir(parents=True, exist_ok=True)
        named = self._folder / "name"
        fresh = self._folder / f".name.{os.getpid()}.{threading.get_ident()}"
        if not named.exists():
            fresh.write_text(uuid.uuid4().hex, "ascii")
            with suppress(FileExistsError):
                os.link(fresh, named)  # whole or absent, and the first one stays
            fresh.unlink()
        return named.read_text("ascii")

    def alive(self, run_id: str) -> bool | None:
        """Whether the run's process breathes; None when no process of that run was ever here."""
        try:
            breath = os.open(self._breath(run_id), os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            fcntl.flock(breath, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
        finally:
            os.close(breath)
        return False

    def forget(self, run_id: str) -> None:
        """Drop what is left of a run that is known to be over."""
        with suppress(FileNotFoundError):
            self._breath(run_id).unlink()

    def _open(self, name: str) -> int:
        return os.open(self._folder / name, os.O_RDWR | os.O_CREAT, 0o600)

    def _breath(self, run_id: str) -> Path:
        return self._folder / f"run.{run_id}"


def wait_for_turn(taken: Callable[[], bool], queue: str, patience: float, told: Told | None) -> None:
    """Ask until the turn of the queue is taken; TurnError when it is not after `patience` seconds."""
    deadline = time.monotonic() + patience
    while not taken():
        if time.monotonic() >= deadline:
            raise TurnError(
                f"another run of queue {queue} was still at work after {patience:.0f} s, so this one "
                "did nothing; it is tried again, or run it again"
            )
        if told is not None:
            told(f"another run of queue {queue} is at work: waiting for its end")
            told = None
        time.sleep(_POLL_SECONDS)


def _locked(file: int) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def left_behind(instance: "DagsterInstance", turns: Turns) -> list[str]:
    """The runs that Dagster believes to be under way but whose process is gone, oldest first."""
    from dagster import DagsterRunStatus, RunsFilter

    believed = instance.get_run_records(
        RunsFilter(
            statuses=[DagsterRunStatus.STARTING, DagsterRunStatus.STARTED, DagsterRunStatus.CANCELING]
        ),
        ascending=True,
    )
    gone = []
    for record in believed:
        alive = turns.alive(record.dagster_run.run_id)
        silent = time.time() - record.update_timestamp.timestamp()
        ours = record.dagster_run.tags.get(KEEPER, turns.name) == turns.name
        if alive is False or (alive is None and silent > (START_SECONDS if ours else FOREIGN_SECONDS)):
            gone.append(record.dagster_run.run_id)
    return gone


def end_left_behind(instance: "DagsterInstance", turns: Turns) -> list[str]:
    """Mark those runs as failed, so that they neither block their queue nor look as if they went on."""
    gone = left_behind(instance, turns)
    for run_id in gone:
        run = instance.get_run_by_id(run_id)
        if run is not None and not run.is_finished:
            instance.report_run_failed(run, DIED)
        turns.forget(run_id)
    return gone
