"""The store's SQLite file: one writer at a time, short readers, every commit on disk before it is answered.

Promises: WAL with ``synchronous=FULL``; a write is one ``BEGIN IMMEDIATE`` transaction, waits for its
turn within the busy timeout and is rolled back whole on any error. Since writers take turns, none meets
another. Leaves out what is written: the nouns' modules know.
"""

import sqlite3
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

from tessera.errors import Unavailable
from tessera.store import clock, database
from tessera.store.database import Busy, Database, Over, Session, Stale
from tessera.store.statements import SQLITE, Statement


class SqliteSession(Session):
    """One transaction on a connection."""

    __slots__ = ("_before", "_connection")

    def __init__(self, connection: sqlite3.Connection, now: int) -> None:
        super().__init__(now)
        self._connection = connection
        self._before = connection.total_changes

    @property
    def rows_written(self) -> int:
        return self._connection.total_changes - self._before

    @contextmanager
    def part(self) -> Iterator[None]:
        connection = self._connection
        connection.execute("SAVEPOINT part")
        try:
            yield
        except BaseException as error:
            if not connection.in_transaction:  # SQLite ends it by itself on some errors of the disk
                raise Over(_UNWRITABLE) from error
            try:
                connection.execute("ROLLBACK TO part")
                connection.execute("RELEASE part")
            except sqlite3.Error:  # what is left of the part must not be committed with the others
                raise Over(_UNWRITABLE) from error
            _translate(error)
            raise
        try:
            connection.execute("RELEASE part")
        except sqlite3.Error as error:
            raise Over(_UNWRITABLE) from error

    def rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        return self._execute(statement, values).fetchall()

    def row(self, statement: Statement, **values: Any) -> tuple[Any, ...] | None:
        return cast("tuple[Any, ...] | None", self._execute(statement, values).fetchone())

    def row_of_each(self, statement: Statement, values: list[dict[str, Any]]) -> list[tuple[Any, ...] | None]:
        return [self.row(statement, **each) for each in values]

    def change(self, statement: Statement, **values: Any) -> None:
        changed = self._execute(statement, values).rowcount
        if changed != 1:
            raise Stale(f"expected to change one row, changed {changed}")

    def insert(self, statement: Statement, **values: Any) -> int:
        return self._execute(statement, values).lastrowid or 0

    def insert_all(self, statement: Statement, rows: list[dict[str, Any]]) -> None:
        text, constants = statement.on(SQLITE)
        self._connection.executemany(text, [{**constants, **row} for row in rows] if constants else rows)

    def _execute(self, statement: Statement, values: dict[str, Any]) -> sqlite3.Cursor:
        text, constants = statement.on(SQLITE)
        return self._connection.execute(text, {**constants, **values} if constants else values)


