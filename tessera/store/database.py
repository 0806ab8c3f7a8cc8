"""The store's SQLite file: one writer at a time, short readers, every commit on disk before it is answered.

Promises: WAL with ``synchronous=FULL``; a write is one ``BEGIN IMMEDIATE`` transaction, waits for its
turn within the busy timeout and is rolled back whole on any error; a read is one short transaction over
one snapshot. A change that does not hit exactly the row it expects raises. Leaves out what is written:
the nouns' modules know.
"""

import sqlite3
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tessera.errors import TesseraError, Unavailable
from tessera.store import clock
from tessera.store.statements import SQLITE, Statement

BUSY_SECONDS = 10.0
"""How long a write waits for another before it gives up with 503."""


class Stale(TesseraError):  # noqa: N818 - it says what the row is
    """A change met another version, state or fence than it named; nothing of its transaction is kept."""


class Session:
    """One transaction: runs statements, and knows the time at which it began (``now``, milliseconds)."""

    __slots__ = ("_connection", "_dialect", "now")

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        self._connection = connection
        self._dialect = SQLITE
        self.now = now

    def rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        """All rows of a query."""
        return self._execute(statement, values).fetchall()

    def row(self, statement: Statement, **values: Any) -> tuple[Any, ...] | None:
        """The first row of a query, None when there is none."""
        return cast("tuple[Any, ...] | None", self._execute(statement, values).fetchone())

    def change(self, statement: Statement, **values: Any) -> None:
        """A write that must hit exactly one row; raises Stale otherwise."""
        changed = self._execute(statement, values).rowcount
        if changed != 1:
            raise Stale(f"expected to change one row, changed {changed}")

    def insert(self, statement: Statement, **values: Any) -> int:
        """Insert one row; its number where the database gives it."""
        return self._execute(statement, values).lastrowid or 0

    def insert_all(self, statement: Statement, rows: list[dict[str, Any]]) -> None:
        """Insert rows of one table."""
        text, constants = statement.on(self._dialect)
        self._connection.executemany(text, [{**constants, **row} for row in rows] if constants else rows)

    def _execute(self, statement: Statement, values: dict[str, Any]) -> sqlite3.Cursor:
        text, constants = statement.on(self._dialect)
        return self._connection.execute(text, {**constants, **values} if constants else values)


class Database:
    """An open SQLite file with the schema in place. ``close`` it when done."""

    def __init__(self, path: Path, *, clock: clock.Clock = clock.now) -> None:
        self._path = path
        self._clock = clock
        self._turn = threading.Lock()
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._opening = threading.Lock()
        self._writer = self._connect()
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "journal_size_limit=67108864"):
            self._writer.execute(f"PRAGMA {pragma}")

    @property
    def path(self) -> Path:
        """The database file."""
        return self._path

    @property
    def rows_changed(self) -> int:
        """Table rows inserted, changed or deleted since the file was opened, as SQLite counts."""
        return self._writer.total_changes

    @contextmanager
    def write(self) -> Iterator[Session]:
        """One transaction that may write; committed when the block ends, rolled back when it raises."""
        if not self._turn.acquire(timeout=BUSY_SECONDS):
            raise Unavailable("the store is busy writing; try again", extra={"retry_after": 1})
        try:
            connection = self._writer
            with _refusals():
                connection.execute("BEGIN IMMEDIATE")
            try:
                with _refusals():
                    yield Session(connection, self._clock())
                    connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:
                    connection.execute("ROLLBACK")
                raise
        finally:
            self._turn.release()

    @contextmanager
    def read(self) -> Iterator[Session]:
        """One short transaction over one snapshot; never held while an answer is on its way."""
        connection = getattr(self._local, "reader", None)
        if connection is None:
            connection = self._local.reader = self._connect()
            connection.execute("PRAGMA query_only=1")
        with _refusals():
            connection.execute("BEGIN")
            try:
                yield Session(connection, self._clock())
            finally:
                connection.execute("ROLLBACK")

    def close(self) -> None:
        """Close every connection; the last one folds the log back into the file."""
        with self._opening:
            for connection in reversed(self._open):
                connection.close()
            self._open.clear()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        connection.execute("PRAGMA cache_size=-32768")
        with self._opening:
            self._open.append(connection)
        return connection


@contextmanager
def _refusals() -> Iterator[None]:
    """What the machine refuses for now (a lock, a full disk) is 503; anything else is a fault of ours."""
    try:
        yield
    except sqlite3.OperationalError as error:
        name = getattr(error, "sqlite_errorname", "") or ""
        if name.startswith(("SQLITE_BUSY", "SQLITE_LOCKED")):
            raise Unavailable("the store is busy writing; try again", extra={"retry_after": 1}) from error
        if name.startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
            raise Unavailable("the store cannot write its file at the moment; try again later") from error
        raise
