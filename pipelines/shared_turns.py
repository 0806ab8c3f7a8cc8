"""Turns for several machines: advisory locks of the PostgreSQL database that holds Dagster's history.

Promises what `pipelines.turns` promises, on every machine whose workspace uses that history: the locks are of
a connection, so a process that dies gives them up, and a machine that falls silent does within a minute.
Leaves out telling a run that died from one that has not begun to breathe: the age of Dagster's last word of
it decides, so a dead one is found up to two minutes later than on one machine.
"""

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from dagster._core.instance.ref import InstanceRef
from dagster._core.storage.runs import SqlRunStorage
from sqlalchemy import Connection, text

from pipelines.instance import opening
from pipelines.turns import PATIENCE_SECONDS, Told, Turns, wait_for_turn

_SHARE = text("SELECT pg_advisory_lock_shared(:name)")
_TRY = text("SELECT pg_try_advisory_lock(:name)")
# How soon the server notices that the other machine is gone; without effect on a local socket.
_WATCHED = text(
    "SELECT set_config('tcp_keepalives_idle', '30', false), "
    "set_config('tcp_keepalives_interval', '10', false), set_config('tcp_keepalives_count', '3', false)"
)


class SharedTurns(Turns):
    """The turns of all workspaces that share a history."""

    def __init__(self, history: SqlRunStorage) -> None:
        self._history = history

    @contextmanager
    def take(
        self, queue: str | None, run_id: str, patience: float = PATIENCE_SECONDS, told: Told | None = None
    ) -> Iterator[None]:
        with self._session() as session:
            session.execute(_WATCHED)
            session.execute(_SHARE, {"name": _name("run", run_id)})
            if queue is not None:
                turn = {"name": _name("queue", queue)}
                wait_for_turn(lambda: bool(session.scalar(_TRY, turn)), queue, patience, told)
            yield

    @property
    def name(self) -> str:
        """One for all: whoever shares the history shares its turns."""
        return "history"

    def alive(self, run_id: str) -> bool | None:
        with self._session() as session:
            return None if session.scalar(_TRY, {"name": _name("run", run_id)}) else True

    def forget(self, run_id: str) -> None:
        """A lock leaves nothing behind."""

    @contextmanager
    def _session(self) -> Iterator[Connection]:
        """A connection whose locks last until it is closed, and which holds no transaction open meanwhile."""
        with self._history.connect() as connection:
            yield connection.execution_options(isolation_level="AUTOCOMMIT")


def of(dagster_home: Path) -> SharedTurns | None:
    """The turns of a Dagster home whose history is in PostgreSQL; None for any other."""
    if not (dagster_home / "dagster.yaml").exists():
        return None
    with opening(dagster_home):
        ref = InstanceRef.from_dir(str(dagster_home))
        kept = ref.run_storage_data
        if kept is None or kept.module_name.partition(".")[0] != "dagster_postgres":
            return None
        history = ref.run_storage
    return SharedTurns(history) if isinstance(history, SqlRunStorage) else None


def _name(noun: str, name: str) -> int:
    """A lock's name as PostgreSQL has them: 64 bits."""
    digest = hashlib.sha256(f"tessera {noun} {name}".encode()).digest()
    return int.from_bytes(digest[:8], "big", signed=True)
