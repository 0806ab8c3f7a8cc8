"""Permission, whole: every route and every MCP tool, asked by every kind of key.

A row says for each key the status, and where something is listed how much of what is the owner's it shows. A
route or tool without a row fails the suite, and so does a row for what is not there.
"""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote

import httpx
import pytest

from tessera.server.serve import Running
from tessera.server.tools import TOOLS
from tests.conftest import MovedClock, StoreServer
from tests.server.world import ARMS, BRIEF, KEYS, PIN, Asked, World

Prepare = Callable[[World], Asked]
COLUMNS = list(KEYS)


@dataclass(frozen=True)
class Row:
    """What each key gets: a status for each column, after a colon how much of the owner's is seen."""

    prepare: Prepare
    cells: str
    seen: Callable[[Any], int] | None = None

    def due(self, key: str) -> tuple[int, int | None]:
        status, _, seen = self.cells.split()[COLUMNS.index(key)].partition(":")
        return int(status), int(seen) if seen else None


def _asked(body: dict[str, Any] | None = None, **query: str) -> Prepare:
    return lambda _: Asked(query=query, body=body)


def _on_held(body: dict[str, Any]) -> Prepare:
    return lambda world: Asked({"task_id": world.held()}, body=body)


def _attempts(world: World) -> Asked:
    attempt = {"source": "a", "task_key": world.name(), "attempt": 1, "kind": "k", "accepted": True}
    return Asked(body={"queue": "q", "attempts": [attempt]})


def _overwriting(world: World) -> Asked:
    key = world.name()
    world.record(key)
    return Asked(body={"writes": [world.write(key, expected_version=1)]})


def _surfacing(world: World) -> Asked:
    surface = {"visibility": "surface_only", "surface": {"queue": "q", "kind": "k"}}
    return Asked(body={"writes": [world.write(world.name(), **surface)]})


def _of_record(key: str) -> Prepare:
    return lambda _: Asked({"store": "s", "key": key})


# Columns: no key, unknown, revoked, expired · read, work, write, admin scope · other queue, kind, store ·
# owner, non-owner, admin, admin elsewhere.
NEVER = "401 401 401 401"
HOLDER = f"{NEVER}  403 404 403 403  404 404 404  200 404 404 404"
OWN = f"{NEVER}  404 403 403 403  404 404 404  200 404 200 404"
LISTED = f"{NEVER}  200:0 403 403 403  403 403 200:0  200:1 200:0 200:1 403"
PRIVATE_RECORD = f"{NEVER}  404 403 403 403  404 404 403  200 404 200 200"
BY_ADMIN = f"{NEVER}  403 403 403 200  403 403 403  403 403 200 200"
ANYONE = "200 200 200 200  200 200 200 200  200 200 200  200 200 200 200"
ANY_KEY = f"{NEVER}  200 200 200 200  200 200 200  200 200 200 200"

ROWS: dict[str, list[Row]] = {
    "POST /v1/tasks": [
        Row(
            _asked({"queue": "q", "kind": "k", "brief": BRIEF, "pins": [PIN]}),
            f"{NEVER}  403 403 404 403  403 403 403  201 201 201 403",
        )
    ],
    "POST /v1/tasks/claim": [
        Row(
            lambda world: Asked(body={"queue": "q", "task_id": world.task(), "lease_seconds": 60}),
            f"{NEVER}  403 204 403 403  403 204 204  200 204 200 403",
        )
    ],
    "POST /v1/tasks/{task_id}/heartbeat": [Row(_on_held({"fence": 1, "lease_seconds": 60}), HOLDER)],
    "POST /v1/tasks/{task_id}/draw": [
        Row(_on_held({"fence": 1, "dimension": "model", "arms": ARMS}), HOLDER)
    ],
    "POST /v1/tasks/{task_id}/submit": [Row(_on_held({"fence": 1, "ok": True}), HOLDER)],
    "GET /v1/tasks/{task_id}": [Row(lambda world: Asked({"task_id": world.task()}), OWN)],
    "POST /v1/tasks/{task_id}/cancel": [
        Row(
            lambda world: Asked({"task_id": world.task()}, body={}),
            f"{NEVER}  403 403 404 403  404 404 404  200 404 200 404",
        )
    ],
    "GET /v1/executions": [Row(_asked(queue="lists", kind="k"), LISTED, lambda got: len(got["items"]))],
    "GET /v1/executions/pending": [Row(_asked(queue="lists", kind="k"), LISTED, lambda got: got["count"])],
    "POST /v1/executions/recall": [
        Row(_asked({"queue": "lists", "kind": "k", "brief": BRIEF}), LISTED, lambda got: len(got["matches"]))
    ],
    "GET /v1/executions/{run_id}": [Row(lambda world: Asked({"run_id": world.run_id}), OWN)],
    "POST /v1/executions/import": [Row(_attempts, f"{NEVER}  403 403 403 200  403 403 403  403 403 200 403")],
    "GET /v1/draws": [
        Row(
            _asked(),
            f"{NEVER}  403 403 403 200:1  403 403 403  403 403 200:1 200:0",
            lambda got: min(1, len(got["items"])),
        )
    ],
    "GET /v1/queues": [
        Row(
            _asked(),
            f"{NEVER}  200:0 403 403 403  200:0 200:0 200:0  200:1 200:0 200:1 200:0",
            lambda got: got["queues"].count("lists"),
        )
    ],
    "POST /v1/records": [
        Row(_surfacing, f"{NEVER}  403 403 201 403  403 403 403  201 201 201 403"),
        Row(_overwriting, f"{NEVER}  403 403 409 403  409 409 403  201 409 201 201"),
    ],
    "GET /v1/records": [
        Row(
            _asked(store="s", prefix="mine"),
            f"{NEVER}  200:0 403 403 403  200:0 200:0 403  200:1 200:0 200:1 200:1",
            lambda got: len(got["items"]),
        )
    ],
    "GET /v1/records/{store}/{key}": [
        Row(_of_record("mine"), PRIVATE_RECORD),
        Row(_of_record("surface"), f"{NEVER}  200 403 403 403  404 404 403  200 200 200 200"),
        Row(_of_record("shared"), f"{NEVER}  200 403 403 403  200 200 403  200 200 200 200"),
    ],
    "GET /v1/records/{store}/{key}/versions": [Row(_of_record("mine"), PRIVATE_RECORD)],
    "POST /v1/keys": [
        Row(
            _asked({"name": "made", "scopes": ["read"], "queues": ["q"]}),
            f"{NEVER}  403 403 403 201  403 403 403  403 403 201 403",
        )
    ],
    "GET /v1/keys": [Row(_asked(), BY_ADMIN)],
    "DELETE /v1/keys/{key_id}": [Row(lambda world: Asked({"key_id": world.spare_key()}), BY_ADMIN)],
    "GET /v1/whoami": [Row(_asked(), ANY_KEY)],
    "GET /metrics": [Row(_asked(), BY_ADMIN)],
    "GET /healthz": [Row(_asked(), ANYONE)],
    "GET /openapi.json": [Row(_asked(), ANYONE)],
    "POST /mcp": [Row(_asked({"jsonrpc": "2.0", "id": 1, "method": "ping"}), ANY_KEY)],
}
TOOL_ROUTES = {
    "list_execution_observations": "GET /v1/executions",
    "get_execution": "GET /v1/executions/{run_id}",
    "recall_execution": "POST /v1/executions/recall",
    "enqueue": "POST /v1/tasks",
    "claim": "POST /v1/tasks/claim",
    "heartbeat": "POST /v1/tasks/{task_id}/heartbeat",
    "draw": "POST /v1/tasks/{task_id}/draw",
    "submit": "POST /v1/tasks/{task_id}/submit",
    "get_record": "GET /v1/records/{store}/{key}",
    "list_records": "GET /v1/records",
}
MCP = {"accept": "application/json, text/event-stream", "mcp-protocol-version": "2025-11-25"}


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    home = tmp_path_factory.mktemp("matrix") / "home"
    with Running(home) as running:
        running.start()
        server = StoreServer(running, home, MovedClock())
        made = World(server)
        yield made
        made.close()
        server.close()


