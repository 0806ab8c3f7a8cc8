"""The MCP face, met as a model's host meets it: by the official SDK's client, over stdio and HTTP."""

import asyncio
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from tessera.server.tools import INSTRUCTIONS, TOOLS
from tests.server.calls import done, observations, run, write
from tests.server.mcp_host import DOOR, FINE, message
from tests.server.mcp_talk import WAYS, call, talk

Way = tuple[str, str]
LEARNING = {
    "outcome": "succeeded",
    "went_right": ["read the brief"],
    "cost": None,
    "unknowns": [{"field": "cost", "reason": "not metered"}],
}


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_a_model_works_a_verb_from_enqueue_to_record(store: Any, way: Way) -> None:
    key = store.key()
    done(write(store.http(key["secret"]), "memo", tags=["notes"]))
    brief = {"goal": "pack the logs"}
    arms = [{"arm": "zstd", "weight": 0.5}, {"arm": "xz", "weight": 0.5}]

    async def conversation() -> dict[str, dict[str, Any]]:
        said: dict[str, dict[str, Any]] = {}
        async with talk(way, store.url, key["secret"]) as client:
            assert client.instructions == INSTRUCTIONS
            listed = await client.list_tools()
            assert {tool.name for tool in listed.tools} == {tool.name for tool in TOOLS}
            said["enqueue"] = await call(client, "enqueue", queue="q", kind="k", brief=brief)
            said["claim"] = await call(client, "claim", queue="q", lease_seconds=60)
            held = {"task_id": said["claim"]["data"]["task_id"], "fence": 1}
            said["nothing"] = await call(client, "claim", queue="q", lease_seconds=60)
            said["heartbeat"] = await call(client, "heartbeat", **held, lease_seconds=120)
            said["draw"] = await call(client, "draw", **held, dimension="method", arms=arms)
            report = {"model": None, "learning": LEARNING}
            wrong = {"model": None, "learning": {**LEARNING, "outcome": "fine"}}
            said["faulty"] = await call(client, "submit", **held, ok=True, execution_report=wrong)
            said["submit"] = await call(
                client, "submit", **held, ok=True, output={"n": 1}, execution_report=report
            )
            run_id = said["submit"]["data"]["run_id"]
            said["recall"] = await call(client, "recall_execution", queue="q", kind="k", brief=brief)
            said["observations"] = await call(client, "list_execution_observations", queue="q", limit=10)
            said["execution"] = await call(client, "get_execution", run_id=run_id)
            said["records"] = await call(client, "list_records", store="s", tag="notes")
            said["record"] = await call(client, "get_record", store="s", key="memo", version=1)
        return said

    said = asyncio.run(conversation())

    statuses = {name: frame["status"] for name, frame in said.items()}
    assert statuses.pop("enqueue") == 201
    assert (statuses.pop("nothing"), said["nothing"]["data"]) == (204, None)
    assert statuses.pop("faulty") == 422
    assert said["faulty"]["data"]["errors"][0]["path"] == "execution_report.learning.outcome"
    assert set(statuses.values()) == {200}
    run_id = said["submit"]["data"]["run_id"]
    (item,) = said["observations"]["data"]["items"]
    assert item["run_id"] == run_id
    assert item["report"]["learning"] == LEARNING
    assert item["server"]["key_id"] == key["id"]
    assert item["server"]["draws"][0]["arm"] == said["draw"]["data"]["arm"]
    assert said["recall"]["data"]["matches"] == [{"run_id": run_id, "via": "exact", "distance": 0}]
    assert said["execution"]["data"]["output"] == {"n": 1}
    assert said["records"]["data"]["items"][0]["key"] == "memo"
    assert said["record"]["data"]["body"] == {"n": 1}


def test_instructions_and_tool_texts_say_what_the_learning_block_is_and_that_it_is_optional() -> None:
    submit = next(tool for tool in TOOLS if tool.name == "submit")

    for text in (INSTRUCTIONS, submit.text):
        assert "learning block" in text
        assert "optional" in text
        for never in ("credentials", "raw prompts", "transcripts", "private reasoning"):
            assert never in text
    learning = submit.schema["properties"]["execution_report"]["properties"]["learning"]
    assert set(learning["properties"]) >= {"went_right", "went_wrong", "next_steps", "ideas", "unknowns"}
    assert learning["required"] == []


