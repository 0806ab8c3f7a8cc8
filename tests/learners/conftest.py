"""Observations as the store serves them, with as little said as a test needs."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from schemas.observations import frame


def item(cursor: int, **said: Any) -> dict[str, Any]:
    """One `execution-observation-v1` item; `said` overrides what a test cares about.

    `ok`, `kind`, `template`, `fence`, `lapsed`, `draws`, `private`, and the report's `shim, method,
    harness, model, advice` (`model=None` declares that no model was used).
    """
    path = {name: said[name] for name in ("shim", "method") if name in said}
    learning: dict[str, Any] = {"path": path} if path else {}
    if "advice" in said:
        learning["advice"] = said["advice"]
    report = {
        "summaries": None,
        "harness": said.get("harness"),
        "model": said.get("model"),
        "model_reported": "model" in said,
        "usage": None,
        "learning": learning or None,
    }
    fence = said.get("fence", 1)
    return {
        "schema": "execution-observation-v1",
        "run_id": said.get("run_id", f"run-{cursor}"),
        "cursor": str(cursor),
        "brief": {
            "template": said.get("template"),
            "phrasing": said.get("phrasing"),
            "tags": [],
            "wording": {},
            "wording_truncated": False,
            "shape": {},
            "shape_truncated": False,
            "input_type": "{}",
        },
        "input_digest": "0" * 64,
        "server": {
            "origin": "live",
            "private": said.get("private", False),
            "task_id": f"task-{cursor}",
            "kind": said.get("kind", "verb.summarize"),
            "queue": "work",
            "fence": fence,
            "lapsed": said.get("lapsed", 0),
            "key_id": "k1",
            "claimed_at": "2026-01-01T00:00:00.000Z",
            "submitted_at": "2026-01-01T00:00:01.000Z",
            "lease_seconds": 300,
            "result": "accepted" if said.get("ok", True) else "failed",
            "state_after": "succeeded" if said.get("ok", True) else "queued",
            "failure_text": None,
            "receipt_sha256": "1" * 64,
            "retry": fence > 1,
            "draws": said.get("draws", []),
        },
        "report": report,
        "trust": {"telemetry": "worker_reported"},
        "use_policy": {"training_corpus": "excluded_by_default"},
    }


def drawn(dimension: str, arm: str, weights: dict[str, float]) -> dict[str, Any]:
    """A draw of `arm` from `weights`, as an observation carries it."""
    return {
        "dimension": dimension,
        "arm": arm,
        "propensity": weights[arm],
        "arms": [{"arm": name, "weight": weight} for name, weight in weights.items()],
        "policy": None,
    }


@pytest.fixture
def observe() -> Callable[..., pl.DataFrame]:
    """A frame of observations from one mapping each, cursors counting from `first`."""

    def build(*said: dict[str, Any], first: int = 1) -> pl.DataFrame:
        return frame([item(first + i, **one) for i, one in enumerate(said)])

    return build


@pytest.fixture
def draw() -> Callable[..., dict[str, Any]]:
    """Builds the draw of an observation."""
    return drawn
