"""Draws over HTTP: thrown once, standing until a submit, shown in the observation, thrown again to verify."""

import json
import os
import subprocess
import sys
from typing import Any

import httpx
import pytest
from sqlalchemy import text

from tessera import calls
from tessera.cli import draws
from tessera.client import Client
from tessera.store import coin
from tessera.store.statements import Statement
from tests.server.calls import claimed, done, enqueue, observations, submit

ARMS = [{"arm": "a", "weight": 0.25}, {"arm": "b", "weight": 0.75}]
POLICY = {"store": "learn.outputs", "key": "routing_weights:beta-bandit:v1:q:model", "version": 3}


def draw(http: httpx.Client, task: dict[str, Any], dimension: str = "model", **more: Any) -> httpx.Response:
    body = {"fence": task["fence"], "dimension": dimension, "arms": ARMS, **more}
    return http.post(f"/v1/tasks/{task['task_id']}/draw", json=body)


@pytest.fixture
def http(store: Any) -> httpx.Client:
    client: httpx.Client = store.http()
    return client


@pytest.fixture
def task(http: httpx.Client) -> dict[str, Any]:
    enqueue(http)
    return claimed(http)


def test_the_arm_is_the_one_that_the_stores_secret_gives(
    store: Any, http: httpx.Client, task: dict[str, Any]
) -> None:
    drawn = done(draw(http, task))

    number = coin.uniform(store.running.store.draw_secret, task["task_id"], 0, "model")
    expected = ARMS[0] if number < 0.25 else ARMS[1]
    assert drawn == {"arm": expected["arm"], "propensity": expected["weight"]}


def test_the_same_body_gets_the_same_answer_and_another_under_the_same_fence_a_conflict(
    http: httpx.Client, task: dict[str, Any]
) -> None:
    first = done(draw(http, task, policy=POLICY))

    assert done(draw(http, task, policy=POLICY)) == first
    assert done(draw(http, task, policy={**POLICY, "version": 3.0})) == first
    assert draw(http, task).status_code == 409
    assert draw(http, task, policy={**POLICY, "version": 4}).status_code == 409
    assert draw(http, task, policy=POLICY, arms=ARMS[::-1]).status_code == 409
    assert draw(http, task, arms=[{"arm": "a", "weight": 1}]).status_code == 409


def test_a_fence_after_a_lapsed_lease_gets_the_recorded_answer_whatever_it_sends(
    store: Any, http: httpx.Client, task: dict[str, Any]
) -> None:
    first = done(draw(http, task, policy=POLICY))
    store.clock.move(61)
    again = claimed(http)

    assert done(draw(http, again, arms=[{"arm": "c", "weight": 1}])) == first
    assert draw(http, task).status_code == 409  # the old fence has moved
    done(submit(http, again))
    (item,) = observations(http)["items"]
    assert item["server"]["draws"] == [{"dimension": "model", **first, "arms": ARMS, "policy": POLICY}]


def test_a_submit_ends_the_draw_and_the_next_attempt_throws_anew(
    store: Any, http: httpx.Client, task: dict[str, Any]
) -> None:
    done(draw(http, task))
    done(submit(http, task, ok=False))
    again = claimed(http)

    drawn = done(draw(http, again, arms=ARMS[::-1]))
    done(submit(http, again))

    number = coin.uniform(store.running.store.draw_secret, task["task_id"], 1, "model")
    assert drawn["arm"] == ("b" if number < 0.75 else "a")
    first, second = (item["server"]["draws"] for item in observations(http)["items"])
    assert first[0]["arms"] == ARMS
    assert second[0]["arms"] == ARMS[::-1]


def test_dimensions_are_drawn_apart_and_shown_by_name(http: httpx.Client, task: dict[str, Any]) -> None:
    for dimension in ("shim", "method", "harness", "model", "lesson"):
        done(draw(http, task, dimension))
    done(submit(http, task))

    (item,) = observations(http)["items"]
    assert [one["dimension"] for one in item["server"]["draws"]] == [
        "harness",
        "lesson",
        "method",
        "model",
        "shim",
    ]


def test_the_store_never_draws_unasked(http: httpx.Client, task: dict[str, Any]) -> None:
    done(submit(http, task))

    assert observations(http)["items"][0]["server"]["draws"] == []


def test_a_draw_after_the_submit_is_refused(http: httpx.Client, task: dict[str, Any]) -> None:
    done(submit(http, task))

    assert draw(http, task).status_code == 409


