"""Idempotency keys (contract, section 3)."""

import threading
from typing import Any

import pytest

from tests.server.calls import claim, claimed, done, enqueue, observations, submit, write

pytestmark = pytest.mark.both_databases

BODY = {"queue": "q", "kind": "k", "brief": {"a": 1, "b": [1.0]}, "idempotency_key": "one"}


def test_an_enqueue_repeated_is_200_and_the_task_as_it_is_now(store: Any) -> None:
    http = store.http()
    first = done(http.post("/v1/tasks", json=BODY), 201)
    claimed(http)

    again = done(http.post("/v1/tasks", json=BODY), 200)

    assert again == {**first, "state": "claimed", "fence": 1}


def test_the_canonical_body_counts_not_its_spelling(store: Any) -> None:
    http = store.http()
    first = done(http.post("/v1/tasks", json=BODY), 201)
    other = b'{ "idempotency_key":"\\u006fne","brief":{"b":[1],"a":1.0},"kind":"k","queue":"q"}'

    assert done(http.post("/v1/tasks", content=other), 200)["task_id"] == first["task_id"]


def test_another_body_under_the_same_key_is_409_and_changes_nothing(store: Any) -> None:
    http = store.http()
    done(http.post("/v1/tasks", json=BODY), 201)

    assert http.post("/v1/tasks", json={**BODY, "brief": {}}).status_code == 409

    claimed(http)
    assert claim(http) is None


def test_keys_are_the_callers_own(store: Any) -> None:
    first = done(store.http_for().post("/v1/tasks", json=BODY), 201)
    second = done(store.http_for().post("/v1/tasks", json={**BODY, "brief": {}}), 201)

    assert first["task_id"] != second["task_id"]


def test_a_refused_call_uses_no_key_up(store: Any) -> None:
    http = store.http()
    pinned = {**BODY, "pins": [{"store": "s", "key": "r", "version": 1}]}
    assert http.post("/v1/tasks", json=pinned).status_code == 404

    done(write(http))

    done(http.post("/v1/tasks", json=pinned), 201)


def test_a_submit_repeated_gives_the_first_receipt_also_after_the_fence_moved(store: Any) -> None:
    http = store.http()
    enqueue(http)
    task = claimed(http)
    first = done(submit(http, task, ok=False, idempotency_key="s"))
    claimed(http)

    again = done(submit(http, task, ok=False, idempotency_key="s"))

    assert again == first
    assert len(observations(http)["items"]) == 1
    assert submit(http, task, ok=True, idempotency_key="s").status_code == 409


def test_a_submit_key_belongs_to_its_task(store: Any) -> None:
    http = store.http()
    enqueue(http)
    enqueue(http)
    first, second = claimed(http), claimed(http)
    done(submit(http, first, idempotency_key="s"))

    assert submit(http, second, idempotency_key="s").status_code == 409
    done(submit(http, second, idempotency_key="t"))


def test_a_malformed_report_blocks_nothing_and_the_same_key_serves_again(store: Any) -> None:
    http = store.http()
    enqueue(http)
    task = claimed(http)
    faulty = submit(
        http, task, idempotency_key="s", execution_report={"learning": {"outcome": "great", "x": 1}}
    )

    assert faulty.status_code == 422
    assert faulty.json()["errors"] == [
        {
            "path": "execution_report.learning.outcome",
            "message": "must be one of succeeded, partial, failed, blocked, no_change",
        },
        {"path": "execution_report.learning.x", "message": "is not a known field"},
    ]
    assert observations(http)["items"] == []
    done(submit(http, task, idempotency_key="s", execution_report={"learning": {"outcome": "partial"}}))


def test_records_repeated_give_the_first_answer_also_after_the_next_version(store: Any) -> None:
    http = store.http()
    one = {
        "store": "s",
        "key": "k",
        "expected_version": 0,
        "category": "noun.x",
        "tags": ["t"],
        "body": {"a": 1},
        "visibility": "shared",
    }
    batch = {"idempotency_key": "b", "writes": [one]}
    first = done(http.post("/v1/records", json=batch), 201)
    done(http.post("/v1/records", json={"writes": [{**one, "expected_version": 1}]}), 201)

    assert done(http.post("/v1/records", json=batch), 201) == first
    changed = {"idempotency_key": "b", "writes": [{**one, "body": {"a": 2}}]}
    assert http.post("/v1/records", json=changed).status_code == 409
    assert len(done(http.get("/v1/records/s/k/versions"))["items"]) == 2


def test_the_same_call_sent_twice_at_once_happens_once(store: Any) -> None:
    answers: list[int] = []
    gate = threading.Barrier(8)

    def send() -> None:
        http = store.http()
        gate.wait()
        answers.append(http.post("/v1/tasks", json=BODY).status_code)

    threads = [threading.Thread(target=send) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert sorted(answers) == [200] * 7 + [201]