def _send(world: World, route: str, key: str, asked: Asked) -> httpx.Response:
    method, template = route.split(" ")
    path = template.format(**{name: quote(value) for name, value in asked.path.items()})
    headers = world.headers[key] | (MCP if path == "/mcp" else {})
    return world.http.request(method, path, params=asked.query, json=asked.body, headers=headers)


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize(
    ("route", "row"),
    [(route, row) for route, rows in ROWS.items() for row in rows],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_route_answers_each_kind_of_key_as_the_matrix_says(
    world: World, route: str, row: Row, key: str
) -> None:
    status, seen = row.due(key)

    answer = _send(world, route, key, row.prepare(world))

    assert answer.status_code == status, answer.text
    if seen is not None and row.seen is not None:
        assert row.seen(answer.json()) == seen


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("tool", TOOL_ROUTES)
def test_a_tool_answers_each_kind_of_key_as_its_route_does(world: World, tool: str, key: str) -> None:
    for row in ROWS[TOOL_ROUTES[tool]]:
        status, seen = row.due(key)
        asked = row.prepare(world)
        params = {"name": tool, "arguments": {**asked.path, **asked.query, **(asked.body or {})}}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}

        answer = world.http.post("/mcp", json=message, headers=world.headers[key] | MCP)

        if status == 401:
            assert answer.status_code == 401
            continue
        assert answer.status_code == 200, answer.text
        result = answer.json()["result"]
        assert result["structuredContent"]["status"] == status, answer.text
        assert result["isError"] is (status >= 400)
        if seen is not None and row.seen is not None:
            assert row.seen(result["structuredContent"]["data"]) == seen


def test_no_route_and_no_tool_is_missing_from_the_matrix(world: World) -> None:
    paths = world.http.get("/openapi.json").json()["paths"]

    assert set(ROWS) == {f"{method.upper()} {path}" for path, found in paths.items() for method in found}
    assert set(TOOL_ROUTES.items()) == {(tool.name, f"{tool.call.method} {tool.call.path}") for tool in TOOLS}
    assert all(len(row.cells.split()) == len(COLUMNS) for rows in ROWS.values() for row in rows)


def test_what_a_key_may_not_see_looks_over_mcp_as_if_it_did_not_exist(world: World) -> None:
    def answered(tool: str, **arguments: Any) -> bytes:
        params = {"name": tool, "arguments": arguments}
        message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        return world.http.post("/mcp", json=message, headers=world.headers["non-owner"] | MCP).content

    held = world.held()
    for hidden, absent in (
        (answered("get_execution", run_id=world.run_id), answered("get_execution", run_id="run-9-x")),
        (
            answered("get_record", store="s", key="mine"),
            answered("get_record", store="s", key="absent"),
        ),
        (
            answered("heartbeat", task_id=held, fence=1, lease_seconds=5),
            answered("heartbeat", task_id="task-99-x", fence=1, lease_seconds=5),
        ),
    ):
        assert hidden == absent
