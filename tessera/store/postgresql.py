"""The store on PostgreSQL: many writers at once, from several server processes too.

Promises: a write is one transaction of READ COMMITTED, in which what it is about to change is locked first
(``FOR UPDATE``), or of REPEATABLE READ where all its reads must be of one moment; whatever another
transaction or a broken connection spoils before the commit raises Again, and ``database.settled`` does it
anew. A commit is on the server's disk before it is answered; a commit whose answer was lost is Unavailable,
since nobody knows. Leaves out PostgreSQL's own text rules: U+0000, which its text cannot hold, is written in
two characters that sort alike.
"""

import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import Connection
from psycopg.abc import Buffer
from psycopg.adapt import Dumper, Loader
from psycopg.conninfo import conninfo_to_dict, make_conninfo
from psycopg.pq import Format, TransactionStatus
from sqlalchemy import text

from tessera.errors import SettingsError, Unavailable
from tessera.store import clock, database
from tessera.store.database import Again, Database, Session
from tessera.store.statements import POSTGRESQL, Statement

SCHEMES = ("postgresql://", "postgres://", "postgresql+psycopg://")

_COMMITTED = "BEGIN"
_SNAPSHOT = "BEGIN ISOLATION LEVEL REPEATABLE READ"
_READING = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"

# Commits are durable whatever the server's default; nobody waits for ever; a server process that hangs with a
# transaction open is cut off. Every statement has its index, so a plan made while a table was small must not
# be a scan of it for ever.
_SETUP = f"""
SELECT set_config('synchronous_commit', 'on', false) WHERE current_setting('synchronous_commit') = 'off';
SET lock_timeout = '{database.BUSY_SECONDS:.0f}s';
SET statement_timeout = '60s';
SET idle_in_transaction_session_timeout = '60s';
SET enable_seqscan = off;
SET jit = off
"""


_SIZE = Statement(
    text(
        "SELECT coalesce(sum(pg_total_relation_size(oid)), 0)::bigint FROM pg_class "
        "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace"
    )
)


class PostgresSession(Session):
    """One transaction on a connection."""

    __slots__ = ("_cursor", "_written")

    def __init__(self, cursor: "psycopg.Cursor[Any]", now: int) -> None:
        super().__init__(now)
        self._cursor = cursor
        self._written = 0

    @property
    def rows_written(self) -> int:
        return self._written

    @contextmanager
    def part(self) -> Iterator[None]:
        with self._cursor.connection.transaction():  # a savepoint, inside of one
            yield

    def rows(self, statement: Statement, **values: Any) -> list[tuple[Any, ...]]:
        self._execute(statement, values)
        return self._cursor.fetchall()

    def row(self, statement: Statement, **values: Any) -> tuple[Any, ...] | None:
        self._execute(statement, values)
        return self._cursor.fetchone()

    def row_of_each(self, statement: Statement, values: list[dict[str, Any]]) -> list[tuple[Any, ...] | None]:
        if not values:
            return []
        self._execute_all(statement, values, returning=True)
        found = [self._cursor.fetchone()]
        while self._cursor.nextset():
            found.append(self._cursor.fetchone())
        return found

    def change(self, statement: Statement, **values: Any) -> None:
        self._execute(statement, values)
        if self._cursor.rowcount != 1:
            raise Again(f"expected to change one row, changed {self._cursor.rowcount}")

    def insert(self, statement: Statement, **values: Any) -> int:
        self._execute(statement, values)
        given = self._cursor.fetchone() if self._cursor.description else None
        return 0 if given is None else int(given[0])

    def insert_all(self, statement: Statement, rows: list[dict[str, Any]]) -> None:
        if rows:
            self._execute_all(statement, rows, returning=False)
            self._written += len(rows)

    def _execute(self, statement: Statement, values: dict[str, Any]) -> None:
        sql, constants = statement.on(POSTGRESQL)
        self._cursor.execute(sql, {**constants, **values} if constants else values, prepare=True)
        if not sql.startswith("SELECT"):
            self._written += self._cursor.rowcount

    def _execute_all(self, statement: Statement, values: list[dict[str, Any]], *, returning: bool) -> None:
        """All of them sent before the first answer is waited for."""
        sql, constants = statement.on(POSTGRESQL)
        self._cursor.executemany(
            sql, [{**constants, **each} for each in values] if constants else values, returning=returning
        )


class PostgresDatabase(Database):
    """Connections to one database, as many as there are threads that ask at once."""

    prompt = False  # each statement is a way to another process
    writers = 8

    def __init__(self, url: str, *, clock: clock.Clock = clock.now) -> None:
        self._conninfo = conninfo(url)
        self._clock = clock
        self._idle: list[Connection[Any]] = []
        self._lock = threading.Lock()
        self._closed = False
        self.give_back(self.connect())

    @property
    def place(self) -> str:
        return place(self._conninfo)

    def write(self, *, wait: bool = True, snapshot: bool = False) -> "Transaction":
        return Transaction(self, _SNAPSHOT if snapshot else _COMMITTED)

    def read(self) -> "Transaction":
        return Transaction(self, _READING)

    def sizes(self) -> tuple[int, None]:
        with self.read() as session:
            ((size,),) = session.rows(_SIZE)
        return int(size), None

    def now(self) -> int:
        """The store's time, milliseconds."""
        return self._clock()

    def begin(self, how: str) -> Connection[Any]:
        """A connection in a transaction; anew when the one at hand turns out to be gone."""
        with self._lock:
            connection = self._idle.pop() if self._idle else None
        if connection is not None:
            try:
                connection.execute(how, prepare=False)
            except psycopg.Error:
                self._forget(connection)
            else:
                return connection
        connection = self.connect()
        try:
            connection.execute(how, prepare=False)
        except psycopg.Error as error:
            connection.close()
            raise translated(error, committing=False) from error
        return connection

    def give_back(self, connection: Connection[Any]) -> None:
        """Keep a connection for the next one, if it is good for another transaction."""
        if connection.info.transaction_status == TransactionStatus.IDLE:
            with self._lock:
                if not self._closed:
                    self._idle.append(connection)
                    return
        connection.close()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            closing, self._idle = self._idle, []
        for connection in closing:
            connection.close()

    def connect(self) -> Connection[Any]:
        """A new connection; Unavailable when there is none to be had."""
        try:
            connection = psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=0)
            connection.prepared_max = 1_000
            connection.adapters.register_dumper(str, _TextDumper)
            for name in ("text", "varchar"):
                connection.adapters.register_loader(name, _TextLoader)
            connection.execute(_SETUP, prepare=False)
        except psycopg.Error as error:
            raise Unavailable("the store cannot reach its database", extra={"retry_after": 1}) from error
        return connection

    def _forget(self, broken: Connection[Any]) -> None:
        """Close the connection and its idle siblings: what ended one ended them."""
        with self._lock:
            closing, self._idle = [broken, *self._idle], []
        for connection in closing:
            connection.close()


