"""Random lives of records, step by step against a model: batches, conflicts, visibility, lists, history."""

from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tessera import canonical
from tests.faults.record_model import Reader, Records, Version
from tests.faults.server import Caller, Server, assert_problem

pytestmark = pytest.mark.both_databases

READERS = {
    "admin": Reader("admin"),
    "ann": Reader("ann"),
    "ben": Reader("ben", ("beach", "harbour")),
    "cem": Reader("cem", ("harbour",)),
}
NAMES = st.sampled_from(sorted(READERS))
KEYS = st.sampled_from(["a", "a.b", "b+@-"])
BATCHES = st.one_of(
    st.lists(KEYS, min_size=1, max_size=1),
    st.lists(KEYS, min_size=1, max_size=3, unique=True),
    st.lists(KEYS, min_size=1, max_size=3),
)
TAGS = st.lists(st.sampled_from(["red", "green", "blue"]), max_size=3, unique=True)
CATEGORIES = st.sampled_from(["noun.eval_run", "noun.skill_pack"])
BODIES = st.dictionaries(
    st.text(max_size=3), st.one_of(st.integers(-5, 5), st.text(max_size=3), st.none()), max_size=2
)


class RecordMachine(RuleBasedStateMachine):
    """Each rule does one call on both, and compares."""

    server: ClassVar[Server]
    callers: ClassVar[dict[str, Caller]]
    stores: ClassVar[int] = 0

    @initialize()
    def begin(self) -> None:
        RecordMachine.stores += 1
        self.store = f"machine.{self.stores}"
        self.model = Records()
        self.sent: list[tuple[str, list[tuple[int, Version]], str]] = []
        for number, (writer, visibility) in enumerate([("ann", "private"), ("ben", "shared")]):
            version = Version("ab"[number], 0, writer, visibility, "", ("red",), "noun.eval_run", {})
            self._write(writer, [(0, version)], None)

    @rule(data=st.data(), writer=NAMES, named=st.booleans())
    def write(self, data: st.DataObject, writer: str, named: bool) -> None:
        writes = []
        for key in data.draw(BATCHES):
            visibility = data.draw(st.sampled_from(["shared", "private", "surface_only"]))
            queues = [
                q
                for q in ("beach", "harbour")
                if READERS[writer].queues[0] == "*" or q in READERS[writer].queues
            ]
            surface = data.draw(st.sampled_from(queues)) if visibility == "surface_only" else ""
            stale = data.draw(st.sampled_from([0, 0, 0, 0, -1, 1]))
            expected = max(0, self.model.newest(key) + stale)
            tags = tuple(data.draw(TAGS))
            version = Version(
                key, 0, writer, visibility, surface, tags, data.draw(CATEGORIES), data.draw(BODIES)
            )
            writes.append((expected, version))
        name = f"{self.store}.{len(self.sent)}" if named else None
        self._write(writer, writes, name)
        if name is not None:
            self.sent.append((writer, writes, name))

    @precondition(lambda self: self.sent)
    @rule(data=st.data(), other=st.booleans())
    def write_again(self, data: st.DataObject, other: bool) -> None:
        writer, writes, name = data.draw(st.sampled_from(self.sent))
        if other:
            expected, version = writes[0]
            changed = Version(**{**version.__dict__, "body": {"another": "body"}})
            writes = [(expected, changed), *writes[1:]]
        self._write(writer, writes, name)

    def _write(self, writer: str, writes: list[tuple[int, Version]], name: str | None) -> None:
        body: dict[str, Any] = {"writes": [self._sent(expected, version) for expected, version in writes]}
        if name is not None:
            body["idempotency_key"] = name
        answer = self.callers[writer].post("/v1/records", body)
        status, due = self.model.write(writer, writes, name)
        if status != 201:
            document = assert_problem(answer, status)
            if due:
                got = [(str(c["index"]), c["current_version"]) for c in document["conflicts"]]
                assert got == due
            return
        assert answer.status_code == 201, answer.text
        assert [(r["key"], r["version"]) for r in answer.json()["records"]] == due
        assert [r["sha256"] for r in answer.json()["records"]] == [
            canonical.digest(version.body) for _, version in writes
        ]

    def _sent(self, expected: int, version: Version) -> dict[str, Any]:
        sent = {
            "store": self.store,
            "key": version.key,
            "expected_version": expected,
            "category": version.category,
            "tags": list(version.tags),
            "body": version.body,
            "visibility": version.visibility,
        }
        return {**sent, "surface": {"queue": version.surface}} if version.surface else sent

    @rule(reader=NAMES, key=KEYS, number=st.sampled_from([None, 1, 2, 3, 5]))
    def read(self, reader: str, key: str, number: int | None) -> None:
        answer = self.callers[reader].get(f"/v1/records/{self.store}/{key}", version=number)
        due = self.model.read(READERS[reader], key, number)
        if due is None:
            assert_problem(answer, 404)
            return
        assert answer.status_code == 200, answer.text
        got = answer.json()
        assert self._as_model(got) == due.__dict__ | {"writer": ""}
        assert got["sha256"] == canonical.digest(due.body)
        assert got["sha256"] in answer.headers["etag"]

    def _as_model(self, got: dict[str, Any]) -> dict[str, Any]:
        return {
            "key": got["key"],
            "number": got["version"],
            "writer": "",
            "visibility": got["visibility"],
            "surface": (got["surface"] or {}).get("queue", ""),
            "tags": tuple(got["tags"]),
            "category": got["category"],
            "body": got["body"],
        }

    @rule(
        reader=NAMES,
        prefix=st.sampled_from(["", "a", "a.", "b", "c"]),
        tag=st.one_of(st.none(), st.sampled_from(["red", "green"])),
        category=st.one_of(st.none(), CATEGORIES),
        limit=st.integers(1, 4),
    )
    def list(self, reader: str, prefix: str, tag: str | None, category: str | None, limit: int) -> None:
        items: list[Any] = []
        after = None
        while True:
            answer = self.callers[reader].get(
                "/v1/records",
                store=self.store,
                prefix=prefix or None,
                tag=tag,
                category=category,
                after=after,
                limit=limit,
            )
            assert answer.status_code == 200, answer.text
            page = answer.json()
            assert len(page["items"]) <= limit
            items += page["items"]
            after = page["next_after"]
            if not page["has_more"]:
                break
        due = self.model.listed(READERS[reader], prefix, tag, category)
        assert [(i["key"], i["version"]) for i in items] == [(v.key, v.number) for v in due]

    @rule(reader=NAMES, key=KEYS)
    def history(self, reader: str, key: str) -> None:
        answer = self.callers[reader].get(f"/v1/records/{self.store}/{key}/versions")
        chain = self.model.chains.get(key, [])
        due = [v.number for v in chain if READERS[reader].sees(v)]
        if not due:
            assert answer.status_code in (200, 404)
            assert answer.status_code == 404 or answer.json()["items"] == []
            return
        assert [item["version"] for item in answer.json()["items"]] == due


def test_records_live_as_the_model_says(server: Server) -> None:
    RecordMachine.server = server
    RecordMachine.callers = {
        name: server.caller(server.key(name=name, queues=list(reader.queues)))
        for name, reader in READERS.items()
        if name != "admin"
    }
    RecordMachine.callers["admin"] = server.caller()
    run_state_machine_as_test(
        RecordMachine,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
