"""Counts what an operation writes: one for each table or index entry inserted, deleted or rewritten.

Method: the entries of every B-tree of the file (tables, and indexes by the columns and the condition that
SQLite's own catalogue gives) are read before and after and compared. A table row that changed is one
entry; an index entry that changed is two, since SQLite deletes the old one and inserts the new one.
SQLite's own count of changed table rows must equal the tables' part, so a row rewritten with its old
values cannot hide; no statement of the store sets an indexed column to the value it has, so no index
entry does either. ``sqlite_sequence`` counts as any other table. Meant for scratch stores: it reads
everything.
"""

import sqlite3
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tessera.store.sqlite import SqliteDatabase

Entries = dict[str, dict[tuple[Any, ...], tuple[Any, ...]]]


@dataclass(frozen=True, slots=True)
class WriteCost:
    """Entries written: by B-tree, and of the tables alone."""

    by_tree: dict[str, int]
    tables: int

    @property
    def total(self) -> int:
        """Entries of tables and indexes together."""
        return sum(self.by_tree.values())


def measure(database: SqliteDatabase, act: Callable[[], object]) -> WriteCost:
    """What ``act`` writes. Raises RuntimeError when SQLite counts other table rows than the comparison."""
    before, changes = _entries(database.path), database.rows_changed
    act()
    after, changed = _entries(database.path), database.rows_changed - changes
    by_tree: dict[str, int] = {}
    tables = 0
    for tree in after:
        old, new = before.get(tree, {}), after[tree]
        is_index = tree.startswith("index ")
        rewritten = sum(1 for key in old.keys() & new.keys() if old[key] != new[key])
        count = len(old.keys() ^ new.keys()) + rewritten
        tables += 0 if is_index else count
        if count:
            by_tree[tree] = count
    if tables != changed:
        raise RuntimeError(f"SQLite counts {changed} table rows written, the comparison {tables}")
    return WriteCost(by_tree, tables)


def _entries(path: Path) -> Entries:
    """Each B-tree's entries: a table's rows by primary key, an index's entries by all that they hold."""
    connection = sqlite3.connect(path)
    try:
        found: Entries = {}
        names = connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (table,) in names:
            key = _primary_key(connection, table)
            rows = connection.execute(f'SELECT {key}, * FROM "{table}"').fetchall()  # noqa: S608 - own names
            width = key.count(",") + 1
            found[f"table {table}"] = {row[:width]: row[width:] for row in rows}
            for index, columns, condition in _indexes(connection, table):
                entries = connection.execute(f'SELECT {columns}, {key} FROM "{table}" {condition}').fetchall()  # noqa: S608
                found[f"index {index}"] = dict.fromkeys(entries, ())
        return found
    finally:
        connection.close()


def _primary_key(connection: sqlite3.Connection, table: str) -> str:
    columns = connection.execute(f'PRAGMA table_info("{table}")').fetchall()
    key = [column[1] for column in sorted(columns, key=lambda column: column[5]) if column[5]]
    return ", ".join(f'"{name}"' for name in key) if key else "rowid"


def _indexes(connection: sqlite3.Connection, table: str) -> list[tuple[str, str, str]]:
    """Name, columns and condition of each index that is a B-tree of its own."""
    without_rowid = "WITHOUT ROWID" in _sql(connection, table)
    found = []
    for _, name, _, origin, _ in connection.execute(f'PRAGMA index_list("{table}")').fetchall():
        if origin == "pk" and without_rowid:
            continue  # the key is the table
        columns = ", ".join(
            f'"{row[2]}"' for row in connection.execute(f'PRAGMA index_info("{name}")').fetchall()
        )
        _, separator, condition = _sql(connection, name).partition(" WHERE ")
        found.append((name, columns, f"WHERE {condition}" if separator else ""))
    return found


def _sql(connection: sqlite3.Connection, name: str) -> str:
    row = connection.execute("SELECT sql FROM sqlite_master WHERE name = ?", (name,)).fetchone()
    return str(row[0] or "") if row else ""
