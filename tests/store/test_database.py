"""Transactions: whole or not at all, one writer at a time, and never a long wait on the spot."""

import sqlite3
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import bindparam, text, update

from tessera.errors import Unavailable
from tessera.store import database as module
from tessera.store import tasks
from tessera.store.database import Again, Busy, Database, Stale, settled
from tessera.store.opening import open_store
from tessera.store.permission import Caller
from tessera.store.schema import counters
from tessera.store.statements import Statement
from tests.server.calls import enqueue

_COUNT = Statement(text("SELECT value FROM counters WHERE name = 'executions'"))
_RAISE = Statement(text("UPDATE counters SET value = value + 1 WHERE name = 'executions'"))
_EXPECTING = Statement(
    update(counters)
    .where(counters.c.name == bindparam("counter"), counters.c.value == bindparam("expected"))
    .values(value=bindparam("next_value"))
)


ADMIN = Caller("admin", frozenset({"write", "admin"}), ("*",), None, None, None, "key_test")


@pytest.fixture
def database(tmp_path: Path, database_url: str | None) -> Iterator[Database]:
    opened = open_store(tmp_path, database_url).database
    yield opened
    opened.close()


def _count(database: Database) -> int:
    with database.read() as session:
        row = session.row(_COUNT)
    assert row is not None
    return int(row[0])


@pytest.mark.both_databases
def test_a_block_that_raises_leaves_nothing_behind(database: Database) -> None:
    def broken() -> None:
        with database.write() as session:
            session.change(_RAISE)
            raise KeyError

    with pytest.raises(KeyError):
        broken()

    assert _count(database) == 0
    with database.write() as session:
        session.change(_RAISE)
    assert _count(database) == 1


@pytest.mark.both_databases
def test_a_change_that_does_not_hit_one_row_raises_and_is_undone(database: Database) -> None:
    def stale() -> None:
        with database.write() as session:
            session.change(_RAISE)
            session.change(_EXPECTING, counter="executions", expected=7, next_value=8)

    with pytest.raises(Stale):
        stale()

    assert _count(database) == 0


@pytest.mark.both_databases
def test_a_read_is_one_snapshot_and_cannot_write(database: Database) -> None:
    with database.read() as session:
        before = session.row(_COUNT)
        with database.write() as writer:
            writer.change(_RAISE)
        assert session.row(_COUNT) == before

    assert _count(database) == 1
    with pytest.raises(Unavailable), database.read() as session:
        session.change(_RAISE)


@pytest.mark.both_databases
@pytest.mark.parametrize("orderly", [True, False])
def test_a_store_that_starts_under_a_clock_set_back_goes_on_from_what_it_knew(
    tmp_path: Path, database_url: str | None, orderly: bool
) -> None:
    """After a crash what it knew is the newest task or run; after an orderly end all that it showed."""
    first = open_store(tmp_path, database_url, clock=lambda: 2_000_000)
    with first.database.write() as session:
        tasks.enqueue(session, ADMIN, {"queue": "q", "kind": "k", "brief": {}})
    first.time.not_before(3_000_000)
    first.close() if orderly else first.database.close()

    second = open_store(tmp_path, database_url, clock=lambda: 1_000_000)
    found = second.time()
    second.close()

    assert 0 <= found - (3_000_000 if orderly else 2_000_000) < 60_000
    assert second.time.ahead >= 1_000_000


def test_who_would_have_to_wait_for_a_writer_and_does_not_is_told_at_once(database: Database) -> None:
    begun = time.monotonic()
    with database.write(), pytest.raises(Busy), database.write(wait=False):
        pass
    assert time.monotonic() - begun < 1

    with database.write(wait=False) as session:
        session.change(_RAISE)
    assert _count(database) == 1


def test_a_lock_of_another_process_is_waited_for_within_the_bound(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.2)
    other = sqlite3.connect(database.place, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(Busy), database.write(wait=False):
        pass
    with pytest.raises(Unavailable), database.write():
        pass
    other.execute("ROLLBACK")
    other.close()

    with database.write() as session:
        session.change(_RAISE)
    assert _count(database) == 1


def test_work_that_met_another_is_done_anew_and_given_up_within_the_bound(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "BUSY_SECONDS", 0.2)
    left = [Again(), Again()]

    def met_twice() -> str:
        if left:
            raise left.pop()
        return "done"

    def always_met() -> None:
        raise Again

    assert settled(met_twice) == "done"
    with pytest.raises(Unavailable):
        settled(always_met)


def test_commits_are_durable_by_setting(database: Database) -> None:
    with database.write() as session:
        assert session.row(Statement(text("PRAGMA journal_mode"))) == ("wal",)
        assert session.row(Statement(text("PRAGMA synchronous"))) == (2,)


def test_the_server_answers_others_while_another_process_holds_the_lock(store: Any) -> None:
    other = sqlite3.connect(store.database, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    done: list[str] = []
    writers = [
        threading.Thread(target=lambda: done.append(enqueue(store.http())["task_id"])) for _ in range(4)
    ]
    for writer in writers:
        writer.start()
    time.sleep(0.3)
    begun = time.monotonic()

    assert store.http().get("/healthz").status_code == 200
    assert store.http().get("/v1/whoami").status_code == 200
    assert time.monotonic() - begun < 1
    assert done == []
    other.execute("ROLLBACK")
    other.close()
    for writer in writers:
        writer.join()

    assert len(set(done)) == 4
