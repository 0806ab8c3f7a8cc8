"""The measures of how good recall is, on runs whose answer is known."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from learners import memory_quality
from learners.memory_quality import bands, estimates, foretelling, runs_of

Items = Callable[..., dict[str, Any]]
Frame = Callable[..., pl.DataFrame]
TEXTS = [
    "pack library tight zlib lzma",
    "measure river depth daily gauge",
    "translate poem german metre rhyme",
    "index photographs camera lens date",
]


@pytest.fixture
def rows(item: Items, frame: Frame) -> pl.DataFrame:
    """Ten runs of each text; those of the first two are accepted, the others failed."""
    made = []
    for number in range(40):
        text, ok = TEXTS[number % 4], number % 4 < 2
        brief = {"template": None, "wording": {"problem": text}}
        made.append(item(number + 1, brief=brief, result="accepted" if ok else "failed"))
    return frame(*made, item(99, brief={"wording": {"title": "too short"}}))


def test_recalled_runs_that_know_the_answer_score_0_and_the_category_does_not(rows: pl.DataFrame) -> None:
    alone, family = foretelling(runs_of(rows))

    assert (alone["method"], alone["left_out"]) == ("memory", "the run itself")
    assert (alone["queries"], alone["hits"], alone["hit_rate"]) == (40, 40, 1.0)
    assert alone["brier"] == 0
    assert alone["brier_category"] == pytest.approx((20 / 39) ** 2)
    assert alone["gain"] == pytest.approx((20 / 39) ** 2)
    assert alone["gain_low"] == pytest.approx(alone["gain_high"]) == pytest.approx(alone["gain"])
    assert (family["left_out"], family["hits"], family["brier"], family["gain"]) == (
        "the family",
        0,
        None,
        None,
    )


def test_the_stores_matches_are_scored_on_the_same_runs(rows: pl.DataFrame) -> None:
    wrong = {f"run-{number + 1}": [f"run-{(number + 2) % 40 + 1}", "run-unknown"] for number in range(40)}

    found = {(row["method"], row["left_out"]): row for row in foretelling(runs_of(rows), wrong)}

    assert found["store, all", "the run itself"]["brier"] == 1
    assert found["store, best ten", "the run itself"]["gain"] < 0
    assert found["store, all", "the family"]["hits"] == 40


def test_a_template_makes_a_family(item: Items, frame: Frame) -> None:
    texts = ["pack library tight zlib lzma", "pack library tight zlib wide", "pack library tight zlib tall"]
    templates = ["t1", "t1", None]
    rows = frame(
        *(
            item(number, brief={"template": template, "wording": {"problem": text}})
            for number, (text, template) in enumerate(zip(texts, templates, strict=True), 1)
        )
    )
    runs = runs_of(rows)
    equal = runs.equal(0)

    near = [bool(count >= memory_quality.NEAR_DUPLICATE * 32) for count in equal]

    assert runs.family(0, equal).tolist() == [True, True, near[2]]


def test_bands_are_judged_against_the_exact_scan(rows: pl.DataFrame) -> None:
    every, one = bands(runs_of(rows), one_of_a_text=False), bands(runs_of(rows), one_of_a_text=True)

    assert (every["queries"], every["recall_at_10"], every["precision"]) == (40, 1.0, 1.0)
    assert (one["queries"], one["with_a_match"], one["recall_at_10"]) == (4, 0, None)


def test_the_estimate_is_held_against_exact_overlap(rows: pl.DataFrame) -> None:
    found = estimates(runs_of(rows))

    assert {row["category"] for row in found} == {"as recorded", "one for all"}
    assert sum(row["pairs"] for row in found) == 2 * (6 + 4 * 3)
    assert all(abs(row["bias"]) < 0.3 and 0 <= row["shared_band"] <= 1 for row in found)


def test_nothing_at_all_has_no_figures(frame: Frame) -> None:
    runs = runs_of(frame())

    assert len(runs) == 0
    assert [row["hit_rate"] for row in foretelling(runs)] == [None, None]
    assert bands(runs, one_of_a_text=True)["recall_at_10"] is None
    assert estimates(runs) == []


def test_the_same_rows_and_seed_give_the_same_figures(rows: pl.DataFrame) -> None:
    assert foretelling(runs_of(rows), seed=4) == foretelling(runs_of(rows.reverse()), seed=4)
