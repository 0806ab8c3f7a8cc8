"""Opens the store of a home folder, in its SQLite file or a PostgreSQL database: schema, identity, first key.

Promises that a first start cut short at any point can be repeated: the admin secret is on disk before the
database knows its hash, and a secret that is there already is taken, never replaced.
"""

import contextlib
import json
import os
import secrets
import uuid
from dataclasses import dataclass, field
from pathlib import Path

from sqlalchemy import bindparam, select, text, update
from sqlalchemy.exc import DBAPIError

from tessera.errors import SettingsError, Unavailable
from tessera.store import clock, keys, migrate
from tessera.store.clock import Forward, milliseconds
from tessera.store.database import Busy, Database, Session, Stale, settled
from tessera.store.permission import Grant
from tessera.store.places import sqlite_file
from tessera.store.schema import counters, meta
from tessera.store.statements import Statement, insert_into

_META = Statement(select(meta.c.value).where(meta.c.name == bindparam("name")))
_ADD_META = insert_into(meta)
_ADD_COUNTER = insert_into(counters)
_TIME = Statement(select(counters.c.value).where(text("name = 'clock'")))
_KEEP_TIME = Statement(
    update(counters)
    .where(text("name = 'clock'"), counters.c.value < bindparam("moment"))
    .values(value=bindparam("moment"))
)
_NEWEST_TASK = Statement(text("SELECT created_at FROM tasks WHERE number = (SELECT max(number) FROM tasks)"))
_NEWEST_RUN = Statement(
    text("SELECT item FROM executions WHERE number = (SELECT max(number) FROM executions)")
)
_ANY_KEY = Statement(text("SELECT 1 FROM keys LIMIT 1"))

EXECUTIONS = "executions"
"""The counter that numbers executions."""
CLOCK = "clock"
"""The counter that holds the store's time, milliseconds, as it was when a server last ended in order."""


@dataclass(frozen=True, slots=True)
class Store:
    """An open store: its database, its identity, the secret that its draws are thrown by, where a new admin
    secret was left, if one was made, and its time. ``close`` it when done.
    """

    database: Database
    store_id: str
    new_admin_key: Path | None
    draw_secret: bytes = field(repr=False)
    time: clock.Forward

    def close(self) -> None:
        """Keep the store's time for the next start, then close the database."""
        try:
            with self.database.write(wait=False) as session:
                session.change(_KEEP_TIME, moment=session.now)
        except (Busy, Unavailable, Stale):
            pass  # another server keeps a later time, or nothing can be kept: the newest rows tell it then
        finally:
            self.database.close()


def open_store(home: Path, database_url: str | None = None, *, clock: clock.Clock = clock.now) -> Store:
    """Open the store in ``home``, or in the database of a URL, making what is missing.

    Several servers may open one store at once. Raises SettingsError when the folder or the database cannot be
    used or the database is a newer version's.
    """
    file = sqlite_file(home, database_url)
    try:
        home.mkdir(mode=0o700, parents=True, exist_ok=True)
        if file is not None:
            _private_file(file)
    except OSError as error:
        raise SettingsError(f"cannot use {home} as the store's home: {error.strerror}") from None
    time = Forward(clock)
    database = _sqlite(file, time) if file is not None else _postgresql(database_url or "", time)
    try:
        store_id, draw_secret, made, newest = settled(lambda: _begun(database, home))
    except BaseException:
        database.close()
        raise
    time.not_before(newest)
    return Store(database, store_id, made, draw_secret, time)


def _sqlite(path: Path, clock: clock.Clock) -> Database:
    from tessera.store.sqlite import SqliteDatabase

    engine = migrate.sqlite_engine(path)
    try:
        migrate.upgrade(engine)
    except DBAPIError as error:
        raise SettingsError(f"cannot use {path} as the store's database: {error.orig}") from None
    finally:
        engine.dispose()
    return SqliteDatabase(path, clock=clock)


def _postgresql(url: str, clock: clock.Clock) -> Database:
    try:
        from tessera.store import postgresql
    except ImportError as error:
        raise SettingsError(f"a PostgreSQL database needs psycopg, of the server extra: {error}") from None
    conninfo = postgresql.conninfo(url)
    engine = migrate.postgresql_engine(conninfo)
    try:
        migrate.upgrade(engine)
        return postgresql.PostgresDatabase(url, clock=clock)
    except (DBAPIError, Unavailable) as error:
        cause = error.orig if isinstance(error, DBAPIError) else error.__cause__
        said = postgresql.reason(cause or error)
        raise SettingsError(f"cannot use the database at {postgresql.place(conninfo)}: {said}") from None
    finally:
        engine.dispose()


def _begun(database: Database, home: Path) -> tuple[str, bytes, Path | None, int]:
    """The identity, the draws' secret, where a new admin secret is, if the store had no key, and the newest
    moment that the store knows.

    The first to write the identity makes the rest: another who begins at once waits for its commit there, and
    then finds all.
    """
    with database.write() as session:
        store_id = _identity(session)
        draw_secret = _draw_secret(session)
        made = None
        if session.row(_ANY_KEY) is None:
            made = home / "admin.key"
            keys.add(session, _admin_grant(), _admin_secret(made))
        newest = _newest(session)
    return store_id, draw_secret, made, newest


def _newest(session: Session) -> int:
    """The latest of what was kept at the last orderly end and what the newest task and run say."""
    kept, task, run = (session.row(query) for query in (_TIME, _NEWEST_TASK, _NEWEST_RUN))
    if kept is None:
        session.change(_ADD_COUNTER, name=CLOCK, value=session.now)
    submitted = None if run is None else json.loads(run[0]).get("server", {}).get("submitted_at")
    return max(
        0 if kept is None else kept[0],
        0 if task is None else task[0],
        0 if submitted is None else milliseconds(submitted) or 0,
    )


def _identity(session: Session) -> str:
    found = session.row(_META, name="store_id")
    if found is not None:
        return str(found[0])
    store_id = str(uuid.uuid4())
    session.change(_ADD_META, name="store_id", value=store_id)
    session.change(_ADD_COUNTER, name=EXECUTIONS, value=0)
    return store_id


def _draw_secret(session: Session) -> bytes:
    """256 random bits, made once for a database and never changed: old draws can be thrown again."""
    found = session.row(_META, name="draw_secret")
    if found is not None:
        return bytes.fromhex(found[0])
    secret = secrets.token_bytes(32)
    session.change(_ADD_META, name="draw_secret", value=secret.hex())
    return secret


def _admin_grant() -> Grant:
    return Grant(
        name="admin",
        scopes=frozenset({"read", "work", "write", "admin"}),
        queues=("*",),
        kinds=None,
        stores=None,
        expires_at=None,
    )


def _admin_secret(path: Path) -> str:
    """The secret in ``path``; made, readable by its owner alone and on disk, when there is none."""
    with contextlib.suppress(FileNotFoundError):
        found = path.read_text("ascii").strip()
        if found:
            return found
    secret = keys.new_secret()
    draft = path.with_name(f".{path.name}.{secrets.token_hex(4)}")
    descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(secret + "\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    _sync_folder(path.parent)
    return secret


def _private_file(path: Path) -> None:
    """Make the database file with mode 0600, before SQLite would with a wider one."""
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600))


def _sync_folder(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
