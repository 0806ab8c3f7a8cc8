"""Memory indexes for the tests of recall: entries as a learner writes them, and how a store is given them."""

from collections.abc import Sequence
from typing import Any

from tessera import fingerprints
from tessera.advice.segments import Segment, of_body
from tessera.advice.shapes import HEAD, LEAST_FEATURES, SEGMENT
from tessera.canonical import digest

COMMON = {
    "learner": "memory",
    "strategy": "minhash-lsh",
    "version": 1,
    "spec": {"store": "learn.specs", "key": "memory:minhash-lsh:v1", "version": 1, "sha256": "0" * 64},
    "scope": {"queue": "q"},
    "options": {},
    "use_policy": {"training_corpus": "excluded_by_default"},
}


def entry(
    cursor: int, text: str = "", *, kind: str = "k", exact: str | None = None, **more: Any
) -> dict[str, Any]:
    """An entry of a run whose brief has this text."""
    features = fingerprints.features(kind, [text])
    signature = fingerprints.minhash(features) if len(features) > LEAST_FEATURES else None
    return {
        "run_id": f"run-{cursor}",
        "cursor": str(cursor),
        "kind": kind,
        "template": None,
        "exact": exact,
        "minhash": None if signature is None else fingerprints.encode_signature(signature),
        "result": "accepted",
        "retry": False,
        "task_id": f"task-{cursor}",
        "worker_outcome": None,
        "failure_reason": None,
        "problems": [],
        "server_duration_seconds": None,
        "total_tokens": None,
        "reported_duration_seconds": None,
        "cost": None,
        **more,
    }


def segment_body(entries: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The body of a segment."""
    return {"schema": SEGMENT, **COMMON, "scheme": fingerprints.SCHEME, "entries": list(entries), **more}


def segments(entries: Sequence[dict[str, Any]], size: int = 128) -> list[Segment]:
    """Entries in segments of a size."""
    bodies = [segment_body(entries[start : start + size]) for start in range(0, len(entries), size)]
    return [of_body("seg", body, digest(body)) for body in bodies]


def pin(key: str, body: dict[str, Any]) -> dict[str, Any]:
    """A head's pin of a segment."""
    held = body["entries"]
    return {
        "key": key,
        "version": 1,
        "sha256": digest(body),
        "entries": len(held),
        "first": held[0]["cursor"],
        "last": held[-1]["cursor"],
    }


def head_body(pins: Sequence[dict[str, Any]], **more: Any) -> dict[str, Any]:
    """The body of a head."""
    return {
        "schema": HEAD,
        **COMMON,
        "cursor": pins[-1]["last"] if pins else "0",
        "entries": sum(one["entries"] for one in pins),
        "segments": list(pins),
        "manifests": [],
        **more,
    }


def publish(client: Any, entries: Sequence[dict[str, Any]], size: int = 128) -> list[str]:
    """Write an index of queue `q` as it should be; the keys of its segments."""
    keys, writes, pins = [], [], []
    for number, start in enumerate(range(0, len(entries), size), 1):
        body = segment_body(entries[start : start + size])
        key = f"memory:minhash-lsh:v1:q:seg:{number:06d}"
        keys.append(key)
        pins.append(pin(key, body))
        writes.append(write(key, body))
    client.write_records([*writes, write("memory:minhash-lsh:v1:q:head", head_body(pins))])
    return keys


def write(key: str, body: dict[str, Any], expected_version: int = 0, **more: Any) -> dict[str, Any]:
    """One write of a learned noun."""
    return {
        "store": "learn.outputs",
        "key": key,
        "expected_version": expected_version,
        "category": "noun.eval_run",
        "tags": [],
        "visibility": "shared",
        "body": body,
        **more,
    }
