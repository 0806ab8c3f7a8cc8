"""PostgreSQL: what many writers at once, other servers and a broken connection do to the store's promises."""

import contextlib
import re
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from psycopg.errors import LockNotAvailable
from sqlalchemy import text

from tessera.errors import SettingsError, Unavailable
from tessera.store import executions, leases, migrate, postgresql
from tessera.store.database import Again, settled
from tessera.store.opening import Store, open_store
from tessera.store.permission import Caller
from tessera.store.postgresql import PostgresDatabase
from tessera.store.reader import Scope
from tessera.store.schema import metadata
from tessera.store.statements import POSTGRESQL, Statement
from tests.postgres import Postgres
from tests.store.test_schema import _statements as statements

ADMIN = Caller("admin", frozenset({"read", "admin"}), ("*",), None, None, None, "key_test")
_RAISE = Statement(text("UPDATE counters SET value = value + 1 WHERE name = :name"))
_ADD = Statement(text("INSERT INTO counters (name, value) VALUES (:name, 0)"))
_VALUE = Statement(text("SELECT value FROM counters WHERE name = :name"))


@pytest.fixture
def url(postgres: Postgres) -> str:
    return postgres.new_database(empty=True)


@pytest.fixture
def opened(tmp_path: Path, url: str) -> Iterator[Store]:
    store = open_store(tmp_path / "home", url)
    yield store
    store.database.close()


def add_run(store: Store, before_commit: Callable[[], object] = lambda: None) -> int:
    """One execution in a transaction of its own, held open for as long as the caller likes."""
    with store.database.write() as session:
        number = executions.take_numbers(session)
        row = executions.Row(
            number=number,
            token="t",
            queue="q",
            kind="k",
            audience="",
            pins=None,
            input_digest=None,
            input_type="{}",
            item=b'{"cursor":"%d"}' % number,
            simhash=None,
            task=None,
            brief=b"{}",
            output=None,
            failure=None,
            receipt=None,
        )
        executions.keep(session, [row])
        before_commit()
    return number


def numbers_after(store: Store, after: int) -> list[int]:
    with store.database.read() as session:
        page = executions.page(session, ADMIN, Scope("q", None, after), 100, store.store_id)
    return [int(found) for found in re.findall(rb'"cursor":"(\d+)"', page)]


def read_while_the_first_of_two_writers_commits_last(store: Store, postgres: Postgres) -> tuple[int, int]:
    """How many runs a reader met that looked while the second writer had done what it could; of how many."""
    first_may_commit, first_has_number = threading.Event(), threading.Event()

    def hold() -> None:
        first_has_number.set()
        first_may_commit.wait(30)

    with ThreadPoolExecutor(2) as pool:
        first = pool.submit(add_run, store, hold)
        first_has_number.wait(30)
        second = pool.submit(add_run, store)
        waiting = "SELECT 1 FROM pg_stat_activity WHERE wait_event_type = 'Lock'"
        while not second.done() and not postgres.execute(waiting):
            time.sleep(0.01)
        early = numbers_after(store, 0)
        first_may_commit.set()
        made = {first.result(30), second.result(30)}
    late = numbers_after(store, max(early, default=0))
    assert not set(early) & set(late)
    return len(early) + len(late), len(made)


def test_a_cursor_skips_no_run_whose_writer_commits_last(opened: Store, postgres: Postgres) -> None:
    assert read_while_the_first_of_two_writers_commits_last(opened, postgres) == (2, 2)


