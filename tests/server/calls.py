"""Short forms of the calls that the tests make again and again; each asserts that it went well."""

from typing import Any

import httpx

Json = dict[str, Any]


def done(answer: httpx.Response, status: int | None = None) -> Json:
    """The answer's body, once it is a success."""
    assert answer.is_success, answer.text
    assert status is None or answer.status_code == status, answer.text
    body: Json = answer.json()
    return body


def enqueue(http: httpx.Client, queue: str = "q", kind: str = "k", **more: Any) -> Json:
    """A new task."""
    body = {"queue": queue, "kind": kind, "brief": {"goal": "go"}, **more}
    return done(http.post("/v1/tasks", json=body))


def claim(http: httpx.Client, queue: str = "q", lease_seconds: int = 60, **more: Any) -> Json | None:
    """The next task, None when there is none."""
    answer = http.post("/v1/tasks/claim", json={"queue": queue, "lease_seconds": lease_seconds, **more})
    return None if answer.status_code == 204 else done(answer, 200)


def claimed(http: httpx.Client, queue: str = "q", **more: Any) -> Json:
    """The next task, which must be there."""
    task = claim(http, queue, **more)
    assert task is not None
    return task


def submit(http: httpx.Client, task: Json, ok: bool = True, **more: Any) -> httpx.Response:
    """A submit under the task's fence."""
    body = {"fence": task["fence"], "ok": ok, **more}
    return http.post(f"/v1/tasks/{task['task_id']}/submit", json=body)


def run(http: httpx.Client, queue: str = "q", kind: str = "k", ok: bool = True, **more: Any) -> Json:
    """One task, enqueued, claimed and submitted; the receipt."""
    task = enqueue(http, queue, kind, **more)
    return done(submit(http, claimed(http, queue, task_id=task["task_id"]), ok))


def write(http: httpx.Client, key: str = "r", version: int = 0, **more: Any) -> httpx.Response:
    """One record, ``shared`` unless told otherwise."""
    one = {
        "store": "s",
        "key": key,
        "expected_version": version,
        "category": "noun.eval_run",
        "tags": [],
        "body": {"n": version + 1},
        "visibility": "shared",
        **more,
    }
    return http.post("/v1/records", json={"writes": [one]})


def state(http: httpx.Client, task: Json) -> str:
    """The state of a task as it is now."""
    return str(done(http.get(f"/v1/tasks/{task['task_id']}"))["state"])


def observations(http: httpx.Client, queue: str = "q", **query: Any) -> Json:
    """One page of observations."""
    return done(http.get("/v1/executions", params={"queue": queue, **query}))
