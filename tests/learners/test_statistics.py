"""Outcome statistics by column, against their scalar definition."""

import json
import random
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from learners.statistics import exact_median, failure_reasons, grouped, measured, runs_sha256
from schemas import observations
from tessera import statistics as scalar
from tessera.canonical import scalar_text

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "failure_reason.json"


@pytest.mark.skipif(not VECTORS.exists(), reason="the shared vectors are not beside this checkout")
def test_failure_reasons_are_normalized_as_published_in_both_forms() -> None:
    cases = json.loads(VECTORS.read_text())
    texts = [case["text"] if case["text"] is None else scalar_text(case["text"]) for case in cases]

    column = pl.DataFrame({"text": texts}).select(failure_reasons(pl.col("text"))).to_series().to_list()

    assert column == [case["reason"] for case in cases]
    assert [scalar.failure_reason(case["text"]) for case in cases] == column


@given(st.text(st.characters(exclude_categories=["Cs"]), max_size=400))
def test_a_reason_is_the_same_in_both_forms_and_stays_itself(text: str) -> None:
    reason = scalar.failure_reason(text)
    column = pl.DataFrame({"text": [text]}).select(failure_reasons(pl.col("text"))).item()

    assert column == reason
    assert reason is not None
    assert len(reason) <= 160


@given(st.lists(st.floats(0, 1e9), max_size=9))
def test_a_median_is_the_mean_of_the_middle_two_exactly(values: list[float]) -> None:
    found = pl.DataFrame({"x": values}, schema={"x": pl.Float64})
    assert found.select(exact_median("x")).item() == scalar.median(values)


def _entry(item: dict[str, Any]) -> dict[str, Any]:
    """The memory index's entry of an observation, as far as statistics read it."""
    server, report = item["server"], item["report"] or {}
    learning = report.get("learning") or {}
    seconds = None if server["submitted_at"] is None else float(server["submitted_at"][17:23])
    return {
        "result": server["result"],
        "retry": server["retry"],
        "task_id": server["task_id"],
        "worker_outcome": learning.get("outcome"),
        "failure_reason": scalar.failure_reason(server["failure_text"]),
        "problems": [scalar.failure_reason(text) for text in learning.get("went_wrong") or []],
        "server_duration_seconds": seconds,
        "total_tokens": scalar.total_tokens(report.get("usage")),
        "reported_duration_seconds": learning.get("duration_seconds"),
        "cost": learning.get("cost"),
    }


def _varied(item: Callable[..., Any], seed: int, count: int) -> list[dict[str, Any]]:
    chance = random.Random(seed)
    texts = ["Timeout after 30s", "timeout after 9s", "\U0001f600 gone", "\ufb01 gone", "", "x" * 300]
    items = []
    for number in range(1, count + 1):
        failed = chance.random() < 0.4
        learning = {
            "outcome": chance.choice(["succeeded", "failed", "blocked", None]),
            "went_wrong": chance.sample(texts[:4], chance.randrange(3)),
            "duration_seconds": chance.choice([None, chance.random() * 100]),
            "cost": chance.choice(
                [None, {"amount": chance.random(), "currency": chance.choice(["USD", "EUR"]), "source": "s"}]
            ),
        }
        usage = {"input_tokens": chance.randrange(10**12), "output_tokens": chance.choice([None, 5])}
        report = {"learning": learning, "usage": chance.choice([None, usage, {"total_tokens": 7}])}
        items.append(
            item(
                number,
                report=chance.choice([None, report, report]),
                result="failed" if failed else "accepted",
                failure_text=chance.choice(texts) if failed else None,
                task_id=f"task-{chance.randrange(1 + count // 2)}",
                retry=chance.random() < 0.2,
                kind=chance.choice(["verb.a", "verb.b"]),
                submitted_at=chance.choice([None, f"2026-01-01T00:00:{chance.randrange(60):02}.123Z"]),
            )
        )
    return items


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.integers(1, 60))
def test_columns_give_the_figures_of_the_scalar_definition(
    item: Callable[..., Any], seed: int, count: int
) -> None:
    observed = _varied(item, seed, count)
    frame = observations.frame(observed)
    by_kind: dict[str, list[dict[str, Any]]] = defaultdict(list)
    for one in observed:
        by_kind[one["server"]["kind"]].append(_entry(one))

    rows = grouped(measured(frame), ["kind"])
    overall = grouped(measured(frame), [])

    assert {row.pop("kind"): row for row in rows} == {
        kind: scalar.summary(entries) for kind, entries in by_kind.items()
    }
    assert overall == [scalar.summary([_entry(one) for one in observed])]


def test_equal_counts_are_ordered_by_utf16_code_units(
    item: Callable[..., Any], frame: Callable[..., pl.DataFrame]
) -> None:
    astral, high = "\U0001f600", "\ufb01"
    items = [
        item(number, result="failed", failure_text=text) for number, text in enumerate((high, astral), 1)
    ]

    (row,) = grouped(measured(frame(*items)), [])

    assert [reason["text"] for reason in row["failure_reasons"]] == [astral, high]


def test_token_counts_do_not_wrap(item: Callable[..., Any], frame: Callable[..., pl.DataFrame]) -> None:
    usage = {"input_tokens": 2_000_000_000, "output_tokens": 4_000_000_000, "total_tokens": None}

    (row,) = grouped(measured(frame(item(1, report={"usage": usage}))), [])

    assert row["median_total_tokens"] == 6_000_000_000


def test_a_nan_counts_as_unknown(item: Callable[..., Any], frame: Callable[..., pl.DataFrame]) -> None:
    rows = frame(*(item(number, report={"learning": {"duration_seconds": 4}}) for number in (1, 2)))
    spoiled = rows.with_columns(pl.Series("reported_duration_seconds", [4.0, float("nan")]))

    (row,) = grouped(measured(spoiled), [])

    assert row["median_reported_duration_seconds"] == 4.0


def test_runs_are_hashed_in_capture_order(
    item: Callable[..., Any], frame: Callable[..., pl.DataFrame]
) -> None:
    rows = frame(*(item(number) for number in range(1, 4)))

    # printf 'run-1\nrun-2\nrun-3' | sha256sum
    wanted = "e988b728e048a1d661626dea622a3432b89e683134f8237f69ef38e06c735c32"
    assert runs_sha256(rows) == runs_sha256(rows.reverse()) == wanted
