"""Learned nouns for the tests of choosing and of lessons: what a learner would have published."""

from typing import Any

from tessera.client import Client

WEIGHTS = "routing_weights:beta-bandit:v1"
EVALUATION = "evaluation:off-policy:v1"
LESSONS = "lessons:review-and-learn:v1"


def write(client: Client, store: str, key: str, body: dict[str, Any], **more: Any) -> int:
    """Write a record over its newest version, shared unless said otherwise; its version."""
    found = [one for one in client.list_records(store=store, prefix=key)["items"] if one["key"] == key]
    noun = {"category": "noun.eval_run", "tags": [], "visibility": "shared", **more}
    expected = found[0]["version"] if found else 0
    (record,) = client.write_records(
        [{"store": store, "key": key, "expected_version": expected, "body": body, **noun}]
    )["records"]
    return int(record["version"])


def configure(client: Client, *entries: dict[str, Any]) -> None:
    """The config noun, whole."""
    write(client, "learn.specs", "config", {"schema": "tessera.learner-config.v1", "entries": list(entries)})


def entry(spec: str, mode: str = "active", *, queue: str = "q", **more: Any) -> dict[str, Any]:
    """A config entry; the weights' and the evaluation's are of the dimension method."""
    options = {} if spec == LESSONS else {"dimension": "method"}
    return {"spec": spec, "mode": mode, "queue": queue, "options": options, **more}


def common(spec: str) -> dict[str, Any]:
    """The fields of a body that say whose it is."""
    learner, strategy, version = spec.split(":")
    return {"learner": learner, "strategy": strategy, "version": int(version[1:]), "options": {}}


def weights_body(scores: dict[str, float], category: str | None = "verb.a", **more: Any) -> dict[str, Any]:
    """The body of a weights noun with these scores of one category."""
    arms = [{"arm": arm, "score": score} for arm, score in scores.items()]
    return {
        "schema": "tessera.routing-weights.v1",
        **common(WEIGHTS),
        "cursor": "9",
        "dimension": "method",
        "epsilon": 0.1,
        "baseline": None,
        "categories": [{"category": category, "arms": arms, "unreported": {"accepted": 0, "failed": 0}}],
        **more,
    }


def lessons_body(*entries: dict[str, Any], **more: Any) -> dict[str, Any]:
    """The body of a lessons noun."""
    head = {"schema": "tessera.lessons.v1", **common(LESSONS), "cursor": "9", "target": "memory"}
    return {**head, "entries": list(entries), **more}


def lesson(key: str | None, text: str, *, earned: bool = True) -> dict[str, Any]:
    """An entry of a lessons noun."""
    support = [{"store": "learn.outputs", "key": "card", "version": 1}] if earned else []
    return {"key": key, "text": text, "support": support, "runs_sha256": None, "earned_at": None}


def claimed(client: Client, brief: dict[str, Any] | None = None, *, kind: str = "verb.a") -> dict[str, Any]:
    """A task that the client has claimed."""
    made = client.enqueue("q", kind, brief or {"template": "t"})
    task = client.claim("q", task_id=made["task_id"])
    assert task is not None
    return task


def drawn(client: Client, task: dict[str, Any]) -> list[dict[str, Any]]:
    """Submit a task; what its observation says was drawn."""
    client.submit(task["task_id"], task["fence"], True)
    draws: list[dict[str, Any]] = list(client.iter_observations("q"))[-1]["server"]["draws"]
    return draws
