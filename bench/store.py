"""The store, durable: submits, record batches and pages over HTTP, beside bare SQLite on the same disk.

The peer writes (or reads) the same rows in the caller's own process, by bare SQL and as durable: no HTTP, no
JSON, no permission, no digests. Ours and the peer's take turns in short rounds, and the ratio is the median
of the rounds', so that what else the machine does meets both.
"""

import json
import sqlite3
import statistics
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from bench.bare import Bare
from bench.served import Connection, Served, served
from bench.table import Line

QUEUE = "bench"
ROUNDS, WARMING = 25, 5
REPORT = {
    "summaries": {
        "problem": "Pack a folder of log files under one second",
        "solution": "zstd at level three",
    },
    "harness": "script",
    "usage": {"input_tokens": 1200, "output_tokens": 310, "total_tokens": 1510},
    "learning": {
        "outcome": "succeeded",
        "went_right": ["measured before choosing", "kept the file order"],
        "path": {"shim": "none", "method": "zstd"},
        "reasoning_summary": "Tried the cheap way first. " * 20,
        "duration_seconds": 0.8,
    },
}
Act = Callable[[], object]


def lines(*, quick: bool) -> list[Line]:
    """Submits by one and by eight writers, batches of 1 and of 100 records, and pages of observations."""
    work = 8 if quick else 24
    with served() as server, tempfile.TemporaryDirectory() as folder:
        bare = Bare(Path(folder))
        found = [
            _submits(server, bare, work, REPORT),
            _submits(server, bare, work, None),
            _writers(server, work),
            _batches(server, bare, 1, work),
            _batches(server, bare, 100, max(2, work // 8)),
            _pages(server, 1_000 if quick else 10_000),
        ]
        bare.close()
    return found


def claimed(connection: Connection, count: int) -> list[dict[str, Any]]:
    """Tasks ready to be submitted."""
    task = {"queue": QUEUE, "kind": "verb.pack", "brief": {"template": "pack", "goal": "pack the logs"}}
    request = connection.prepared("POST", "/v1/tasks", task)
    for _ in range(count):
        connection.send(request)
    claim = {"queue": QUEUE, "lease_seconds": 3600}
    return [connection.call("POST", "/v1/tasks/claim", claim) for _ in range(count)]


def submits(connection: Connection, count: int, report: dict[str, Any] | None = REPORT) -> list[bytes]:
    """Requests that each submit a task of their own."""
    reported = {} if report is None else {"execution_report": report}
    connection.renew()
    return [
        connection.prepared(
            "POST",
            f"/v1/tasks/{task['task_id']}/submit",
            {"fence": task["fence"], "ok": True, "output": {"bytes": 4711}, **reported},
        )
        for task in claimed(connection, count)
    ]


def seconds(act: Act) -> float:
    """Wall-clock seconds of one call."""
    start = time.perf_counter()
    act()
    return time.perf_counter() - start


def alternating(ours: Callable[[], Act], theirs: Callable[[], Act]) -> tuple[float, float, float]:
    """Median seconds of ours and of the peer's over rounds in turn, and the median of the rounds' ratios.

    Each makes its round's work before the clock starts.
    """
    rounds = []
    for number in range(WARMING + ROUNDS):
        mine, other = ours(), theirs()
        taken = seconds(mine), seconds(other)
        if number >= WARMING:
            rounds.append(taken)
    return (
        statistics.median(mine for mine, _ in rounds),
        statistics.median(other for _, other in rounds),
        statistics.median(other / mine for mine, other in rounds),
    )


def _submits(server: Served, bare: Bare, count: int, report: dict[str, Any] | None) -> Line:
    connection = server.connection()
    connection.send(submits(connection, 1, report)[0])
    page = connection.call("GET", f"/v1/executions?queue={QUEUE}&limit=1")
    item = json.dumps(page["items"][0], separators=(",", ":")).encode()

    def ours() -> Act:
        requests = submits(connection, count, report)
        return lambda: [connection.send(request) for request in requests]

    def theirs() -> Act:
        numbers = bare.tasks(count)
        return lambda: [bare.submit(number, item, bands=report is not None) for number in numbers]

    mine, other, ratio = alternating(ours, theirs)
    connection.close()
    work = f"store: submit {'without' if report is None else 'with'} a report, one writer"
    return Line(
        work,
        count / mine,
        "bare SQLite, same rows",
        count / other,
        "calls/s",
        ratio,
        "≥ 0.33 ×",
        "the disk, then Python",
    )


def _writers(server: Served, count: int, writers: int = 8) -> Line:
    connections = [server.connection() for _ in range(writers)]

    def eight() -> Act:
        shares = [submits(connection, count // writers) for connection in connections]

        def act() -> None:
            threads = [
                threading.Thread(target=lambda c=c, s=s: [c.send(request) for request in s])
                for c, s in zip(connections, shares, strict=True)
            ]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()

        return act

    def one() -> Act:
        requests = submits(connections[0], count // writers * writers)
        return lambda: [connections[0].send(request) for request in requests]

    mine, other, ratio = alternating(eight, one)
    for connection in connections:
        connection.close()
    done = count // writers * writers
    return Line(
        f"store: submit with a report, {writers} writers",
        done / mine,
        "one writer",
        done / other,
        "calls/s",
        ratio,
        "≥ 1 ×",
        "Python; those that come together share a commit",
    )


def _batches(server: Served, bare: Bare, size: int, count: int) -> Line:
    connection = server.connection()
    body = {"entries": [{"run_id": f"run-{n}", "text": "x" * 60} for n in range(8)]}
    kept = json.dumps(body, separators=(",", ":")).encode()
    numbers = iter(range(10**9))

    def batch() -> bytes:
        number = next(numbers)
        writes = [
            {
                "store": "bench",
                "key": f"b{size}:{number}:{at}",
                "expected_version": 0,
                "category": "noun.eval_run",
                "tags": ["queue:bench"],
                "body": body,
                "visibility": "private",
            }
            for at in range(size)
        ]
        return connection.prepared("POST", "/v1/records", {"writes": writes})

    def ours() -> Act:
        requests = [batch() for _ in range(count)]
        return lambda: [connection.send(request) for request in requests]

    def theirs() -> Act:
        batches = [[f"b{size}:{next(numbers)}" for _ in range(size)] for _ in range(count)]
        return lambda: [bare.records(keys, kept) for keys in batches]

    mine, other, ratio = alternating(ours, theirs)
    connection.close()
    done = size * count
    binds = "the disk, then Python" if size == 1 else "canonical JSON and its digest, each checked"
    return Line(
        f"store: records in batches of {size}",
        done / mine,
        "bare SQLite, same rows",
        done / other,
        "records/s",
        ratio,
        "",
        binds,
    )


def _pages(server: Served, count: int) -> Line:
    connection = server.connection()
    for first in range(0, count, 500):
        attempts = [
            {
                "source": "bench",
                "task_key": f"{number}",
                "attempt": 1,
                "kind": "verb.pack",
                "accepted": True,
                "problem_text": f"pack folder {number} " + "and keep the order of its files " * 40,
            }
            for number in range(first, min(first + 500, count))
        ]
        connection.call("POST", "/v1/executions/import", {"queue": "pages", "attempts": attempts})
    reader = sqlite3.connect(f"{(server.home / 'tessera.db').as_uri()}?mode=ro", uri=True)
    query = (
        "SELECT number, item FROM executions WHERE queue = 'pages' AND number > ? ORDER BY number LIMIT 100"
    )

    def ours() -> Act:
        def act() -> None:
            after, more, read = "0", True, 0
            while more:
                page = connection.send(
                    connection.prepared("GET", f"/v1/executions?queue=pages&after={after}&limit=100")
                )
                tail = page[page.rindex(b'"next_after"') :]  # read as little of it as a bare reader does
                after, more = tail.split(b'"')[3].decode(), tail.endswith(b"true}")
                read += 1
            assert read == -(-count // 100)

        return act

    def theirs() -> Act:
        def act() -> None:
            after, rows = 0, [(0, b"")]
            while rows := reader.execute(query, (after,)).fetchall():
                b",".join(row[1] for row in rows)
                after = rows[-1][0]

        return act

    mine, other, ratio = alternating(ours, theirs)
    reader.close()
    connection.close()
    return Line(
        f"store: {count:,} observations in pages of 100",
        count / mine,
        "bare SQLite, same rows",
        count / other,
        "rows/s",
        ratio,
        "",
        "copying the bytes, once a hop",
    )
