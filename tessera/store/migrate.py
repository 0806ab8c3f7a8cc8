"""Brings a database to the schema of this version: a new file gets all steps, an older one those it lacks.

A database that a newer version wrote is refused, since its rows may mean what this version does not know.
"""

import sqlite3
from pathlib import Path
from typing import Any

from sqlalchemy import URL, Connection, Engine, create_engine, event, inspect, text
from sqlalchemy.pool import NullPool

from tessera.errors import SettingsError

HEAD = "0002"
"""The newest step; a test compares it with the files."""


def upgrade(engine: Engine) -> None:
    """Apply the missing steps in one transaction."""
    with engine.begin() as connection:
        found = _revision(connection)
        if found == HEAD:
            return
        if found is not None and found > HEAD:
            raise SettingsError(
                f"the database has schema {found}, this version of Tessera knows up to {HEAD}; "
                "start it with the version that wrote it, or newer"
            )
        _run(connection)


def sqlite_engine(path: Path) -> Engine:
    """An engine for the steps alone; the store itself talks to the driver.

    The driver would commit at each CREATE by itself, so it is told to leave transactions alone.
    """
    engine = create_engine(URL.create("sqlite", database=str(path)), poolclass=NullPool)

    @event.listens_for(engine, "connect")
    def leave_transactions_alone(connection: sqlite3.Connection, _: object) -> None:
        connection.isolation_level = None

    @event.listens_for(engine, "begin")
    def begin(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE")

    return engine


def postgresql_engine(conninfo: str) -> Engine:
    """The same for PostgreSQL. Servers that start at once take their turns."""

    def connect() -> Any:
        import psycopg

        connection = psycopg.connect(conninfo)
        encoding = connection.info.parameter_status("server_encoding")
        if encoding != "UTF8":
            connection.close()
            raise SettingsError(f"the database must have the encoding UTF8, it has {encoding}")
        return connection

    engine = create_engine("postgresql+psycopg://", creator=connect, poolclass=NullPool)

    @event.listens_for(engine, "begin")
    def take_turn(connection: Connection) -> None:
        connection.exec_driver_sql(f"SELECT pg_advisory_xact_lock({_TURN})")

    return engine


_TURN = int.from_bytes(b"tessera", "big")


def _revision(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    row = connection.execute(text("SELECT version_num FROM alembic_version")).first()
    return None if row is None else str(row[0])


def _run(connection: Connection) -> None:
    from alembic import command  # slow to import, and needed only when there is something to do
    from alembic.config import Config

    config = Config()
    folder = Path(__file__).parent / "migrations"
    config.set_main_option("script_location", str(folder).replace("%", "%%"))  # it reads % as its own
    config.set_main_option("path_separator", "os")
    config.attributes["connection"] = connection
    command.upgrade(config, "head")
