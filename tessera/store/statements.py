"""SQL written with SQLAlchemy Core, compiled once for each database.

Compiling, not running, is what SQLAlchemy Core costs: a Statement keeps the text, and the database's own
driver runs it with named parameters. Leaves out type conversion, since the schema holds only integers,
text and bytes.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import ClauseElement, Dialect, Table, bindparam, insert
from sqlalchemy.dialects import postgresql, sqlite

SQLITE = "sqlite"
POSTGRESQL = "postgresql"

_DIALECTS: dict[str, Dialect] = {
    SQLITE: sqlite.dialect(paramstyle="named"),
    POSTGRESQL: postgresql.dialect(paramstyle="pyformat"),  # type: ignore[no-untyped-call]
}


class Statement:
    """One statement; its parameters are the names of its ``bindparam``s."""

    __slots__ = ("_clause", "_compiled")

    def __init__(self, clause: ClauseElement) -> None:
        self._clause = clause
        self._compiled: dict[str, tuple[str, Mapping[str, Any]]] = {}

    def on(self, dialect: str) -> tuple[str, Mapping[str, Any]]:
        """The SQL text for a database, and the values of the constants in it."""
        found = self._compiled.get(dialect)
        if found is None:
            compiled = self._clause.compile(dialect=_DIALECTS[dialect])
            constants = {name: value for name, value in compiled.params.items() if value is not None}
            found = self._compiled[dialect] = (str(compiled), constants)
        return found


def insert_into(table: Table, *, without: Sequence[str] = ()) -> Statement:
    """An insert of every column, named as the column; ``without`` leaves some to the database."""
    names = [column.name for column in table.columns if column.name not in without]
    return Statement(insert(table).values({name: bindparam(name) for name in names}))
