"""Idempotency keys under fire: one answer for one body, a conflict for another, the caller's own."""

import threading
from collections.abc import Callable
from functools import partial
from typing import Any

import httpx
import pytest

from tests.faults.server import Caller, Server, assert_problem

pytestmark = pytest.mark.both_databases

Call = Callable[[Caller, str, int, str], httpx.Response]


def enqueue(caller: Caller, queue: str, body: int, key: str) -> httpx.Response:
    return caller.post(
        "/v1/tasks",
        {"queue": queue, "kind": "verb.test", "brief": {"n": body}, "idempotency_key": key},
    )


def write(caller: Caller, store: str, body: int, key: str) -> httpx.Response:
    record = {
        "store": store,
        "key": f"k{body}",
        "expected_version": 0,
        "category": "noun.eval_run",
        "tags": [],
        "body": {"n": body},
        "visibility": "shared",
    }
    return caller.post("/v1/records", {"writes": [record], "idempotency_key": key})


def both(calls: list[Callable[[], httpx.Response]]) -> list[httpx.Response]:
    """Make all calls at once."""
    answers: list[Any] = [None] * len(calls)
    gate = threading.Barrier(len(calls))

    def one(number: int) -> None:
        gate.wait()
        answers[number] = calls[number]()

    threads = [threading.Thread(target=one, args=(n,)) for n in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return answers


@pytest.mark.parametrize("call", [enqueue, write])
def test_a_repeat_gets_the_first_answer_and_another_body_a_conflict(
    caller: Caller, name: str, call: Call
) -> None:
    first = call(caller, name, 1, "same")
    again = call(caller, name, 1, "same")
    other = call(caller, name, 2, "same")

    assert first.status_code == 201
    assert again.json() == first.json()
    assert_problem(other, 409)


@pytest.mark.parametrize("call", [enqueue, write])
def test_one_key_used_at_once_has_one_effect(
    server: Server, caller: Caller, another: Callable[..., Caller], name: str, call: Call
) -> None:
    secret = server.key()
    for attempt in range(5):
        callers = [server.caller(secret) for _ in range(8)]
        answers = both(
            [
                partial(call, one, name, 10 * attempt + number % 2, f"same.{attempt}")
                for number, one in enumerate(callers)
            ]
        )
        for one in callers:
            one.close()
        taken = [answer for answer in answers if answer.status_code in (200, 201)]
        for answer in answers:
            if answer not in taken:
                assert_problem(answer, 409)
        assert len(taken) == 4
        assert len({answer.text for answer in taken}) == 1


@pytest.mark.parametrize("call", [enqueue, write])
def test_keys_of_two_callers_do_not_meet(another: Callable[..., Caller], name: str, call: Call) -> None:
    first = call(another(), name, 1, "same")
    second = call(another(), name, 2, "same")

    assert (first.status_code, second.status_code) == (201, 201)


def test_a_refused_batch_uses_no_key_up(caller: Caller, name: str) -> None:
    write(caller, name, 1, "first")

    refused = write(caller, name, 1, "second")
    taken = write(caller, name, 2, "second")

    assert_problem(refused, 409)
    assert taken.status_code == 201


def test_a_submit_refused_for_its_report_may_be_sent_again_under_its_key(caller: Caller, name: str) -> None:
    caller.enqueue(name, {})
    task = caller.claim(name)
    assert task is not None

    refused = caller.submit(task, idempotency_key="s", execution_report={"harness": ""})
    taken = caller.submit(task, idempotency_key="s", execution_report={"harness": "h"})
    again = caller.submit(task, idempotency_key="s", execution_report={"harness": "h"})
    other = caller.submit(task, idempotency_key="s", execution_report={"harness": "other"})

    assert assert_problem(refused, 422)["errors"][0]["path"] == "execution_report.harness"
    assert again.json() == taken.json()
    assert_problem(other, 409)
    assert len(caller.walk(name)) == 1


def test_a_body_is_the_same_however_it_is_written(caller: Caller, name: str) -> None:
    one = f'{{"queue":"{name}","kind":"verb.test","brief":{{"a":1,"b":"\\u00e9"}},"idempotency_key":"k"}}'
    two = f'{{ "idempotency_key" : "k", "brief":{{"b":"é","a":1.0}}, "kind":"verb.test", "queue":"{name}"}}'

    first = caller.post("/v1/tasks", content=one.encode())
    again = caller.post("/v1/tasks", content=two.encode())

    assert (first.status_code, again.status_code) == (201, 200)
    assert again.json() == first.json()
