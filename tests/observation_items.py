"""An execution observation as the store writes one, to be changed by a test."""

import copy
from typing import Any

_ITEM: dict[str, Any] = {
    "schema": "execution-observation-v1",
    "run_id": "run_1",
    "cursor": "1",
    "brief": {
        "template": "pack",
        "phrasing": None,
        "tags": ["nightly"],
        "wording": {"title": "Pack the library", "problem": "Größe ≤ 1 MiB"},
        "wording_truncated": False,
        "shape": {"title": "str", "limits": "object"},
        "shape_truncated": False,
        "input_type": '{"limits":{},"title":str}',
    },
    "input_digest": "ab" * 32,
    "server": {
        "origin": "live",
        "private": False,
        "task_id": "task_1",
        "kind": "verb.pack",
        "queue": "packing",
        "fence": 2,
        "lapsed": 1,
        "key_id": "key_1",
        "claimed_at": "2026-01-02T03:04:05.678Z",
        "submitted_at": "2026-01-02T03:04:06.000Z",
        "lease_seconds": 300,
        "result": "accepted",
        "state_after": "succeeded",
        "failure_text": None,
        "receipt_sha256": "cd" * 32,
        "retry": True,
        "draws": [
            {
                "dimension": "method",
                "arm": "zlib",
                "propensity": 0.5,
                "arms": [{"arm": "zlib", "weight": 0.5}, {"arm": "lzma", "weight": 0.5}],
                "policy": {"store": "learn.outputs", "key": "k", "version": 3},
            }
        ],
    },
    "report": {
        "summaries": {"problem": "too large", "solution": "packed"},
        "harness": "fleet",
        "model": None,
        "model_reported": True,
        "usage": {"input_tokens": 0, "output_tokens": 12, "total_tokens": 12},
        "learning": {
            "outcome": "succeeded",
            "went_right": ["fast"],
            "went_wrong": [],
            "types": {"input": "bytes", "output": "bytes"},
            "path": {"shim": "zlib", "method": "level 9"},
            "duration_seconds": 1.25,
            "cost": None,
            "unknowns": [{"field": "cost", "reason": "no price"}],
            "advice": [
                {
                    "learner": "routing_weights",
                    "strategy": "beta-bandit",
                    "version": 1,
                    "store": "learn.outputs",
                    "key": "k",
                    "record_version": 3,
                }
            ],
        },
    },
    "trust": {"telemetry": "worker_reported"},
    "use_policy": {"training_corpus": "excluded_by_default"},
}


def observation(cursor: int = 1, /, **changes: Any) -> dict[str, Any]:
    """`observation(7, server__fence=3)`: the item with cursor 7 and values replaced by path."""
    made = copy.deepcopy(_ITEM)
    made["cursor"], made["run_id"] = str(cursor), f"run_{cursor}"
    for path, value in changes.items():
        *parents, leaf = path.split("__")
        place = made
        for parent in parents:
            place = place[parent]
        place[leaf] = value
    return made
