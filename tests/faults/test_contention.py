"""Concurrent writers: their histories have a serial order, and nobody is told to wait by an error."""

import sqlite3
import threading
import time
from pathlib import Path

import pytest

from tests.faults.contention import contend
from tests.faults.server import Server


@pytest.mark.both_databases
def test_histories_of_concurrent_cas_writers_have_a_serial_order(server: Server, name: str) -> None:
    run = contend(server, seconds=2.5, prefix=name, seed=1)

    assert run.faults() == []
    counts = run.counts()
    assert min(counts["written"], counts["conflict"], counts["read"]) > 20, counts


@pytest.mark.both_databases
def test_two_servers_on_one_database_are_one_store(server: Server, name: str, tmp_path: Path) -> None:
    home = server.home if server.database_url is None else tmp_path / "home"
    with Server(home, database_url=server.database_url) as second:
        run = contend(server, second, seconds=2.0, prefix=name, seed=3)

    assert run.faults() == []
    assert run.counts()["written"] > 20


def test_a_writer_waits_for_another_process_and_readers_do_not(server: Server, name: str) -> None:
    held = sqlite3.connect(server.home / "tessera.db", isolation_level=None, check_same_thread=False)
    held.execute("BEGIN IMMEDIATE")
    release = threading.Timer(1.0, held.execute, ["ROLLBACK"])
    with server.caller(server.admin_secret) as writer, server.caller(server.admin_secret) as reader:
        release.start()
        waiting = threading.Thread(target=writer.enqueue, args=(name, {}))
        waiting.start()
        read = reader.get("/v1/queues")
        still_waiting = waiting.is_alive()
        waiting.join()
        release.join()
        claimed = reader.claim(name)
    held.close()

    assert read.status_code == 200
    assert still_waiting
    assert claimed is not None


@pytest.mark.both_databases
def test_twenty_cas_writers_and_twenty_submitters_never_meet_an_error_but_conflict(
    server: Server, name: str
) -> None:
    unexpected: list[str] = []
    submitted: list[str] = []
    end = time.monotonic() + 4.0
    secret = server.key()

    def submit_in_a_loop() -> None:
        with server.caller(secret) as caller:
            while time.monotonic() < end:
                caller.enqueue(name, {"problem": "contended"})
                task = caller.claim(name)
                if task is None:
                    continue
                answer = caller.submit(task, output="done")
                if answer.status_code in (200, 201):
                    submitted.append(answer.json()["run_id"])
                else:
                    unexpected.append(f"{answer.status_code} {answer.text[:300]}")

    submitters = [threading.Thread(target=submit_in_a_loop) for _ in range(20)]
    for thread in submitters:
        thread.start()
    run = contend(server, seconds=end - time.monotonic(), writers=20, keys=10, prefix=name, seed=2)
    for thread in submitters:
        thread.join()

    assert unexpected == []
    assert run.faults() == []
    with server.caller(secret) as caller:
        assert sorted(item["run_id"] for item in caller.walk(name)) == sorted(submitted)
