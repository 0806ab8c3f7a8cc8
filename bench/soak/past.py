"""Old observations, many of them quickly: what a store looks like after years of imports.

The first block of a queue comes in by the import itself. Its rows are then written again and again under new
numbers, ids and task ids, by SQL, while no server has the file: the same tables, indexes and sizes as from an
import of so many attempts, at many times its speed. What differs: texts repeat after a block, and the
identities and digests of the copies are digests of the first ones and a number.
"""

import hashlib
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from bench.soak.load import KINDS, METHODS, outcome, problem
from tessera import Client

BLOCK = 500
_ROWS = 20_000  # in one statement
_CACHE_KIB = 1 << 20


def attempt(number: int) -> dict[str, Any]:
    """A past attempt like the ones that the load makes."""
    method = list(METHODS)[number * 7 % len(METHODS)]
    went = outcome(number, method)
    report = went["execution_report"]
    return {
        "source": "soak",
        "task_key": f"old-{number}",
        "attempt": 1,
        "kind": KINDS[number % len(KINDS)],
        "problem_text": problem(number),
        "template": f"pack-{number % 7}",
        "method": method,
        "shim": "none",
        "harness": "soak",
        "accepted": went["ok"],
        "failure_text": went["failure"],
        "outcome": report["learning"]["outcome"],
        "input_tokens": report["usage"]["input_tokens"],
        "output_tokens": report["usage"]["output_tokens"],
        "cost_amount": report["learning"]["cost"]["amount"],
        "cost_currency": "EUR",
        "duration_seconds": report["learning"]["duration_seconds"],
        "started_at": f"2025-{1 + number % 12:02d}-{1 + number % 28:02d}T08:00:00Z",
    }


def import_blocks(admin: Client, queues: Sequence[str], size: int = BLOCK) -> None:
    """Give each queue its first block."""
    for queue in queues:
        admin.import_attempts(queue, [attempt(number) for number in range(size)])


def multiply(
    database: Path, queues: Sequence[str], each: int, told: Callable[[int], None] | None = None
) -> None:
    """Bring each queue, which has one block and nothing else, to `each` observations. No server may be up."""
    connection = sqlite3.connect(database, isolation_level=None)
    try:
        for pragma in (
            "journal_mode=OFF",
            "synchronous=OFF",
            f"cache_size=-{_CACHE_KIB}",
            "locking_mode=EXCLUSIVE",
        ):
            connection.execute(f"PRAGMA {pragma}").fetchall()
        done = 0
        for queue in queues:
            connection.execute("BEGIN")
            (newest,) = connection.execute("SELECT value FROM counters WHERE name = 'executions'").fetchone()
            block = _block(connection, queue)
            for start in range(0, each - len(block), _ROWS):
                count = min(_ROWS, each - len(block) - start)
                _write(connection, block, newest + start + 1, start, count)
                done += count
                if told is not None:
                    told(done)
            _bands(connection, queue, newest)
            last = newest + max(0, each - len(block))
            connection.execute("UPDATE counters SET value = ? WHERE name = 'executions'", (last,))
            connection.execute("COMMIT")
        connection.execute("PRAGMA locking_mode=NORMAL").fetchall()
        connection.execute("PRAGMA journal_mode=WAL").fetchall()
    finally:
        connection.close()


class _Row:
    """One run of the block, cut where a copy differs."""

    def __init__(
        self, execution: tuple[Any, ...], details: tuple[Any, ...], identity: str, content: str
    ) -> None:
        number, token, *self.columns = execution
        self.item: bytes = self.columns[7]
        self.details, self.identity, self.content = details, identity, content
        item = self.item.decode()
        parts: list[str] = []
        for name, text in (
            ("run_id", f"run-{number}-{token}"),
            ("cursor", str(number)),
            ("task_id", "import-"),
        ):
            head, found, item = item.partition(f'"{name}":"{text}')
            assert found, f"the observation has no {name} where it is looked for"
            parts.append(f'{head}"{name}":"')
        self.parts = [*parts, item[32:]]

    def copy(self, number: int, times: int) -> tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]:
        """Its rows in executions, details and imports under another number."""
        identity = hashlib.sha256(f"{self.identity}{times}".encode()).hexdigest()
        token = identity[:16]
        run, cursor, task, rest = self.parts
        item = f"{run}run-{number}-{token}{cursor}{number}{task}import-{identity[32:]}{rest}"
        columns = (*self.columns[:7], item.encode(), *self.columns[8:])
        queue = self.columns[0]
        return (number, token, *columns), (number, *self.details), (queue, identity, self.content, number)


def _block(connection: sqlite3.Connection, queue: str) -> list[_Row]:
    rows = connection.execute(
        "SELECT e.number, e.token, e.queue, e.kind, e.audience, e.pinned, e.pins, e.input_digest, "
        "e.input_type, e.item, e.simhash, d.task, d.brief, d.output, d.failure, d.receipt, i.identity, "
        "i.content "
        "FROM executions e JOIN execution_details d ON d.number = e.number "
        "JOIN imports i ON i.queue = e.queue AND i.number = e.number WHERE e.queue = ? ORDER BY e.number",
        (queue,),
    ).fetchall()
    return [_Row(row[:11], row[11:16], row[16], row[17]) for row in rows]


def _write(connection: sqlite3.Connection, block: list[_Row], number: int, start: int, count: int) -> None:
    copies = [
        block[(start + place) % len(block)].copy(number + place, 1 + (start + place) // len(block))
        for place in range(count)
    ]

    def column(at: int) -> Iterator[tuple[Any, ...]]:
        return (copy[at] for copy in copies)

    connection.executemany(f"INSERT INTO executions VALUES ({','.join('?' * 11)})", column(0))  # noqa: S608
    connection.executemany("INSERT INTO execution_details VALUES (?,?,?,?,?,?)", column(1))
    connection.executemany("INSERT INTO imports VALUES (?,?,?,?)", sorted(column(2)))


def _bands(connection: sqlite3.Connection, queue: str, after: int) -> None:
    """The bands of the copies, in the order of the table's key."""
    connection.execute(
        "WITH RECURSIVE band(at) AS (SELECT 0 UNION ALL SELECT at + 1 FROM band WHERE at < 7) "
        "INSERT INTO simhash_bands (queue, kind, band, value, number) "
        "SELECT queue, kind, at, (simhash >> (56 - 8 * at)) & 255 AS value, number FROM executions, band "
        "WHERE queue = ? AND number > ? AND simhash IS NOT NULL ORDER BY kind, at, value, number",
        (queue, after),
    )
