"""What each operation of the store writes, beside what the contract promises: the table of the write cost.

Measured on a scratch store, each operation as a worker would call it, with an idempotency key where it takes
one. Leaves out databases other than SQLite: there an entry is a row or an index entry of a B-tree.
"""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tessera.store import executions, keys, leases, records, submissions, tasks
from tessera.store.database import Session
from tessera.store.opening import open_store
from tessera.store.permission import Caller, Grant
from tessera.store.reader import Scope
from tessera.store.sqlite import SqliteDatabase
from tessera.store.write_cost import WriteCost, measure

REPORT = {"summaries": {"problem": "Compress a folder of logs under one second"}, "harness": "script"}
LEARNING = {
    "outcome": "partial",
    "went_right": ["a" * 512] * 8,
    "went_wrong": ["b" * 512] * 8,
    "next_steps": ["c" * 512] * 8,
    "ideas": ["d" * 512] * 8,
    "types": {"input": "text/plain", "output": "json"},
    "path": {"shim": "none", "method": "zstd"},
    "reasoning_summary": "tried the cheap way first",
    "duration_seconds": 1.5,
    "cost": {"amount": 0.25, "currency": "EUR", "source": "invoice"},
    "unknowns": [{"field": "usage.input_tokens", "reason": "not metered"}],
    "advice": [
        {"learner": "memory", "strategy": "s", "version": 1, "store": "x", "key": "k", "record_version": 3}
    ],
}
OWN_REPORT = {
    "harness": "learner",
    "model": None,
    "usage": {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0},
    "learning": {"cost": None, "unknowns": [{"field": "cost", "reason": "not metered"}]},
}
"""What a learner run says of itself: it has no problem text, so no bands are written."""


@dataclass(frozen=True, slots=True)
class Cost:
    """Entries written by one operation, of which ``tables`` are table rows, and how many are promised."""

    operation: str
    entries: int
    tables: int
    promised: int


def measured() -> list[Cost]:
    """The table, by operation."""
    with tempfile.TemporaryDirectory() as folder:
        store = open_store(Path(folder))
        try:
            assert isinstance(store.database, SqliteDatabase)  # noqa: S101 - opened without a URL
            return _table(_Scratch(store.database))
        finally:
            store.database.close()


def _table(scratch: "_Scratch") -> list[Cost]:
    found: list[Cost] = []

    def row(operation: str, spent: WriteCost, promised: int) -> None:
        found.append(Cost(operation, spent.total, spent.tables, promised))

    row("enqueue", scratch.cost(lambda: scratch.enqueue("a", private=True)), 6)
    row("claim", scratch.cost(scratch.claim), 5)
    row("submit without a report", scratch.cost(scratch.submit), 12)
    scratch.enqueue("b")
    scratch.claim()
    row("submit with a report", scratch.cost(lambda: scratch.submit(execution_report=REPORT)), 20)
    scratch.enqueue("c")
    scratch.claim()
    full = {**REPORT, "learning": LEARNING}
    row("submit with a full learning block", scratch.cost(lambda: scratch.submit(execution_report=full)), 20)
    row("a page of observations", scratch.cost(scratch.page), 0)
    scratch.batch([1])
    row("segment of 1 and its head", scratch.cost(lambda: scratch.batch([1])), 10)
    row("segment of 128 and its head", scratch.cost(lambda: scratch.batch([128])), 10)
    one, three = scratch.memory_run([128]), scratch.memory_run([128] * 3)
    for operation, entries, tables, promised in (
        ("memory run of one segment", *one, 35),
        ("each further segment", (three[0] - one[0]) // 2, (three[1] - one[1]) // 2, 5),
    ):
        found.append(Cost(operation, entries, tables, promised))
    return found


class _Scratch:
    """A store that is measured: calls as a worker makes them, in transactions of their own."""

    def __init__(self, database: SqliteDatabase) -> None:
        self._database = database
        self._head = 0
        self._segments = 0
        self._names = 0
        self._task: dict[str, Any] = {}
        grant = Grant("scratch", frozenset({"read", "work", "write"}), ("*",), None, None, None)
        with database.write() as session:
            key_id = keys.add(session, grant, keys.new_secret())
        self._caller = Caller(
            grant.name, grant.scopes, grant.queues, grant.kinds, grant.stores, grant.expires_at, key_id
        )

    def cost(self, act: Callable[[], object]) -> WriteCost:
        return measure(self._database, act)

    def enqueue(self, name: str, **more: Any) -> None:
        brief = {"goal": "pack"}
        request = {"queue": "work", "kind": "verb.pack", "brief": brief, "idempotency_key": name, **more}
        self._write(lambda session: tasks.enqueue(session, self._caller, request))

    def claim(self) -> None:
        request = {"queue": "work", "lease_seconds": 60}
        self._task = self._write(lambda session: leases.claim(session, self._caller, request))

    def submit(self, **more: Any) -> None:
        request = {"fence": 1, "ok": True, "output": {"size": 1}, "idempotency_key": self._name(), **more}
        self._write(lambda session: submissions.submit(session, self._caller, self._task["task_id"], request))

    def page(self) -> bytes:
        with self._database.read() as session:
            scope = Scope("work", None, 0)
            return executions.page(session, self._caller, scope, 100, "scratch")

    def batch(self, segments: list[int]) -> None:
        """Segments of so many entries, and the next version of their head, in one batch."""
        names = [f"seg:{self._segments + at:06d}" for at in range(len(segments))]
        writes = [
            self._noun(name, 0, {"entries": [_ENTRY] * count})
            for name, count in zip(names, segments, strict=True)
        ]
        writes.append(self._noun("head", self._head, {"cursor": "1", "segments": names}))
        self._head += 1
        self._segments += len(segments)
        idempotency_key = self._name()
        self._write(lambda session: records.write(session, self._caller, writes, idempotency_key))

    def memory_run(self, segments: list[int]) -> tuple[int, int]:
        """Entries and table rows of a learner run, from its enqueue to its submit.

        Call by call, since each rewrites the task's row.
        """
        spent = [
            self.cost(lambda: self.enqueue(self._name(), private=True)),
            self.cost(self.claim),
            self.cost(lambda: self.batch(segments)),
            self.cost(lambda: self.submit(execution_report=OWN_REPORT)),
        ]
        return sum(each.total for each in spent), sum(each.tables for each in spent)

    def _write(self, work: Callable[[Session], Any]) -> Any:
        with self._database.write() as session:
            return work(session)

    def _name(self) -> str:
        self._names += 1
        return f"name.{self._names}"

    def _noun(self, key: str, expected: int, body: dict[str, Any]) -> dict[str, Any]:
        return {
            "store": "learn.outputs",
            "key": f"memory:minhash-lsh:v1:{key}",
            "expected_version": expected,
            "category": "noun.eval_run",
            "tags": ["memory:minhash-lsh:v1", "queue:work"],
            "body": body,
            "visibility": "private",
        }


_ENTRY = {"run_id": "run-1-" + "0" * 16, "minhash": "A" * 172, "exact": "0" * 64}
