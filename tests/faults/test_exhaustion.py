"""A full disk and no free file handles: refused with a problem, nothing by half, on again after relief."""

import contextlib
import resource
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tests.faults.audit import audit
from tests.faults.fleet import Fleet
from tests.faults.server import Caller, Server, assert_problem, until

STORE = "faults.disk"


def write(caller: Caller, token: str, versions: dict[str, int], size: int = 20_000) -> httpx.Response:
    """A batch that replaces every key."""
    writes = [
        {
            "store": STORE,
            "key": key,
            "expected_version": version,
            "category": "noun.eval_run",
            "tags": [token],
            "body": {"token": token, "filling": "x" * size},
            "visibility": "shared",
        }
        for key, version in versions.items()
    ]
    return caller.post("/v1/records", {"writes": writes, "idempotency_key": token})


def fill_until_refused(caller: Caller, versions: dict[str, int], most: int) -> httpx.Response:
    """Write batches until one is refused; ``versions`` follows what was acknowledged."""
    for number in range(most):
        answer = write(caller, f"fill.{number}.{versions['a']}", versions)
        if answer.status_code != 201:
            return answer
        for key in versions:
            versions[key] += 1
    raise AssertionError(f"{most} batches and still room")


def assert_whole(caller: Caller, versions: dict[str, int]) -> None:
    """Every acknowledged version is there with all of its batch, and no other."""
    for key, newest in versions.items():
        records = [caller.get(f"/v1/records/{STORE}/{key}", version=n + 1) for n in range(newest + 1)]
        assert [record.status_code for record in records] == [200] * newest + [404]
    for number in range(max(versions.values())):
        tokens = {
            caller.get(f"/v1/records/{STORE}/{key}", version=number + 1).json()["body"]["token"]
            for key in versions
        }
        assert len(tokens) == 1


def assert_refused_for_now(answer: httpx.Response) -> None:
    document = assert_problem(answer, 503)
    assert int(answer.headers["retry-after"]) >= 1
    assert "/" not in document["detail"]  # no path of the machine


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A folder with room for 12 MiB."""
    folder = tmp_path / "disk"
    folder.mkdir()
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=12m", "tmpfs", str(folder)], capture_output=True, check=False
    )
    if mounted.returncode != 0:
        pytest.skip("a small disk needs the right to mount a tmpfs")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


def test_a_full_disk_refuses_writes_serves_reads_and_recovers_when_there_is_room(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    ballast.write_bytes(b"\0" * (5 << 20))
    versions = dict.fromkeys("abc", 0)
    with Server(small_disk / "home") as server, server.caller(server.key()) as caller:
        caller.enqueue("q", {"n": 1})
        task = caller.claim("q")
        assert task is not None
        refused = fill_until_refused(caller, versions, 200)
        filler = small_disk / "filler"
        with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
            while file.write(b"\0" * 4096) > 0:  # not a page is left
                pass
        fill_until_refused(caller, versions, 200)  # the log may have had room of its own to write over
        stuck = caller.submit(task, output="o" * 500_000, idempotency_key="s")
        listed = caller.walk("q")
        read = caller.get(f"/v1/records/{STORE}/a")
        state = caller.get(f"/v1/tasks/{task['task_id']}").json()["state"]
        server.kill()  # what is on the full disk is all there is
        filler.unlink()
        server.start()
        assert_whole(caller, versions)
        ballast.unlink()
        freed = caller.submit(task, output="o" * 500_000, idempotency_key="s")
        assert write(caller, "after", versions).status_code == 201
        runs = caller.walk("q")

    assert_refused_for_now(refused)
    assert_refused_for_now(stuck)
    assert listed == []
    assert read.status_code == 200
    assert state == "claimed"
    assert freed.status_code == 200
    assert [run["run_id"] for run in runs] == [freed.json()["run_id"]]


def test_a_file_that_may_not_grow_refuses_writes_and_recovers(tmp_path: Path) -> None:
    versions = dict.fromkeys("abc", 0)
    with Server(tmp_path / "home") as server, server.caller(server.key()) as caller:
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (1 << 20, hard))
        refused = fill_until_refused(caller, versions, 200)
        read = caller.get(f"/v1/records/{STORE}/a")
        healthy = caller.get("/healthz")
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, hard))
        freed = write(caller, "after", versions)
        for key in versions:
            versions[key] += 1
        assert_whole(caller, versions)

    assert_refused_for_now(refused)
    assert read.status_code == healthy.status_code == 200
    assert freed.status_code == 201


def test_without_file_handles_those_who_are_in_are_served_and_others_after_relief(tmp_path: Path) -> None:
    with Server(tmp_path / "home") as server, server.caller(server.key()) as caller:
        assert caller.get("/v1/queues").status_code == 200  # a connection that stays
        handles = len(list(Path(f"/proc/{server.pid}/fd").iterdir()))
        _, hard = resource.prlimit(server.pid, resource.RLIMIT_NOFILE)
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (handles, hard))
        waiting = [socket.create_connection(("127.0.0.1", server.port), timeout=10) for _ in range(5)]
        answers = []
        for number in range(20):
            answers.append(caller.get("/v1/queues"))
            answers.append(
                caller.post("/v1/tasks", {"queue": "q", "kind": "verb.test", "brief": {"n": number}})
            )
        resource.prlimit(server.pid, resource.RLIMIT_NOFILE, (hard, hard))
        for connection in waiting:
            connection.close()
        taken = [answer for answer in answers if answer.status_code < 300]
        for answer in answers:
            if answer not in taken:
                assert_refused_for_now(answer)
        with server.caller(server.admin_secret) as newcomer:
            assert until(lambda: newcomer.get("/v1/queues").status_code == 200)
        due = [a.json()["task_id"] for a in taken if a.request.method == "POST"]
        got = [task["task_id"] for task in iter(lambda: caller.claim("q"), None)]

    assert got == due


@pytest.mark.slow
def test_a_fleet_on_a_disk_that_fills_and_empties_loses_nothing(small_disk: Path) -> None:
    ballast = small_disk / "ballast"
    with Server(small_disk / "home") as server:
        fleet = Fleet(server, "full", seed=3)
        fleet.patience = True
        fleet.start()
        for _ in range(3):
            with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
                while file.write(b"\0" * 4096) > 0:
                    pass
            until(lambda: fleet.refused_for_now > 20, seconds=3)
            ballast.unlink()
            fleet.refused_for_now = 0
            until(lambda: False, seconds=0.5)
        fleet.finish()
        found = audit(server, fleet, seed=3)

    assert found.sentences == []
    assert found.counts["acknowledged"] > 50