class SqliteDatabase(Database):
    """An open SQLite file with the schema in place."""

    prompt = True
    writers = 2  # one prepares while the other waits for the disk

    def __init__(self, path: Path, *, clock: clock.Clock = clock.now) -> None:
        self._path = path
        self._clock = clock
        self._turn = threading.Lock()
        self._local = threading.local()
        self._open: list[sqlite3.Connection] = []
        self._opening = threading.Lock()
        self._writer = self._connect()
        # The last one: from here on the writer's waiting is done in take_turn, where it can be left out.
        for pragma in (
            "journal_mode=WAL",
            "synchronous=FULL",
            "journal_size_limit=67108864",
            "busy_timeout=0",
        ):
            self._writer.execute(f"PRAGMA {pragma}").fetchall()

    @property
    def path(self) -> Path:
        """The database file."""
        return self._path

    @property
    def rows_changed(self) -> int:
        """Table rows inserted, changed or deleted since the file was opened, as SQLite counts."""
        return self._writer.total_changes

    @property
    def place(self) -> str:
        return str(self._path)

    def sizes(self) -> tuple[int, int]:
        log = self._path.with_name(self._path.name + "-wal")
        return self._path.stat().st_size, log.stat().st_size if log.exists() else 0

    def write(self, *, wait: bool = True, snapshot: bool = False) -> "Write":
        return Write(self, wait)  # a snapshot always: nobody else writes meanwhile

    def read(self) -> "Read":
        return Read(self)

    def now(self) -> int:
        """The store's time, milliseconds."""
        return self._clock()

    def take_turn(self, wait: bool) -> sqlite3.Connection:
        """The writer, in a transaction, once nobody else writes: in this process or in another."""
        if not self._turn.acquire(timeout=database.BUSY_SECONDS if wait else 0):
            raise Unavailable(_BUSY, extra={"retry_after": 1}) if wait else Busy
        try:
            deadline = time.monotonic() + database.BUSY_SECONDS
            while True:
                try:
                    self._writer.execute("BEGIN IMMEDIATE")
                except sqlite3.OperationalError as error:
                    if not wait and _is_busy(error):
                        raise Busy from None
                    if not _is_busy(error) or time.monotonic() > deadline:
                        _translate(error)
                        raise
                    time.sleep(_RETRY_SECONDS)
                else:
                    return self._writer
        except BaseException:
            self._turn.release()
            raise

    def end_turn(self) -> None:
        """Let the next one write."""
        self._turn.release()

    def reader(self) -> sqlite3.Connection:
        """This thread's connection for reads."""
        connection: sqlite3.Connection | None = getattr(self._local, "reader", None)
        if connection is None:
            connection = self._connect()
            connection.execute("PRAGMA query_only=1")
            self._local.reader = connection
        return connection

    def close(self) -> None:
        with self._opening:  # the last connection folds the log back into the file
            for connection in reversed(self._open):
                connection.close()
            self._open.clear()

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path,
            timeout=database.BUSY_SECONDS,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=512,
        )
        connection.execute("PRAGMA cache_size=-32768")
        with self._opening:
            self._open.append(connection)
        return connection


class Write:
    """A writing transaction as a block."""

    __slots__ = ("_connection", "_database", "_wait")

    def __init__(self, database: SqliteDatabase, wait: bool) -> None:
        self._database = database
        self._wait = wait

    def __enter__(self) -> Session:
        self._connection = self._database.take_turn(self._wait)
        return SqliteSession(self._connection, self._database.now())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        connection = self._connection
        try:
            if error is None:
                connection.execute("COMMIT")
            else:
                _translate(error)
        except sqlite3.OperationalError as refused:
            _translate(refused)
            raise
        finally:
            try:
                if connection.in_transaction:  # SQLite ends it by itself on some errors of the disk
                    connection.execute("ROLLBACK")
            finally:
                self._database.end_turn()


class Read:
    """A reading transaction as a block."""

    __slots__ = ("_connection", "_database")

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database

    def __enter__(self) -> Session:
        try:
            self._connection = self._database.reader()
            self._connection.execute("BEGIN")
        except sqlite3.OperationalError as error:
            _translate(error)
            raise
        return SqliteSession(self._connection, self._database.now())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        if self._connection.in_transaction:
            self._connection.execute("ROLLBACK")
        _translate(error)


_BUSY = "the store is busy writing; try again"
_UNWRITABLE = "the store cannot write its file at the moment; try again later"
_RETRY_SECONDS = 0.002


def _name(error: sqlite3.OperationalError) -> str:
    return getattr(error, "sqlite_errorname", "") or ""


def _is_busy(error: sqlite3.OperationalError) -> bool:
    return _name(error).startswith(("SQLITE_BUSY", "SQLITE_LOCKED"))


def _translate(error: BaseException | None) -> None:
    """Raise 503 for what the machine refuses for now, a lock or a full disk; leave anything else."""
    if not isinstance(error, sqlite3.OperationalError):
        return
    if _is_busy(error):
        raise Unavailable(_BUSY, extra={"retry_after": 1}) from error
    if _name(error).startswith(("SQLITE_FULL", "SQLITE_IOERR", "SQLITE_CANTOPEN", "SQLITE_READONLY")):
        raise Unavailable(_UNWRITABLE) from error
