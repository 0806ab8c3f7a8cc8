"""What each door refuses over HTTP: broken JSON, numbers out of bounds, lax types, and where it says so."""

import functools
import http.client
import json
import math
import time
import urllib.parse
from collections.abc import Callable
from typing import Any

import pytest

from tests.faults.server import Caller, Server, assert_problem

WRITE = {
    "store": "s",
    "key": "k",
    "expected_version": 0,
    "category": "noun.eval_run",
    "tags": ["t"],
    "body": {"n": 1},
    "visibility": "shared",
}
ATTEMPT = {"source": "s", "task_key": "t", "attempt": 1, "kind": "verb.test", "accepted": True}
BODIES: dict[str, dict[str, Any]] = {
    "/v1/tasks": {"queue": "q", "kind": "verb.test", "brief": {"n": 1}, "priority": 1, "max_attempts": 2},
    "/v1/tasks/claim": {"queue": "q", "lease_seconds": 30},
    "/v1/tasks/task-1-0/heartbeat": {"fence": 1, "lease_seconds": 30},
    "/v1/tasks/task-1-0/draw": {
        "fence": 1,
        "dimension": "model",
        "arms": [{"arm": "a", "weight": 0.5}, {"arm": "b", "weight": 0.5}],
    },
    "/v1/tasks/task-1-0/submit": {
        "fence": 1,
        "ok": True,
        "output": 1,
        "execution_report": {
            "usage": {"input_tokens": 1},
            "learning": {
                "duration_seconds": 1.5,
                "cost": {"amount": 1, "currency": "EUR", "source": "s"},
                "advice": [
                    {
                        "learner": "l",
                        "strategy": "s",
                        "version": 1,
                        "store": "s",
                        "key": "k",
                        "record_version": 1,
                    }
                ]
                * 3,
            },
        },
    },
    "/v1/records": {"writes": [WRITE, {**WRITE, "key": "k2"}, {**WRITE, "key": "k3"}]},
    "/v1/executions/import": {"queue": "q", "attempts": [ATTEMPT, {**ATTEMPT, "task_key": "u"}]},
    "/v1/executions/recall": {"queue": "q", "kind": "verb.test", "brief": {"n": 1}, "limit": 5},
    "/v1/keys": {"name": "n", "scopes": ["read"], "queues": ["q"]},
}


@pytest.fixture(scope="module")
def admin(server: Server) -> Any:
    with server.caller() as caller:
        served = caller.get("/openapi.json").json()["paths"]
        caller.paths = {  # type: ignore[attr-defined]
            path for path in BODIES if path.replace("task-1-0", "{task_id}") in served
        }
        yield caller


def served(admin: Any, path: str) -> Caller:
    if path not in admin.paths:
        pytest.skip(f"{path} is not served yet")
    caller: Caller = admin
    return caller


