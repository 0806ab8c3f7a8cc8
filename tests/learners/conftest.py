"""Observations for the learners' tests, as the store would answer them."""

import copy
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from schemas import observations

Item = dict[str, Any]

_PLAIN: Item = {
    "schema": "execution-observation-v1",
    "run_id": "run-1",
    "cursor": "1",
    "brief": {
        "template": "t1",
        "phrasing": None,
        "tags": [],
        "wording": {},
        "wording_truncated": False,
        "shape": {},
        "shape_truncated": False,
        "input_type": "{}",
    },
    "input_digest": None,
    "server": {
        "origin": "live",
        "private": False,
        "task_id": "task-1",
        "kind": "verb.a",
        "queue": "q",
        "fence": 1,
        "lapsed": 0,
        "key_id": "key-1",
        "claimed_at": "2026-01-01T00:00:00.000Z",
        "submitted_at": "2026-01-01T00:00:01.500Z",
        "lease_seconds": 60,
        "result": "accepted",
        "state_after": "succeeded",
        "failure_text": None,
        "receipt_sha256": "0" * 64,
        "retry": False,
        "draws": [],
    },
    "report": None,
    "trust": {"telemetry": "worker_reported"},
    "use_policy": {"training_corpus": "excluded_by_default"},
}
_REPORT: Item = {"summaries": None, "harness": None, "model": None, "model_reported": False, "usage": None}


def make_item(number: int, *, report: Item | None = None, brief: Item | None = None, **server: Any) -> Item:
    """An observation with its own cursor, run and task; ``server`` fields as named, ``report`` merged."""
    item = copy.deepcopy(_PLAIN)
    item["cursor"], item["run_id"] = str(number), f"run-{number}"
    item["server"].update({"task_id": f"task-{number}", **server})
    item["brief"].update(brief or {})
    if report is not None:
        item["report"] = {**_REPORT, "learning": None, **report}
    return item


@pytest.fixture(scope="session")
def item() -> Callable[..., Item]:
    """``make_item``."""
    return make_item


@pytest.fixture(scope="session")
def frame() -> Callable[..., pl.DataFrame]:
    """Items as rows of the observations table."""
    return lambda *items: observations.frame(list(items))
