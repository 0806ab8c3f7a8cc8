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


def attempt(number: int, **said: Any) -> Item:
    """An attempt with as little said as a test of choices needs.

    `ok`, `kind`, `template`, `phrasing`, `fence`, `lapsed`, `draws`, `private`, and the report's `shim`,
    `method`, `harness`, `model` and `advice` (`model=None` declares that no model was used).
    """
    path = {name: said[name] for name in ("shim", "method") if name in said}
    learning = {"path": path} if path else {}
    learning |= {"advice": said["advice"]} if "advice" in said else {}
    ok, fence = said.get("ok", True), said.get("fence", 1)
    return make_item(
        number,
        report={
            "harness": said.get("harness"),
            "model": said.get("model"),
            "model_reported": "model" in said,
            "learning": learning or None,
        },
        brief={"template": said.get("template"), "phrasing": said.get("phrasing")},
        kind=said.get("kind", "verb.summarize"),
        private=said.get("private", False),
        fence=fence,
        lapsed=said.get("lapsed", 0),
        retry=fence > 1,
        draws=said.get("draws", []),
        result="accepted" if ok else "failed",
        state_after="succeeded" if ok else "queued",
    )


@pytest.fixture(scope="session")
def observe() -> Callable[..., pl.DataFrame]:
    """Attempts as rows of the observations table, cursors counting from `first`."""

    def build(*said: Item, first: int = 1) -> pl.DataFrame:
        return observations.frame([attempt(first + i, **one) for i, one in enumerate(said)])

    return build


@pytest.fixture(scope="session")
def draw() -> Callable[..., Item]:
    """A draw of `arm` from `weights`, as an observation carries it."""

    def build(dimension: str, arm: str, weights: dict[str, float]) -> Item:
        return {
            "dimension": dimension,
            "arm": arm,
            "propensity": weights[arm],
            "arms": [{"arm": name, "weight": weight} for name, weight in weights.items()],
            "policy": None,
        }

    return build
