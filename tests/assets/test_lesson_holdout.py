"""Does a lesson help? A fleet works, the server holds lessons back by its coin, and an idle lesson goes.

All of it is real but the work: the store and its draws, the advice, the pull, the assets.
"""

import random
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import polars as pl
import pytest

from assets import specs
from assets.pull import pull
from tessera.advice import lesson_texts, lessons
from tessera.client import Client
from tessera.server.serve import Running
from tests.assets.learned import Workspace, checks, made

CARD, JUDGE, NAME = (
    "path_statistics:wilson-grouping:v1",
    "evaluation:off-policy:v1",
    "lessons:review-and-learn:v1",
)
AT = ("learn.memory", f"{NAME}:q:memory")
JUDGED = f"{JUDGE}:q:lesson"
HELPFUL, IDLE = "verb.helpful", "verb.idle"
RATES = {HELPFUL: (0.4, 0.8), IDLE: (0.6, 0.6)}
"""How often work is accepted without the advised shim and with it: only in one category does it matter."""

TASKS = 700
"""Of a category: so many hold its one lesson back 140 times, 100 are needed."""

ALL_SHARE = 0.8
"""Told everything: four tasks in five, not nine in ten, so that half as many tasks are as much evidence."""


@pytest.fixture
def store(tmp_path: Path) -> Iterator[SimpleNamespace]:
    """A store that is patient with a busy machine."""
    with Running(tmp_path / "home") as running:
        running.start()
        key = (tmp_path / "home" / "admin.key").read_text("ascii").strip()
        yield SimpleNamespace(url=running.url, admin_key=key)


def history(client: Client) -> None:
    """What was seen before: in both categories the shim did better, in one only because of its inputs."""
    attempts: list[dict[str, Any]] = []
    for kind in RATES:
        for shim, accepted in (("outline", 180), (None, 60)):
            for number in range(200):
                said = {"source": "before", "task_key": f"{kind} {shim} {number}", "attempt": 1, "kind": kind}
                attempts.append({**said, "shim": shim, "accepted": number < accepted})
    for start in range(0, len(attempts), 500):
        client.import_attempts("q", attempts[start : start + 500])


def work(client: Client, seed: int) -> Iterator[str | None]:
    """A worker that follows what it is told; which lesson was held back, a task at a time."""
    chance = random.Random(seed)
    for number in range(2 * TASKS):
        kind = (HELPFUL, IDLE)[number % 2]
        client.enqueue("q", kind, {"title": f"task {number}"}, max_attempts=1)
        task = client.claim("q")
        assert task is not None
        told = lessons(task, client=client)
        follows = any('"outline"' in text for text in told.texts)
        ok = chance.random() < RATES[kind][follows]
        learning: dict[str, Any] = {"path": {"shim": "outline"}} if follows else {}
        learning |= {"advice": [told.advice]} if told.advice else {}
        client.submit(task["task_id"], task["fence"], ok, execution_report={"learning": learning})
        yield told.held_back


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_a_lesson_that_helps_stays_and_one_that_does_not_is_retired(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lesson_texts, "ALL_SHARE", ALL_SHARE)
    client = workspace.client
    specs.configure(client, CARD, "q", options={"dimensions": ["category", "shim"]})
    specs.configure(client, JUDGE, "q", options={"dimension": "lesson"})
    specs.configure(client, NAME, "q")
    history(client)
    pull(client, workspace.lake, "q")
    first = workspace.materialize("path_scorecard", "evaluation", "lessons")
    earned = {entry["text"].split('"')[1]: entry for entry in client.get_record(*AT)["body"]["entries"]}
    assert made(first, "lessons")["applied"] == 2
    assert set(earned) == {HELPFUL, IDLE}

    held = list(work(client, seed=7))
    pull(client, workspace.lake, "q")
    judging = workspace.materialize("evaluation")
    learning = workspace.materialize("path_scorecard", "lessons")

    told = made(learning, "lessons")
    bodies = {
        kind: client.get_record("learn.outputs", f"{JUDGED}:{entry['key']}")["body"]
        for kind, entry in earned.items()
    }
    for kind, body in bodies.items():
        print(kind, body["verdict"], body["rows"], body["effective_sample_size"], body["sequence"])
        print("  ", body["estimates"]["dr"])
    print(told["applied_proposals"])
    assert bodies[HELPFUL]["verdict"] == "better"
    assert bodies[IDLE]["verdict"] == "keep_baseline"
    for kind, body in bodies.items():
        assert body["rows"] == TASKS
        assert body["effective_sample_size"]["baseline"] == pytest.approx(held.count(earned[kind]["key"]))
        assert body["candidate"] == {"store": AT[0], "key": AT[1], "version": 1}
        assert body["cited"]["records"][0]["key"] == AT[1]
    gain = bodies[HELPFUL]["estimates"]["dr"]["difference"]
    assert gain["estimate"] == pytest.approx(0.4, abs=0.2)  # four standard errors of the coin
    assert bodies[HELPFUL]["sequence"]["low"] > 0 > bodies[IDLE]["sequence"]["low"]

    standing = {entry["key"] for entry in client.get_record(*AT)["body"]["entries"]}
    assert standing == {earned[HELPFUL]["key"]}
    assert "its trial by draws had its minimum evidence and found no help" in told["applied_proposals"]
    removals = workspace.lake.scan("review_outcomes").filter(pl.col("action") == "remove").collect()
    assert removals["match"].to_list() == [earned[IDLE]["text"]]
    assert all({**checks(judging), **checks(learning)}.values())

    task = client.enqueue("q", IDLE, {"title": "later"})
    claimed = client.claim("q", task_id=task["task_id"])
    assert claimed is not None
    assert lessons(claimed, client=client) == ([], None, None)