def test_numbers_from_a_sequence_would_have_skipped_it(
    opened: Store, url: str, postgres: Postgres, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The test above can fail: so it does with the numbers that PostgreSQL offers for the purpose."""
    postgres.execute("CREATE SEQUENCE numbers", url.rpartition("/")[2])
    postgres.execute("UPDATE counters SET value = 1000", url.rpartition("/")[2])
    monkeypatch.setattr(executions, "_TAKE", Statement(text("SELECT nextval('numbers') + :count - 1")))

    assert read_while_the_first_of_two_writers_commits_last(opened, postgres) == (1, 2)


def test_a_number_that_was_rolled_back_goes_to_the_next_and_no_reader_met_it(opened: Store) -> None:
    def fail() -> None:
        raise KeyError

    with pytest.raises(KeyError):
        add_run(opened, fail)

    assert numbers_after(opened, 0) == []
    assert add_run(opened) == 1
    assert numbers_after(opened, 0) == [1]


def test_a_reader_beside_writers_that_finish_in_any_order_meets_each_run_once(
    opened: Store, tmp_path: Path, url: str
) -> None:
    """Two servers' worth of connections; some transactions are slow, and some are given up."""
    other = open_store(tmp_path / "other", url)
    met: list[int] = []
    made: list[int] = []

    def write(number: int) -> None:
        def dawdle() -> None:
            time.sleep(0.002 * (number % 5))
            if number % 7 == 0:
                raise KeyError

        with contextlib.suppress(KeyError):
            made.append(settled(lambda: add_run((opened, other)[number % 2], dawdle)))

    with ThreadPoolExecutor(8) as pool:
        writers = [pool.submit(write, number) for number in range(200)]
        while not all(writer.done() for writer in writers):
            met += numbers_after(opened, met[-1] if met else 0)
    met += numbers_after(opened, met[-1] if met else 0)
    other.database.close()

    assert met == sorted(made) == list(range(1, len(made) + 1))


def test_servers_that_begin_at_once_are_one_store_with_one_key(tmp_path: Path, url: str) -> None:
    with ThreadPoolExecutor(6) as pool:
        homes = [tmp_path / f"home{number % 2}" for number in range(6)]
        stores = list(pool.map(lambda home: open_store(home, url), homes))
    for store in stores:
        store.database.close()

    assert len({store.store_id for store in stores}) == 1
    assert sum(store.new_admin_key is not None for store in stores) == 1
    assert len(list(tmp_path.glob("home*/admin.key"))) == 1


def test_a_database_of_a_newer_version_is_refused(opened: Store, url: str, postgres: Postgres) -> None:
    postgres.execute("UPDATE alembic_version SET version_num = '9999'", url.rpartition("/")[2])

    with pytest.raises(SettingsError, match="9999"):
        open_store(Path(opened.new_admin_key or "").parent, url)


def test_a_database_that_does_not_hold_all_text_is_refused(tmp_path: Path, postgres: Postgres) -> None:
    postgres.execute("CREATE DATABASE latin ENCODING 'LATIN1' TEMPLATE template0")

    with pytest.raises(SettingsError, match="UTF8"):
        open_store(tmp_path, postgres.url("latin"))


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:hush@127.0.0.1:1/none",
        "postgres://me:hush@127.0.0.1:1/none",
        "postgresql://me:hush@127.0.0.1:port/none",
        "postgresql://me:hush/hush@127.0.0.1:1/none",
        "postgresql://me:hu@hush@127.0.0.1:1/none",
        "postgresql://me:hush%zz@127.0.0.1:1/none",
        "mysql://me:hush@127.0.0.1/none",
        "hush",
    ],
)
def test_a_database_out_of_reach_is_a_clear_error_without_the_password(tmp_path: Path, url: str) -> None:
    with pytest.raises(SettingsError) as raised:
        open_store(tmp_path, url)

    assert "hush" not in str(raised.value)
    assert "127.0.0.1:1/none" in str(raised.value) or "TESSERA_DATABASE_URL" in str(raised.value)


def catalogue(postgres: Postgres, database: str) -> list[tuple[Any, ...]]:
    columns = postgres.execute(
        "SELECT table_name, column_name, data_type, is_nullable, collation_name "
        "FROM information_schema.columns "
        "WHERE table_schema = 'public' AND table_name <> 'alembic_version' ORDER BY 1, 2",
        database,
    )
    indexes = postgres.execute(
        "SELECT indexname, indexdef FROM pg_indexes "
        "WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY 1",
        database,
    )
    return columns + indexes


def test_the_steps_make_what_the_schema_declares(opened: Store, url: str, postgres: Postgres) -> None:
    declared = postgres.new_database(empty=True)
    engine = migrate.postgresql_engine(postgresql.conninfo(declared))
    metadata.create_all(engine)
    engine.dispose()
    del opened

    made, due = (catalogue(postgres, each.rpartition("/")[2]) for each in (url, declared))

    assert len(due) > 50
    assert made == due


