"""The same call sent by several at the same moment: one effect, the same answer, and never a 5xx."""

import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import httpx
import pytest

from tests.faults.server import Caller, Server

pytestmark = pytest.mark.both_databases

TWINS, ROUNDS = 4, 3
ARMS = [{"arm": "a", "weight": 0.5}, {"arm": "b", "weight": 0.5}]
AtOnce = Callable[[Callable[[int, Caller], httpx.Response]], list[httpx.Response]]


@pytest.fixture
def at_once(server: Server) -> Iterator[AtOnce]:
    """Lets callers of one key, with connections of their own, do something each at the same moment."""
    secret = server.key(scopes=["read", "work", "write", "admin"])
    callers = [server.caller(secret) for _ in range(TWINS)]
    gate = threading.Barrier(TWINS)

    def do(act: Callable[[int, Caller], httpx.Response], number: int) -> httpx.Response:
        gate.wait(30)
        return act(number, callers[number])

    with ThreadPoolExecutor(TWINS) as pool:

        def all_do(act: Callable[[int, Caller], httpx.Response]) -> list[httpx.Response]:
            answers = list(pool.map(lambda number: do(act, number), range(TWINS)))
            assert [answer.text for answer in answers if answer.status_code >= 500] == []
            return answers

        yield all_do
    for caller in callers:
        caller.close()


def statuses(answers: list[httpx.Response]) -> list[int]:
    return sorted(answer.status_code for answer in answers)


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_life_of_a_task_in_which_every_call_comes_four_times_at_once(
    at_once: AtOnce, name: str, number: int
) -> None:
    task = {"queue": name, "kind": "k", "brief": {"n": number}, "idempotency_key": name}
    enqueued = at_once(lambda _, caller: caller.post("/v1/tasks", task))
    claims = at_once(lambda _, caller: caller.post("/v1/tasks/claim", {"queue": name, "lease_seconds": 60}))
    path = f"/v1/tasks/{enqueued[0].json()['task_id']}"
    draw = {"fence": 1, "dimension": "model", "arms": ARMS}
    drawn = at_once(lambda _, caller: caller.post(f"{path}/draw", draw))
    others = at_once(
        lambda at, caller: caller.post(
            f"{path}/draw", {**draw, "dimension": "method", "arms": [{"arm": f"a{at}", "weight": 1}]}
        )
    )
    report = {"summaries": {"problem": "the same words, found by their bands"}}
    submit = {"fence": 1, "ok": True, "execution_report": report, "idempotency_key": name}
    submitted = at_once(lambda _, caller: caller.post(f"{path}/submit", submit))

    assert statuses(enqueued) == [200, 200, 200, 201]
    assert len({answer.json()["task_id"] for answer in enqueued}) == 1
    assert statuses(claims) == [200, 204, 204, 204]
    assert statuses(drawn) == [200] * TWINS
    assert len({answer.content for answer in drawn}) == 1
    assert statuses(others) == [200, 409, 409, 409]
    assert statuses(submitted) == [200] * TWINS
    assert len({answer.content for answer in submitted}) == 1


def test_attempts_imported_by_several_at_once_are_there_once(at_once: AtOnce, name: str) -> None:
    attempts = [
        {"source": "s", "task_key": str(n), "attempt": 1, "kind": "k", "accepted": True} for n in range(40)
    ]

    imported = at_once(
        lambda at, caller: caller.post(
            "/v1/executions/import", {"queue": name, "attempts": attempts[:: 1 if at % 2 else -1]}
        )
    )

    assert statuses(imported) == [200] * TWINS
    assert sum(answer.json()["imported"] for answer in imported) == 40


@pytest.mark.parametrize("number", range(ROUNDS))
def test_of_batches_that_want_the_same_keys_in_any_order_one_is_written(
    at_once: AtOnce, name: str, number: int
) -> None:
    def write(key: str, at: int, version: int = 0) -> dict[str, Any]:
        return {
            "store": name, "key": key, "expected_version": version, "category": "noun.x",
            "tags": [f"t{at % 2}"], "body": {"by": at}, "visibility": "shared",
        }  # fmt: skip

    def batch(at: int, version: int) -> dict[str, Any]:
        return {"writes": [write(f"k{key}", at, version) for key in range(5)[:: 1 if at % 2 else -1]]}

    for version in (0, 1):
        written = at_once(lambda at, caller, v=version: caller.post("/v1/records", batch(at, v)))
        assert statuses(written) == [201, 409, 409, 409]
    same = {"writes": [write("same", 0)], "idempotency_key": name}
    repeated = at_once(lambda _, caller: caller.post("/v1/records", same))

    assert statuses(repeated) == [201] * TWINS
    assert len({answer.content for answer in repeated}) == 1


@pytest.mark.parametrize("number", range(ROUNDS))
def test_a_key_that_is_revoked_while_it_claims_gets_its_claim_or_401(
    at_once: AtOnce, server: Server, name: str, number: int
) -> None:
    grant = {"name": "t", "scopes": ["read", "work", "write"], "queues": [name]}
    with server.caller() as admin:
        made = admin.post("/v1/keys", grant)
    with server.caller(made.json()["secret"]) as doomed:
        for n in range(TWINS):
            doomed.enqueue(name, {"n": n})

        answers = at_once(
            lambda at, caller: (
                caller.delete(f"/v1/keys/{made.json()['id']}")
                if at == 0
                else doomed.post("/v1/tasks/claim", {"queue": name, "lease_seconds": 60})
            )
        )

        assert answers[0].status_code == 200
        assert {answer.status_code for answer in answers[1:]} <= {200, 401}
        assert doomed.get("/v1/whoami").status_code == 401
