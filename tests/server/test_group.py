"""Writes made together: each whole or not at all by itself, answered after the one commit."""

import asyncio
import json
import sqlite3
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tessera.errors import Conflict, NotFound, Unavailable
from tessera.server import group as module
from tessera.server.group import Group
from tessera.store import draws, leases, submissions, tasks
from tessera.store.database import Busy, Session
from tessera.store.opening import open_store
from tessera.store.permission import Caller
from tessera.store.sqlite import SqliteDatabase
from tessera.store.statements import Statement

_RAISE = Statement(text("UPDATE counters SET value = value + 1 WHERE name = 'executions'"))
_VALUE = Statement(text("SELECT value FROM counters WHERE name = 'executions'"))
CALLER = Caller("all", frozenset({"read", "work", "write"}), ("*",), None, None, None, "key_test")
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


def test_who_makes_the_database_end_the_transaction_is_refused_alone(database: SqliteDatabase) -> None:
    def end(session: Session) -> None:
        session.change(_RAISE)
        database._writer.execute("ROLLBACK")  # as SQLite does on some errors of the disk
        error = sqlite3.OperationalError("disk I/O error")
        error.sqlite_errorname = "SQLITE_IOERR_WRITE"
        raise error

    first, ended, last = together(database, raise_it, end, raise_it)

    assert (first, last) == (1, 2)
    assert isinstance(ended, Unavailable)
    assert value(database) == 2


def test_nothing_of_a_part_that_cannot_be_undone_is_committed_with_its_neighbours(
    database: SqliteDatabase,
) -> None:
    def spoil(session: Session) -> None:
        session.change(_RAISE)
        database._writer.execute("RELEASE part")  # so that the part can no more be rolled back to
        raise NotFound("no")

    first, spoiled, last = together(database, raise_it, spoil, raise_it)

    assert (first, last) == (1, 2)
    assert isinstance(spoiled, Exception)
    assert value(database) == 2


def test_a_full_disk_refuses_those_who_need_room_and_keeps_the_others(database: SqliteDatabase) -> None:
    ((pages,),) = database._writer.execute("PRAGMA page_count").fetchall()
    database._writer.execute(f"PRAGMA max_page_count={pages}").fetchall()

    def enqueue_large(session: Session) -> None:
        raise_it(session)
        tasks.enqueue(session, CALLER, {"queue": "q", "kind": "k", "brief": {"text": "x" * 30_000}})

    first, large, last = together(database, raise_it, enqueue_large, raise_it)

    assert (first, last) == (1, 2)
    assert isinstance(large, Unavailable)
    assert value(database) == 2


def test_a_write_sees_those_before_it_in_its_transaction(database: SqliteDatabase) -> None:
    request = {"queue": "q", "kind": "k", "brief": {}, "idempotency_key": "same"}
    ask = {"queue": "q", "lease_seconds": 60}

    (new, first), (again, second) = together(
        database, *[lambda session: tasks.enqueue(session, CALLER, request)] * 2
    )
    with database.write() as session:
        tasks.enqueue(session, CALLER, {"queue": "q", "kind": "k", "brief": {}})
    claims = together(database, *[lambda session: leases.claim(session, CALLER, ask)] * 3)
    held = claims[0]
    arms = [{"arm": "a", "weight": 0.5}, {"arm": "b", "weight": 0.5}]
    draw = {"fence": 1, "dimension": "model", "arms": arms}
    drawn = together(
        database,
        *[lambda session: draws.draw(session, CALLER, held["task_id"], draw, b"secret")] * 2,
        lambda session: draws.draw(session, CALLER, held["task_id"], {**draw, "arms": arms[::-1]}, b"secret"),
    )
    submitted = together(
        database,
        *[lambda s: submissions.submit(s, CALLER, held["task_id"], {"fence": 1, "ok": True})] * 2,
    )

    assert (new, again, first["task_id"]) == (True, False, second["task_id"])
    assert claims[0]["task_id"] != claims[1]["task_id"]
    assert claims[2] is None
    assert drawn[0] == drawn[1]
    assert isinstance(drawn[2], Conflict)
    assert json.loads(submitted[0])["result"] == "accepted"
    assert isinstance(submitted[1], Conflict)


def test_a_result_is_given_after_the_commit_and_to_those_who_still_wait(database: SqliteDatabase) -> None:
    async def run() -> list[int]:
        group = Group(database)
        gone = asyncio.ensure_future(group.run(raise_it))
        waiting = [asyncio.ensure_future(group.run(raise_it)) for _ in range(2)]
        await asyncio.sleep(0)  # all have asked, and nothing has begun
        gone.cancel()
        seen = []
        for each in waiting:
            await each
            seen.append(value(database))  # by another connection
        with pytest.raises(asyncio.CancelledError):
            await gone
        return seen

    assert asyncio.run(run()) == [3, 3]


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