def places(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """Every value of a body with its path."""
    found = [(path, value)]
    if isinstance(value, dict):
        for name, entry in value.items():
            found += places(entry, f"{path}.{name}" if path else name)
    if isinstance(value, list):
        for number, entry in enumerate(value):
            found += places(entry, f"{path}[{number}]")
    return found


def replaced(body: Any, path: str, text: str) -> bytes:
    """The body as JSON with the value at a path replaced by some text of JSON, or near it."""
    mark = "\x00here"

    def walk(value: Any, at: str) -> Any:
        if at == path:
            return mark
        if isinstance(value, dict):
            return {name: walk(entry, f"{at}.{name}" if at else name) for name, entry in value.items()}
        if isinstance(value, list):
            return [walk(entry, f"{at}[{number}]") for number, entry in enumerate(value)]
        return value

    return json.dumps(walk(body, "")).replace(json.dumps(mark), text).encode()


def numbers(body: Any) -> list[str]:
    return [path for path, value in places(body) if isinstance(value, int | float) and value is not True]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
def test_nan_and_infinity_are_no_json_wherever_a_number_stands(admin: Any, path: str, text: str) -> None:
    caller = served(admin, path)
    for place in [*numbers(BODIES[path]), next(iter(BODIES[path]))]:
        document = assert_problem(caller.post(path, content=replaced(BODIES[path], place, text)), 400)
        assert "line 1 column" in document["errors"][0]["message"]


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("text", ["1e999", "-1e999", "9007199254740993", "1e300", "9007199254740993.0"])
def test_a_number_that_no_double_keeps_is_refused_with_its_path(admin: Any, path: str, text: str) -> None:
    caller = served(admin, path)
    for place in numbers(BODIES[path]):
        document = assert_problem(caller.post(path, content=replaced(BODIES[path], place, text)), 422)
        assert document["errors"][0]["path"] == place


def open_places() -> set[str]:
    """Paths at which any JSON value may stand."""
    return {"output", "brief", "brief.n", "writes[0].body.n", "writes[1].body.n", "writes[2].body.n"}


@pytest.mark.parametrize("path", BODIES)
@pytest.mark.parametrize("text", ['"NaN"', '"1"', "true", "null", "[]", "{}", "1.5"])
def test_a_value_of_another_type_is_refused_with_its_path(admin: Any, path: str, text: str) -> None:
    """At every place of every body, but those that take any value."""
    caller = served(admin, path)
    wrong = json.loads(text)
    for place, value in places(BODIES[path]):
        if place in open_places() or not place or _fits(place, value, wrong):
            continue
        answer = caller.post(path, content=replaced(BODIES[path], place, text))
        document = assert_problem(answer, 422)
        assert place in [error["path"] for error in document["errors"]], (place, document)


def _fits(place: str, value: Any, wrong: Any) -> bool:
    """Whether the wrong value may stand there after all."""
    if type(wrong) is type(value) and not (isinstance(value, list | dict) and place == "execution_report"):
        return True
    if isinstance(value, dict) and isinstance(wrong, dict):
        return True
    nullable = ("cost", "duration_seconds", "model", "surface")
    fractional = ("duration_seconds", "amount", "weight")
    if wrong is None and place.rpartition(".")[2] in nullable:
        return True
    return wrong == 1.5 and place.rpartition(".")[2] in fractional


@pytest.mark.parametrize("path", BODIES)
def test_an_unknown_field_is_named_as_it_is_written(admin: Any, path: str) -> None:
    caller = served(admin, path)
    for name in ("extra", "a.b/c", "é \U0001f600", "~1", ""):
        document = assert_problem(caller.post(path, {**BODIES[path], name: 1}), 422)
        assert {"path": name, "message": "is not a known field"} in document["errors"]


def test_a_fault_deep_in_the_third_item_is_found_beside_another(admin: Caller) -> None:
    path = "/v1/tasks/task-1-0/submit"
    body = json.loads(json.dumps(BODIES[path]))
    body["execution_report"]["learning"]["advice"][2]["version"] = "1"
    body["execution_report"]["learning"]["cost"]["currency"] = "eur"
    body["fence"] = True

    document = assert_problem(admin.post(path, body), 422)

    assert {error["path"]: error["message"] for error in document["errors"]} == {
        "fence": "must be an integer",
        "execution_report.learning.cost.currency": "must be three letters A-Z",
        "execution_report.learning.advice[2].version": "must be an integer",
    }


@pytest.mark.parametrize(
    ("content", "status"),
    [
        (b"", 400),
        (b"{", 400),
        (b'{"queue":"q"}}', 400),
        (b'{"a":1,"\\u0061":2}', 400),
        (b'{"a":"\\ud800"}', 400),
        (b'{"a":"\xff"}', 400),
        (b"\xef\xbb\xbf{}", 400),
        (b'{"a":1,}', 400),
        (b"{'a':1}", 400),
        (b"[1]", 422),
        (b"null", 422),
        (b'"text"', 422),
        (b'{"brief":' + b'{"a":' * 63 + b"1" + b"}" * 64, 422),
        (b"[" * 100_000, 400),
        (b'{"brief":' + b"[" * 100_000 + b"]" * 100_000 + b"}", 422),
    ],
)
def test_what_is_not_a_body_is_refused_alike_by_every_call(admin: Any, content: bytes, status: int) -> None:
    for path in sorted(admin.paths):
        assert_problem(admin.post(path, content=content), status)


def test_reads_after_all_refusals_are_well(admin: Caller) -> None:
    for path in ("/v1/records", "/v1/queues", "/v1/keys", "/v1/whoami", "/healthz"):
        assert admin.get(path).status_code == 200
    assert admin.walk("q") == []


SHORT, LONG = 3_000, 48_000
"""Lengths of which the second takes 16 times the first where time grows with length, 256 with its square."""


def long_costs_no_more_than_its_length(ask: Callable[[int], object]) -> bool:
    """Whether ``ask`` with LONG takes under 40 times as long as with SHORT, the fastest of three in turn."""
    fastest = {SHORT: math.inf, LONG: math.inf}
    for _ in range(3):
        for length in fastest:
            begun = time.perf_counter()
            ask(length)
            fastest[length] = min(fastest[length], time.perf_counter() - begun)
    return fastest[LONG] < 40 * fastest[SHORT]


QUERIES = {
    "/v1/executions": {"queue": "q", "kind": "k", "after": "0", "limit": "1", "store_id": "s"},
    "/v1/executions/pending": {"queue": "q", "kind": "k", "after": "0", "cap": "1", "store_id": "s"},
    "/v1/records": {"store": "s", "prefix": "p", "tag": "t", "category": "c", "after": "s/k", "limit": "1"},
    "/v1/queues": {"store_id": "s"},
    "/v1/keys": {"after": "k", "limit": "1"},
    "/v1/records/s/k": {"version": "1"},
    "/v1/tasks/LONG": {},
    "/v1/executions/LONG": {},
    "/v1/records/LONG/k": {},
    "/v1/records/s/LONG": {},
    "/v1/records/s/LONG/versions": {},
}


@pytest.mark.parametrize("unit", ["a", "1", ".", "%40", "a%40", "%20", "T-"])
@pytest.mark.parametrize("path", QUERIES)
def test_long_repeats_in_a_query_or_path_cost_no_more_than_their_length(
    server: Server, path: str, unit: str
) -> None:
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=30)
    headers = {"Authorization": f"Bearer {server.admin_secret}"}

    def ask(parameter: str, length: int) -> None:
        query = urllib.parse.urlencode({**QUERIES[path], parameter: "LONG"} if parameter else {})
        text = unit * (length // len(unit)) + "!"
        connection.request("GET", f"{path}?{query}".replace("LONG", text), headers=headers)
        answer = connection.getresponse()
        answer.read()
        assert 400 <= answer.status < 500

    for parameter in QUERIES[path] or [""]:
        assert long_costs_no_more_than_its_length(functools.partial(ask, parameter)), parameter
    connection.close()


@pytest.mark.parametrize("path", BODIES)
def test_long_repeats_in_any_field_cost_no_more_than_their_length(admin: Any, path: str) -> None:
    caller = served(admin, path)

    def ask(place: Any, length: int) -> None:
        text = json.dumps("a" * length + "!")
        caller.post(path, content=replaced(BODIES[path], place, text))

    for place, value in places(BODIES[path]):
        if isinstance(value, str):
            assert long_costs_no_more_than_its_length(functools.partial(ask, place)), place
