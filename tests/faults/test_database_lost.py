"""The database goes away under the store: refused for now or done anew, never by half, never an error 500."""

import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.faults.audit import audit
from tests.faults.cut import Relay
from tests.faults.fleet import Fleet
from tests.faults.server import Caller, Server, assert_problem, until
from tests.postgres import Postgres, Unusable


@pytest.fixture
def own_postgres() -> Iterator[Postgres]:
    """A server that the test may stop."""
    try:
        server = Postgres()
    except Unusable as why:
        pytest.skip(str(why))
    with server:
        yield server


@pytest.fixture
def relayed(tmp_path: Path, postgres: Postgres) -> Iterator[tuple[Relay, Server]]:
    """A store whose way to its database can be cut."""
    url = postgres.new_database()
    with Relay(postgres.port) as relay:
        way = url.replace(f":{postgres.port}/", f":{relay.port}/")
        with Server(tmp_path / "home", database_url=way) as server:
            yield relay, server


def claimed(caller: Caller) -> dict[str, Any]:
    caller.enqueue("q", {})
    task = caller.claim("q")
    assert task is not None
    return task


@pytest.mark.parametrize("deliver", [False, True], ids=["before it arrives", "before its answer arrives"])
def test_a_submit_cut_at_any_message_leaves_one_run(relayed: tuple[Relay, Server], deliver: bool) -> None:
    """Each message of the transaction in turn. All but the commit are done anew inside."""
    relay, server = relayed
    statuses: list[int] = []
    with server.caller(server.key()) as caller:
        cut = True
        while cut:
            task = claimed(caller)
            name = f"{len(statuses)}"
            relay.arm(len(statuses) + 1, deliver=deliver)
            answer = caller.submit(task, idempotency_key=name)
            cut = relay.disarm()
            statuses.append(answer.status_code)
            again = caller.submit(task, idempotency_key=name)
            assert again.status_code == 200, again.text
            assert answer.status_code == 503 or again.json() == answer.json()
        runs = caller.walk("q")

    assert len(statuses) > 8
    assert len(runs) == len({run["server"]["task_id"] for run in runs}) == len(statuses)
    assert set(statuses) <= {200, 503}
    assert statuses.count(503) <= 3  # the commit in doubt, and on a slow machine one whose time ran out


@pytest.mark.parametrize("deliver", [False, True], ids=["before it arrives", "before its answer arrives"])
def test_a_commit_without_an_answer_is_in_doubt_until_it_is_asked_again(
    relayed: tuple[Relay, Server], deliver: bool
) -> None:
    relay, server = relayed
    with server.caller(server.key()) as caller:
        task = claimed(caller)
        relay.arm(1, b"COMMIT", deliver=deliver)
        doubtful = caller.submit(task, idempotency_key="s")
        runs = len(caller.walk("q"))
        again = caller.submit(task, idempotency_key="s")
        runs_after = caller.walk("q")

    assert_problem(doubtful, 503)
    assert runs == int(deliver)
    assert again.status_code == 200
    assert [run["run_id"] for run in runs_after] == [again.json()["run_id"]]


def test_without_its_database_the_store_says_so_and_goes_on_when_it_is_back(
    tmp_path: Path, own_postgres: Postgres
) -> None:
    url = own_postgres.new_database()
    with Server(tmp_path / "home", database_url=url) as server, server.caller(server.key()) as caller:
        caller.enqueue("q", {"n": 1})
        own_postgres.stop()
        refused = [
            caller.get("/v1/queues"),
            caller.post("/v1/tasks", {"queue": "q", "kind": "k", "brief": {}}),
            caller.post("/v1/tasks/claim", {"queue": "q", "lease_seconds": 60}),
        ]
        alive = caller.get("/healthz")
        own_postgres.start()
        task = caller.claim("q")

    for answer in refused:
        assert_problem(answer, 503)
        assert int(answer.headers["retry-after"]) >= 1
        assert "postgres" not in answer.text
    assert alive.status_code == 200
    assert task is not None
    assert task["brief"] == {"n": 1}


def test_a_fleet_whose_database_crashes_and_returns_loses_nothing(
    tmp_path: Path, own_postgres: Postgres
) -> None:
    with Server(tmp_path / "home", database_url=own_postgres.new_database()) as server:
        fleet = Fleet(server, "crash", seed=5)
        fleet.patience = True
        fleet.start()
        for number in (signal.SIGQUIT, signal.SIGKILL, signal.SIGINT):
            time.sleep(0.5)
            own_postgres.stop(number)
            until(lambda: fleet.refused_for_now > 5, seconds=2)
            own_postgres.start()
            fleet.refused_for_now = 0
        time.sleep(0.5)
        fleet.finish()
        found = audit(server, fleet, seed=5)

    assert found.sentences == []
    assert found.counts["acknowledged"] > 50