def plan(database: PostgresDatabase, statement: Statement) -> str:
    """The plan of a query for whatever values."""
    sql, constants = statement.on(POSTGRESQL)
    for name, value in constants.items():
        sql = sql.replace(f"%({name})s", str(value))
    names = list(dict.fromkeys(re.findall(r"%\((\w+)\)s", sql)))
    places = {name: f"${position}" for position, name in enumerate(names, 1)}
    sql = re.sub(r"%\((\w+)\)s", lambda found: places[found[1]], sql)
    connection = database.connect()
    try:
        connection.execute("SET plan_cache_mode = force_generic_plan")
        connection.execute(f"PREPARE it AS {sql}".encode())
        values = f"({', '.join(['NULL'] * len(names))})" if names else ""
        rows = connection.execute(f"EXPLAIN EXECUTE it{values}".encode()).fetchall()
    finally:
        connection.close()
    return "; ".join(str(row[0]).strip() for row in rows)


@pytest.mark.parametrize("name", sorted(set(statements()) - {"opening._ANY_KEY"}))
def test_no_statement_reads_a_whole_table_or_sorts(shared: PostgresDatabase, name: str) -> None:
    found = plan(shared, statements()[name])

    assert "Seq Scan" not in found
    assert not re.search(r"\bSort\b", found)


@pytest.fixture(scope="module")
def shared(postgres: Postgres, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresDatabase]:
    """A database that nobody changes."""
    database = open_store(tmp_path_factory.mktemp("shared"), postgres.new_database()).database
    assert isinstance(database, PostgresDatabase)
    yield database
    database.close()


def test_ready_tasks_are_found_in_order_by_their_index(shared: PostgresDatabase) -> None:
    found = plan(shared, leases._query(None, lapsed=False))

    assert "tasks_ready" in found
    assert "Sort" not in found


def test_what_meets_another_is_done_anew(opened: Store) -> None:
    """Two transactions that change two rows in opposite order: PostgreSQL ends one of them."""
    database = opened.database
    with database.write() as session:
        for name in ("a", "b"):
            session.insert(_ADD, name=name)
    both = threading.Barrier(2, timeout=30)
    tries: list[str] = []

    def change(first: str, second: str) -> None:
        def once() -> None:
            tries.append(first)
            with database.write() as session:
                session.change(_RAISE, name=first)
                if tries.count(first) == 1:
                    both.wait()
                session.change(_RAISE, name=second)

        settled(once)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(change, "a", "b"), pool.submit(change, "b", "a")]:
            done.result(60)

    assert len(tries) > 2
    with database.read() as session:
        assert [session.row(_VALUE, name=name) for name in ("a", "b")] == [(2,), (2,)]


def test_a_row_that_another_added_meanwhile_is_done_anew(opened: Store) -> None:
    with pytest.raises(Again), opened.database.write() as session:
        session.insert(_ADD, name="executions")

    assert add_run(opened) == 1


def test_a_lock_that_does_not_come_is_unavailable(opened: Store) -> None:
    impatient = Statement(text("SELECT set_config('lock_timeout', '50ms', true)"))
    with opened.database.write() as first:
        first.change(_RAISE, name="executions")
        with opened.database.write() as second:
            second.rows(impatient)
            with pytest.raises(LockNotAvailable) as refused:
                second.change(_RAISE, name="executions")
            meant = postgresql.translated(refused.value, committing=False)

    assert isinstance(meant, Unavailable)
    assert add_run(opened) == 2


def test_commits_are_durable_whatever_the_servers_default(opened: Store, postgres: Postgres) -> None:
    with opened.database.write() as session:
        ours = session.row(Statement(text("SELECT current_setting('synchronous_commit')")))

    assert postgres.execute("SELECT current_setting('synchronous_commit')") == [("off",)]
    assert ours == ("on",)


@given(st.lists(st.text(alphabet=st.sampled_from("\0\1\2a\ud7ff\U0010ffff"), max_size=6), max_size=8))
def test_text_comes_back_and_sorts_as_it_did(texts: list[str]) -> None:
    dumper = postgresql._TextDumper(str)
    loader = postgresql._TextLoader(25)
    kept = [bytes(dumper.dump(text)) for text in texts]

    assert [loader.load(each) for each in kept] == texts
    assert all(b"\0" not in each for each in kept)
    assert [loader.load(each) for each in sorted(kept)] == sorted(texts)