@pytest.mark.parametrize(
    ("more", "faults"),
    [
        ({"dimension": "colour"}, [("dimension", "must be one of shim, method, harness, model, lesson")]),
        ({"arms": []}, [("arms", "must have at least 1 item")]),
        (
            {"arms": [{"arm": str(n), "weight": 0} for n in range(65)]},
            [("arms", "must have at most 64 items")],
        ),
        (
            {"arms": [{"arm": " ", "weight": 0.5}, {"arm": "ä" * 65, "weight": 0.5}]},
            [("arms[0].arm", "must not be blank"), ("arms[1].arm", "must be at most 128 UTF-8 bytes")],
        ),
        (
            {"arms": [{"arm": "a", "weight": -0.5}, {"arm": "b", "weight": True}, {"arm": "c"}]},
            [
                ("arms[0].weight", "must be at least 0"),
                ("arms[1].weight", "must be a number"),
                ("arms[2].weight", "is required"),
            ],
        ),
        (
            {"arms": [{"arm": "a", "weight": 0.5}, {"arm": "a", "weight": 0.5}]},
            [("arms[1].arm", "must not stand twice")],
        ),
        ({"arms": [{"arm": "a", "weight": 0.9}]}, [("arms", "must have weights that sum to 1 within 1e-9")]),
        (
            {"arms": [{"arm": "a", "weight": 1 + 2e-9}]},
            [("arms", "must have weights that sum to 1 within 1e-9")],
        ),
        ({"policy": {"store": "s", "key": "k"}}, [("policy.version", "is required")]),
        ({"policy": None}, [("policy", "must be an object")]),
    ],
)
def test_each_fault_of_a_draw_is_named_with_its_path_and_nothing_is_thrown(
    http: httpx.Client, task: dict[str, Any], more: dict[str, Any], faults: list[tuple[str, str]]
) -> None:
    answer = draw(http, task, **more)

    assert answer.status_code == 422
    assert [(fault["path"], fault["message"]) for fault in answer.json()["errors"]] == faults
    assert done(http.get("/v1/draws"))["items"] == []


@pytest.mark.parametrize("weights", [[1 + 5e-10], [0.1] * 10, [0.5, 0.5, 0], [1]])
def test_weights_that_sum_to_1_within_a_billionth_are_taken(
    http: httpx.Client, task: dict[str, Any], weights: list[float]
) -> None:
    arms = [{"arm": str(n), "weight": weight} for n, weight in enumerate(weights)]

    assert done(draw(http, task, arms=arms))["propensity"] in weights


def test_the_coin_falls_as_the_weights_say(http: httpx.Client) -> None:
    for _ in range(200):
        enqueue(http)
    drawn = [done(draw(http, claimed(http)))["arm"] for _ in range(200)]

    assert 28 <= drawn.count("a") <= 74  # 50 expected, four standard deviations of 6


def test_the_list_of_draws_pages_and_throws_each_again(http: httpx.Client) -> None:
    for _ in range(3):
        enqueue(http)
        task = claimed(http)
        for dimension in ("model", "shim"):
            done(draw(http, task, dimension))

    page = done(http.get("/v1/draws", params={"limit": 4}))
    items = page["items"]
    while page["has_more"]:
        page = done(http.get("/v1/draws", params={"limit": 4, "after": page["next_after"]}))
        items += page["items"]

    assert len({(item["task_id"], item["dimension"]) for item in items}) == len(items) == 6
    assert all(item["agrees"] for item in items)


def verify(store: Any, *arguments: str) -> subprocess.CompletedProcess[str]:
    own = {"TESSERA_URL": store.url, "TESSERA_HOME": str(store.home), "TESSERA_KEY": ""}
    command = [sys.executable, "-m", "tessera.cli", "draws", "verify", *arguments]
    return subprocess.run(command, env={**os.environ, **own}, capture_output=True, text=True, timeout=120)


def test_verify_passes_what_was_thrown_and_names_what_was_changed(
    store: Any, http: httpx.Client, task: dict[str, Any]
) -> None:
    drawn = done(draw(http, task))
    done(submit(http, task))
    good = verify(store, "--json")
    assert (good.returncode, json.loads(good.stdout)) == (0, {"checked": 1, "shown": 1, "mismatches": []})

    other = "b" if drawn["arm"] == "a" else "a"
    with store.running.store.database.write() as session:
        session.change(Statement(text("UPDATE draws SET arm = :arm")), arm=other)
    bad = verify(store, "--json")

    assert bad.returncode == 1
    found = json.loads(bad.stdout)["mismatches"]
    assert [row["where"].split(" ")[0] for row in found] == ["recorded", "run"]
    assert {row["task_id"] for row in found} == {task["task_id"]}
    assert "must be" in verify(store).stdout


def test_verify_passes_what_is_drawn_and_submitted_while_it_looks(
    store: Any,
    http: httpx.Client,
    task: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def work(one: dict[str, Any]) -> None:
        done(draw(http, one))
        done(submit(http, one))

    def busy_queues(client: Client) -> Any:
        enqueue(http)
        work(claimed(http))
        return client.perform(calls.queues())

    work(task)
    monkeypatch.setenv("TESSERA_URL", store.url)
    monkeypatch.setenv("TESSERA_KEY", store.admin_key)
    monkeypatch.setattr(Client, "queues", busy_queues)

    draws.verify(as_json=True)

    assert json.loads(capsys.readouterr().out) == {"checked": 2, "shown": 2, "mismatches": []}


def test_the_client_draws(store: Any, task: dict[str, Any]) -> None:
    client: Client = store.client()

    drawn = client.draw(task["task_id"], task["fence"], "model", ARMS, POLICY)

    assert drawn["arm"] in ("a", "b")
    assert client.list_draws()["items"][0]["policy"] == POLICY
