"""Writes made together: each whole or not at all by itself, answered after the one commit."""

import asyncio
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tessera.errors import NotFound, Unavailable
from tessera.server import group as module
from tessera.server.group import Group
from tessera.store.database import Busy, Session
from tessera.store.opening import open_store
from tessera.store.sqlite import SqliteDatabase
from tessera.store.statements import Statement

_RAISE = Statement(text("UPDATE counters SET value = value + 1 WHERE name = 'executions'"))
_VALUE = Statement(text("SELECT value FROM counters WHERE name = 'executions'"))
Work = Callable[[Session], Any]


@pytest.fixture
def database(tmp_path: Path) -> Iterator[SqliteDatabase]:
    opened = open_store(tmp_path).database
    assert isinstance(opened, SqliteDatabase)
    yield opened
    opened.close()


def together(database: SqliteDatabase, *works: Work) -> list[Any]:
    """What becomes of works that arrive at once."""

    async def run() -> list[Any]:
        group = Group(database)
        return await asyncio.gather(*(group.run(work) for work in works), return_exceptions=True)

    return asyncio.run(run())


def value(database: SqliteDatabase) -> int:
    with database.read() as session:
        ((found,),) = session.rows(_VALUE)
    return int(found)


def raise_it(session: Session) -> int:
    session.change(_RAISE)
    ((found,),) = session.rows(_VALUE)
    return int(found)


def raise_and_refuse(session: Session) -> None:
    session.change(_RAISE)
    raise NotFound("no")


def test_writes_that_arrive_together_share_one_transaction(database: SqliteDatabase) -> None:
    moments: list[int] = []

    def note(session: Session) -> int:
        moments.append(id(session))
        return raise_it(session)

    assert together(database, note, note, note) == [1, 2, 3]
    assert len(set(moments)) == 1
    assert value(database) == 3


def test_a_refused_write_is_undone_and_its_neighbours_stay(database: SqliteDatabase) -> None:
    first, refused, broken, last = together(database, raise_it, raise_and_refuse, lambda _: 1 // 0, raise_it)

    assert (first, last) == (1, 2)
    assert isinstance(refused, NotFound)
    assert isinstance(broken, ZeroDivisionError)
    assert value(database) == 2


def test_a_refused_write_alone_is_undone(database: SqliteDatabase) -> None:
    (refused,) = together(database, raise_and_refuse)

    assert isinstance(refused, NotFound)
    assert value(database) == 0


def test_a_transaction_that_the_database_ended_is_nobodys(database: SqliteDatabase) -> None:
    def end(_: Session) -> None:
        database._writer.execute("ROLLBACK")  # as SQLite does on some errors of the disk
        raise sqlite3.OperationalError("disk I/O error")

    outcomes = together(database, raise_it, end, raise_it)

    assert all(isinstance(outcome, Unavailable) for outcome in outcomes)
    assert value(database) == 0


def test_nobody_waits_for_another_process(database: SqliteDatabase) -> None:
    other = sqlite3.connect(database.place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    outcomes = together(database, raise_it, raise_it)
    other.execute("ROLLBACK")
    other.close()

    assert all(isinstance(outcome, Busy) for outcome in outcomes)
    assert together(database, raise_it) == [1]


def test_more_than_a_transaction_holds_take_the_next(
    database: SqliteDatabase, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "MOST", 2)

    assert together(database, *[raise_it] * 5) == [1, 2, 3, 4, 5]
    assert value(database) == 5