class Transaction:
    """A transaction as a block."""

    __slots__ = ("_connection", "_database", "_how")

    def __init__(self, database: PostgresDatabase, how: str) -> None:
        self._database = database
        self._how = how

    def __enter__(self) -> PostgresSession:
        self._connection = self._database.begin(self._how)
        return PostgresSession(self._connection.cursor(binary=True), self._database.now())

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        connection = self._connection
        try:
            if error is None:
                _commit(connection)
            else:
                if not connection.closed:
                    _roll_back(connection)
                if isinstance(error, psycopg.Error):
                    raise translated(error, committing=False) from error
        finally:
            self._database.give_back(connection)


def _commit(connection: Connection[Any]) -> None:
    try:
        connection.execute("COMMIT", prepare=False)
    except psycopg.Error as error:
        raise translated(error, committing=True) from error


def _roll_back(connection: Connection[Any]) -> None:
    try:
        connection.execute("ROLLBACK", prepare=False)
    except psycopg.Error:
        connection.close()


def translated(error: psycopg.Error, *, committing: bool) -> Exception:
    """What an error of the driver means to the one who asked; the error itself when nobody foresaw it."""
    state = error.sqlstate
    if state in _MET:
        return Again("another transaction came between")
    if state in _BUSY:
        return Unavailable("the store is busy writing; try again", extra={"retry_after": 1})
    if state is None or state.startswith(_GONE):
        if not isinstance(error, psycopg.OperationalError | psycopg.InterfaceError):
            return error
        if not committing:
            return Again("the connection to the database broke")
        return Unavailable(
            "the connection to the database broke at the commit; whether it was kept is not known: "
            "ask again under the same idempotency key",
            extra={"retry_after": 1},
        )
    if state.startswith(_SHORT):
        return Unavailable("the database cannot do it at the moment; try again later")
    return error


_MET = frozenset({"40001", "40P01", "23505"})  # serialization, deadlock, a row that another just added
_BUSY = frozenset({"55P03", "57014"})  # waited too long for a lock, or worked too long
_GONE = ("08", "57P", "25P03")  # the connection, or the server behind it
_SHORT = ("53", "54", "58", "25006")  # memory, disk, connections; limits; input and output; read only


def conninfo(url: str) -> str:
    """A URL as libpq takes it. SettingsError, without repeating what may be a password, when it does not."""
    scheme = next((scheme for scheme in SCHEMES if url.startswith(scheme)), None)
    try:
        if scheme is None:
            raise ValueError
        parts = conninfo_to_dict("postgresql://" + url.removeprefix(scheme))
        # A password that is not encoded ends up in the host or the port, which errors may name.
        if "@" in str(parts.get("host", "")) or not str(parts.get("port", "5432")).isdecimal():
            raise ValueError
    except (ValueError, psycopg.Error):
        raise SettingsError(
            "TESSERA_DATABASE_URL is no URL of a PostgreSQL database: write it as "
            "postgresql://USER:PASSWORD@HOST:PORT/DATABASE, special characters percent-encoded"
        ) from None
    defaults: dict[str, Any] = {
        "connect_timeout": 5,
        "application_name": "tessera",
        "client_encoding": "utf8",
    }
    return make_conninfo("", **{**defaults, **parts})


def place(info: str) -> str:
    """Where the database of a conninfo is, without user and password."""
    parts = conninfo_to_dict(info)
    host, port = parts.get("host") or "localhost", parts.get("port") or 5432
    return f"postgresql://{host}:{port}/{parts.get('dbname') or ''}"


def reason(error: BaseException) -> str:
    """The first line of what the driver said; it names host and user, never the password."""
    lines: Iterable[str] = str(error).strip().splitlines()
    return next(iter(lines), type(error).__name__)


class _TextDumper(Dumper):
    """Text to PostgreSQL: U+0000 as U+0001 U+0001, U+0001 as U+0001 U+0002, so that all sorts as before."""

    format = Format.BINARY
    oid = psycopg.adapters.types["text"].oid

    def dump(self, obj: str) -> Buffer:
        if "\0" in obj or "\1" in obj:
            obj = obj.replace("\1", "\1\2").replace("\0", "\1\1")
        return obj.encode()


class _TextLoader(Loader):
    """And back."""

    format = Format.BINARY

    def load(self, data: Buffer) -> str:
        text = str(data, "utf-8")
        return text.replace("\1\1", "\0").replace("\1\2", "\1") if "\1" in text else text