@pytest.mark.parametrize("way", WAYS, ids="-".join)
def test_arguments_are_taken_as_strictly_as_a_body(store: Any, way: Way) -> None:
    async def refusals() -> list[tuple[int, Any]]:
        async with talk(way, store.url, store.admin_key) as client:
            frames = [
                await call(client, "enqueue", queue="q", kind="k", brief={}, priority=True, colour="red"),
                await call(client, "list_execution_observations", queue="q", limit="5"),
                await call(client, "list_execution_observations", queue="q", after=5),
                await call(client, "get_execution"),
                await call(client, "get_execution", run_id=7, x=1),
                await call(client, "get_record", store="s", key=""),
            ]
            with pytest.raises(MCPError, match="no such tool"):
                await client.call_tool("write_records", {})
        return [(frame["status"], [each["path"] for each in frame["data"]["errors"]]) for frame in frames]

    assert asyncio.run(refusals()) == [
        (422, ["priority", "colour"]),
        (422, ["limit"]),
        (422, ["after"]),
        (422, ["run_id"]),
        (422, ["run_id", "x"]),
        (422, ["key"]),
    ]


def test_a_store_that_cannot_be_reached_is_told_as_a_tools_error(store: Any) -> None:
    async def conversation() -> dict[str, Any]:
        async with talk(("stdio", "auto"), "http://127.0.0.1:9", store.admin_key) as client:
            return await call(client, "list_records")

    frame = asyncio.run(conversation())

    assert frame["status"] == 503
    assert "127.0.0.1:9" in frame["data"]["detail"]


# The door of POST /mcp


@pytest.mark.parametrize("value", [*DOOR, *FINE], ids=lambda value: value[:20])
def test_over_http_a_message_passes_the_same_door(store: Any, value: str) -> None:
    headers = {"accept": "application/json", "content-type": "application/json"}

    answer = store.http().post("/mcp", content=message(value).encode(), headers=headers)

    if value in FINE:
        assert answer.json()["result"]["structuredContent"]["status"] == 201
        return
    code, told = DOOR[value]
    if len(value) > 1 << 20:
        assert answer.status_code == 413
        return
    assert answer.status_code in (400, 422)
    assert (answer.json()["id"], answer.json()["error"]["code"]) == (7, code)
    assert told in answer.text


def test_mcp_takes_post_alone_and_no_page_of_another_origin(store: Any) -> None:
    http = store.http(accept="application/json")
    ping = {"jsonrpc": "2.0", "id": 1, "method": "ping"}

    assert [http.request(method, "/mcp").status_code for method in ("GET", "DELETE", "PUT")] == [405] * 3
    for origin in ("https://evil.example", "null", "http://localhost.evil.example", "http://127.0.0.1.evil"):
        answer = http.post("/mcp", json=ping, headers={"origin": origin})
        assert answer.status_code == 403
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    for origin in ("http://127.0.0.1:5173", "http://localhost"):
        answer = http.post("/mcp", json=ping, headers={"origin": origin})
        assert answer.status_code == 200
        assert not [name for name in answer.headers if name.startswith("access-control-")]
    assert http.post("/mcp", json=ping, headers={"host": "evil.example"}).status_code == 421


def test_two_callers_at_once_are_each_answered_by_their_own_key(store: Any) -> None:
    owner, other = store.key(), store.key()
    run(store.http(owner["secret"]), private=True)

    async def seen(secret: str) -> list[int]:
        async with talk(("http", "auto"), store.url, secret) as client:
            found = []
            for _ in range(20):
                frame = await call(client, "list_execution_observations", queue="q")
                found.append(len(frame["data"]["items"]))
            return found

    async def both() -> list[list[int]]:
        return await asyncio.gather(*(seen(key["secret"]) for key in (owner, other, owner, other)))

    assert asyncio.run(both()) == [[1] * 20, [0] * 20, [1] * 20, [0] * 20]
    assert len(observations(store.http(owner["secret"]))["items"]) == 1
