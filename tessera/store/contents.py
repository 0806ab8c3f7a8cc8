"""What a store's SQLite file holds: its size, and the rows of each table.

Reads only, beside a running server. Needs nothing but the standard library, so that `tessera stats` works
where the server's packages are not.
"""

import sqlite3
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Contents:
    """Identity, bytes of the file and of its write-ahead log, and rows by table, in name order."""

    store_id: str
    bytes: int
    log_bytes: int
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
        return Contents(store_id, path.stat().st_size, log.stat().st_size if log.exists() else 0, rows)
    except (sqlite3.Error, OSError, ValueError):
        return None
