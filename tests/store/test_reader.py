"""Which runs a key may read: sieving and judging one by one agree, and others cost next to nothing."""

import itertools
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tessera.store import executions, pins, records
from tessera.store.database import Database, Session
from tessera.store.opening import open_store
from tessera.store.permission import Caller
from tessera.store.reader import BATCH, Reader, Scope

pytestmark = pytest.mark.both_databases

READ, ALL = frozenset({"read"}), frozenset({"read", "write", "admin"})
CALLERS = {
    "admin": Caller("admin", ALL, ("*",), None, None, None, "key_admin"),
    "plain": Caller("plain", READ, ("*",), None, None, None, "key_plain"),
    "of a kind": Caller("of a kind", READ, ("*",), frozenset({"a"}), None, None, "key_kind"),
    "of other kinds": Caller("others", READ, ("*",), frozenset({"x", "y"}), None, None, "key_others"),
    "of another store": Caller("stores", READ, ("*",), None, frozenset({"t"}), None, "key_stores"),
    "without read": Caller("none", frozenset({"work"}), ("*",), None, None, None, "key_none"),
    "admin of a kind": Caller("part", ALL, ("*",), frozenset({"a"}), None, None, "key_part"),
}


@pytest.fixture
def database(tmp_path: Path, database_url: str | None) -> Iterator[Database]:
    store = open_store(tmp_path, database_url)
    with store.database.write() as session:
        for key, visibility in (("open", "shared"), ("shut", "private")):
            write = {"store": "s", "key": key, "expected_version": 0, "category": "noun.x", "tags": []}
            write |= {"body": {}, "visibility": visibility}
            records.write(session, CALLERS["admin"], [write], None)
    yield store.database
    store.close()


def pinning(key: str | None) -> str | None:
    return None if key is None else json.dumps([{"store": "s", "key": key, "version": 1, "sha256": "0"}])


def keep(database: Database, runs: list[tuple[str, str, str | None]]) -> None:
    """Runs by kind, audience and pins."""
    with database.write() as session:
        first = executions.take_numbers(session, len(runs))
        kept = [
            executions.Row(
                number,
                "t",
                "q",
                kind,
                audience,
                listed,
                None,
                "{}",
                b"{}",
                None,
                None,
                b"{}",
                None,
                None,
                None,
            )
            for number, (kind, audience, listed) in enumerate(runs, first)
        ]
        executions.keep(session, kept)


@pytest.mark.parametrize("name", CALLERS)
def test_what_is_found_by_sieving_is_what_is_readable_one_by_one(database: Database, name: str) -> None:
    audiences = ("", *(caller.key_id for caller in CALLERS.values()))
    keep(database, list(itertools.product("ab", audiences, map(pinning, (None, "open", "shut", "gone")))))

    with database.read() as session:
        for kind, after in itertools.product((None, "a", "b", "c"), (0, 20)):
            scope = Scope("q", kind, after)
            sieved = list(Reader(session, CALLERS[name], scope).numbers(first=5))
            walked = [number for number, ok in Reader(session, CALLERS[name], scope).walk(first=3) if ok]
            assert sieved == walked
            assert name != "admin" or kind == "c" or sieved


@pytest.mark.parametrize(
    ("kind", "audience", "pinned"), [("other", "", None), ("a", "key_admin", None), ("a", "", "shut")]
)
def test_many_runs_of_others_are_passed_by_in_a_few_questions(
    database: Database, kind: str, audience: str, pinned: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(database, [(kind, audience, pinning(pinned))] * (BATCH + 1))
    keep(database, [("a", "", None)])
    caller = CALLERS["of a kind"]
    asked: list[str] = []

    with database.read() as session:
        one, many = type(session).row, type(session).rows

        def note(method: Any) -> Any:
            def noting(self: Session, statement: Any, **values: Any) -> Any:
                asked.append(str(values))
                return method(self, statement, **values)

            return noting

        monkeypatch.setattr(type(session), "row", note(one))
        monkeypatch.setattr(type(session), "rows", note(many))
        counted = executions.pending(session, caller, Scope("q", None, 0), 10, "store")
        found = executions.queues(session, caller, "store")

    assert (counted["count"], counted["last"], found["queues"]) == (1, str(BATCH + 2), ["q"])
    assert len(asked) < 20, asked


def test_a_list_of_pins_has_a_mark_of_its_own() -> None:
    lists = [None, *(pinning(key) for key in ("open", "shut", "a", "b"))]

    marks = [pins.mark(listed) for listed in lists]

    assert marks[0] == 0
    assert len(set(marks)) == len(marks)
    assert all(-(2**63) <= mark < 2**63 for mark in marks)
    assert pins.UNNAMED not in marks


def test_runs_of_an_earlier_version_are_each_judged_by_their_own_pins(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pins, "mark", lambda listed: 0 if listed is None else pins.UNNAMED)
    keep(database, [("a", "", pinning(key)) for key in ("open", "shut", "open")])

    with database.read() as session:
        assert list(Reader(session, CALLERS["plain"], Scope("q", None, 0)).numbers(first=9)) == [1, 3]
