"""Metrics: what is counted, by labels of bounded variety, and for admins alone."""

import json
from typing import Any

import httpx
from prometheus_client.parser import text_string_to_metric_families

from tests.server.calls import claimed, done, enqueue, submit, write

Samples = dict[tuple[str, tuple[tuple[str, str], ...]], float]


def scrape(http: httpx.Client) -> Samples:
    answer = http.get("/metrics")
    assert answer.status_code == 200
    assert answer.headers["content-type"].startswith("text/plain; version=0.0.4")
    return {
        (sample.name, tuple(sorted(sample.labels.items()))): sample.value
        for family in text_string_to_metric_families(answer.text)
        for sample in family.samples
    }


def test_work_is_counted_once_and_repeats_are_not(store: Any) -> None:
    http = store.http()
    enqueue(http, idempotency_key="a")
    enqueue(http, idempotency_key="a")
    task = claimed(http)
    http.post("/v1/tasks/claim", json={"queue": "q", "lease_seconds": 5})
    arms = [{"arm": "a", "weight": 1}]
    body = {"fence": 1, "dimension": "model", "arms": arms}
    for _ in range(2):
        done(http.post(f"/v1/tasks/{task['task_id']}/draw", json=body))
    for _ in range(2):
        done(submit(http, task, ok=False, idempotency_key="b"))
    done(write(http))
    assert write(http).status_code == 409

    told = scrape(http)

    assert told["tessera_tasks_enqueued_total", ()] == 1
    assert told["tessera_tasks_claimed_total", ()] == 1
    assert told["tessera_draws_total", ()] == 1
    assert told["tessera_submits_total", (("result", "failed"),)] == 1
    assert told["tessera_submits_total", (("result", "accepted"),)] == 0
    assert told["tessera_records_written_total", ()] == 1
    assert told["tessera_rows_written_total", (("route", "/v1/tasks"),)] == 3
    assert told["tessera_database_bytes", ()] > 0
    assert told["tessera_database_log_bytes", ()] > 0


def test_requests_are_counted_by_method_route_and_status(store: Any) -> None:
    http = store.http()
    for _ in range(3):
        http.get("/v1/tasks/task-1-x")
    store.http("tsk_unknown").get("/v1/tasks/task-1-x")

    told = scrape(http)

    def requests(status: str) -> float:
        labels = (("method", "GET"), ("route", "/v1/tasks/{task_id}"), ("status", status))
        return told["tessera_requests_total", labels]

    assert (requests("404"), requests("401")) == (3, 1)
    assert told["tessera_request_seconds_count", (("route", "/v1/tasks/{task_id}"),)] == 4


def test_no_text_of_a_caller_becomes_a_label(store: Any) -> None:
    http = store.http()
    marks = ["zebra1", "zebra2", "zebra3", "zebra4", "ZEBRA5"]
    http.get(f"/v1/tasks/{marks[0]}")
    http.get(f"/{marks[1]}")
    http.get("/v1/executions", params={"queue": marks[2]})
    enqueue(http, marks[3], kind=marks[3])
    http.request(marks[4], "/v1/tasks")

    before = len(scrape(http))
    for n in range(20):
        http.get(f"/unknown/{n}")
    told = http.get("/metrics").text

    assert not [mark for mark in marks if mark.lower() in told.lower()]
    assert len(scrape(http)) <= before + 20  # one route and its buckets, however many paths


def test_no_secret_is_in_the_metrics(store: Any) -> None:
    key = store.key()
    store.http(key["secret"]).get("/v1/whoami")

    told = store.http().get("/metrics").text

    assert key["secret"] not in told
    assert store.admin_key not in told


def test_a_tools_call_is_counted_as_its_route(store: Any) -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {
            "name": "enqueue",
            "arguments": {"queue": "q", "kind": "k", "brief": {}},
        },
    }
    headers = {"accept": "application/json", "content-type": "application/json"}
    answer = store.http().post("/mcp", content=json.dumps(message), headers=headers)
    assert answer.status_code == 200, answer.text

    told = scrape(store.http())

    assert told["tessera_tasks_enqueued_total", ()] == 1
    labels = (("method", "POST"), ("route", "/v1/tasks"), ("status", "201"))
    assert told["tessera_requests_total", labels] == 1
