"""The schema and its steps."""

import re
import shutil
import sqlite3
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine

from tessera.errors import SettingsError
from tessera.store import leases, migrate
from tessera.store.opening import open_store
from tessera.store.schema import metadata
from tessera.store.statements import SQLITE, Statement


def _catalogue(path: Path) -> dict[str, str]:
    with sqlite3.connect(path) as connection:
        rows = connection.execute("SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL").fetchall()
    connection.close()
    return {name: " ".join(sql.split()) for name, sql in rows if name != "alembic_version"}


@pytest.fixture
def opened(tmp_path: Path) -> Path:
    open_store(tmp_path).database.close()
    return tmp_path / "tessera.db"


def test_the_steps_make_what_the_schema_declares(opened: Path, tmp_path: Path) -> None:
    declared = tmp_path / "declared.db"
    engine = create_engine(f"sqlite:///{declared}")
    metadata.create_all(engine)
    engine.dispose()

    assert _catalogue(opened) == _catalogue(declared)


def test_the_newest_step_is_the_head(opened: Path) -> None:
    steps = sorted(
        path.stem for path in (Path(migrate.__file__).parent / "migrations/versions").glob("step_*.py")
    )

    assert steps[-1] == f"step_{migrate.HEAD}"
    with sqlite3.connect(opened) as connection:
        assert connection.execute("SELECT version_num FROM alembic_version").fetchone() == (migrate.HEAD,)
    connection.close()


def test_a_database_of_a_newer_version_is_refused(opened: Path) -> None:
    with sqlite3.connect(opened) as connection:
        connection.execute("UPDATE alembic_version SET version_num = '9999'")
    connection.close()

    with pytest.raises(SettingsError, match="9999"):
        open_store(opened.parent)


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "tessera.db").write_bytes(b"not a database" * 1000)

    with pytest.raises(SettingsError, match="cannot use"):
        open_store(tmp_path)


def test_a_step_cut_short_leaves_nothing_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def cut_short(connection: Any) -> None:
        metadata.create_all(connection)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(migrate, "_run", cut_short)
        with pytest.raises(KeyboardInterrupt):
            open_store(tmp_path)

    assert _catalogue(tmp_path / "tessera.db") == {}
    open_store(tmp_path).database.close()


def test_a_url_may_name_the_file(tmp_path: Path) -> None:
    store = open_store(tmp_path / "home", f"sqlite:////{tmp_path}/an%20own%20file.db")
    store.database.close()

    assert (tmp_path / "an own file.db").stat().st_mode & 0o777 == 0o600
    assert [path.name for path in (tmp_path / "home").iterdir()] == ["admin.key"]


def test_a_home_may_have_any_name(tmp_path: Path) -> None:
    home = tmp_path / "what? 100%41 #1"

    for _ in range(2):
        open_store(home).close()

    assert (home / "tessera.db").stat().st_size > 0
    assert list(tmp_path.iterdir()) == [home]


def test_the_program_may_lie_in_a_folder_of_any_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    installed = tmp_path / "100% mine"
    shutil.copytree(Path(migrate.__file__).parent / "migrations", installed / "migrations")
    monkeypatch.setattr(migrate, "__file__", str(installed / "migrate.py"))

    open_store(tmp_path / "home").close()


def test_opening_again_keeps_identity_and_key(tmp_path: Path) -> None:
    first = open_store(tmp_path)
    first.database.close()
    secret = (tmp_path / "admin.key").read_text()

    second = open_store(tmp_path)
    second.database.close()

    assert second.store_id == first.store_id
    assert first.new_admin_key == tmp_path / "admin.key"
    assert second.new_admin_key is None
    assert (tmp_path / "admin.key").read_text() == secret


def test_a_first_start_that_died_before_the_database_knew_its_key_takes_the_key_that_is_there(
    tmp_path: Path,
) -> None:
    (tmp_path / "admin.key").write_text("tsk_left_behind\n")

    store = open_store(tmp_path)
    with store.database.read() as session:
        from tessera.store import keys

        caller = keys.authenticate(session, "tsk_left_behind")
    store.database.close()

    assert caller.is_admin


def test_database_and_key_are_for_their_owner_alone(opened: Path) -> None:
    assert opened.stat().st_mode & 0o777 == 0o600
    assert (opened.parent / "admin.key").stat().st_mode & 0o777 == 0o600


def _plan(path: Path, statement: Statement) -> str:
    """The plan of a query, its parameters left null."""
    sql, constants = statement.on(SQLITE)
    connection = sqlite3.connect(path)
    values: dict[str, Any] = dict.fromkeys(re.findall(r":(\w+)", sql)) | dict(constants)
    rows = connection.execute(f"EXPLAIN QUERY PLAN {sql}", values).fetchall()
    connection.close()
    return "; ".join(row[3] for row in rows)


@pytest.mark.parametrize("kinds", [None, 2])
def test_ready_tasks_are_found_in_order_without_sorting(opened: Path, kinds: int | None) -> None:
    plan = _plan(opened, leases._query(kinds, lapsed=False))

    assert "USING COVERING INDEX tasks_ready (queue=? AND audience=?" in plan
    assert "TEMP B-TREE" not in plan


def test_lapsed_tasks_are_found_by_their_lease(opened: Path) -> None:
    plan = _plan(opened, leases._query(None, lapsed=True))

    assert "USING INDEX tasks_leased (queue=? AND audience=? AND lease_expires_at<?)" in plan


def _statements() -> dict[str, Statement]:
    """Every statement of the store's modules, by module and name."""
    from tessera.store import (
        draws,
        executions,
        idempotency,
        imports,
        keys,
        opening,
        recall,
        record_lists,
        records,
        submissions,
        tasks,
    )

    modules = (
        draws,
        executions,
        idempotency,
        imports,
        keys,
        leases,
        opening,
        recall,
        record_lists,
        records,
        submissions,
        tasks,
    )
    return {
        f"{module.__name__.rpartition('.')[2]}.{name}": value
        for module in modules
        for name, value in vars(module).items()
        if isinstance(value, Statement)
    }


@pytest.mark.parametrize("name", sorted(set(_statements()) - {"opening._ANY_KEY"}))
def test_no_statement_reads_a_whole_table_or_sorts(opened: Path, name: str) -> None:
    plan = _plan(opened, _statements()[name])

    assert "SCAN" not in plan
    assert "TEMP B-TREE" not in plan


def test_every_index_is_used_by_a_query(opened: Path) -> None:
    plans = " ".join(_plan(opened, statement) for statement in _statements().values())
    plans += _plan(opened, leases._query(None, lapsed=False)) + _plan(
        opened, leases._query(None, lapsed=True)
    )

    for table in metadata.tables.values():
        for index in table.indexes:
            assert str(index.name) in plans
