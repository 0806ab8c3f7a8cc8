"""What a store's database holds: its size, and the rows of each table.

Reads only, beside a running server. A SQLite file needs nothing but the standard library, so that `tessera
stats` works where the server's packages are not.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from tessera.errors import TesseraError


@dataclass(frozen=True, slots=True)
class Contents:
    """Identity, place, bytes and those of a write-ahead log of its own, and rows by table, in name order."""

    store_id: str
    place: str
    bytes: int
    log_bytes: int | None
    rows: dict[str, int]


def of(path: Path) -> Contents | None:
    """The contents of the database at `path`; None when there is none that can be read."""
    if not path.is_file():
        return None
    log = path.with_name(path.name + "-wal")
    try:
        with closing(sqlite3.connect(f"{path.as_uri()}?mode=ro", uri=True)) as database:
            ((store_id,),) = database.execute("SELECT value FROM meta WHERE name = 'store_id'").fetchall()
            names = database.execute(
                "SELECT name FROM sqlite_master WHERE type = 'table' AND name NOT GLOB 'sqlite_*' ORDER BY 1"
            ).fetchall()
            rows = {
                name: database.execute(f'SELECT count(*) FROM "{name}"').fetchone()[0]  # noqa: S608 - its own names
                for (name,) in names
            }
        size, log_size = path.stat().st_size, log.stat().st_size if log.exists() else 0
        return Contents(store_id, str(path), size, log_size, rows)
    except (sqlite3.Error, OSError, ValueError):
        return None


def of_url(url: str) -> Contents | None:
    """The contents of the database of a URL; None when there is none that can be read."""
    try:
        from tessera.store.postgresql import PostgresDatabase
    except ModuleNotFoundError:
        return None
    try:
        database = PostgresDatabase(url)
    except TesseraError:
        return None
    with closing(database), closing(database.connect()) as connection:
        names = connection.execute(
            "SELECT relname FROM pg_class "
            "WHERE relkind = 'r' AND relnamespace = current_schema()::regnamespace ORDER BY 1"
        ).fetchall()
        if ("meta",) not in names:
            return None
        ((store_id,),) = connection.execute("SELECT value FROM meta WHERE name = 'store_id'").fetchall()
        rows = {}
        for (name,) in names:
            ((rows[name],),) = connection.execute(f'SELECT count(*) FROM "{name}"'.encode()).fetchall()  # noqa: S608
        return Contents(store_id, database.place, database.sizes()[0], None, rows)
