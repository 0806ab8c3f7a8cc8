"""The Wilson interval, scalar and by column."""

import json
from pathlib import Path

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.wilson import wilson, wilson_columns

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "wilson.json"


@pytest.mark.skipif(not VECTORS.exists(), reason="the shared vectors are not beside this checkout")
def test_the_published_vectors_hold_in_both_forms() -> None:
    cases = json.loads(VECTORS.read_text())

    columns = wilson_columns(pl.DataFrame(cases).select("accepted", "attempts"))

    for case, row in zip(cases, columns.iter_rows(named=True), strict=True):
        wanted = (case["low"], case["high"])
        assert wilson(case["accepted"], case["attempts"]) == pytest.approx(wanted, abs=1e-12)
        assert (row["wilson_low"], row["wilson_high"]) == pytest.approx(wanted, abs=1e-12)


def test_none_of_fifty_is_not_certainty() -> None:
    low, high = wilson(0, 50)

    assert low == 0.0
    assert high == pytest.approx(0.0713, abs=5e-5)


def test_all_of_fifty_ends_at_exactly_one() -> None:
    low, high = wilson(50, 50)

    assert high == 1.0
    assert low == pytest.approx(1 - 0.0713, abs=5e-5)


def test_two_of_a_hundred_and_ninety_nine_stays_above_zero() -> None:
    low, high = wilson(2, 199)

    assert 0 < low < 2 / 199 < high < 0.04


def test_no_attempts_are_no_evidence() -> None:
    columns = wilson_columns(pl.DataFrame({"accepted": [0], "attempts": [0]}))

    assert wilson(0, 0) == (None, None)
    assert columns.row(0)[2:] == (None, None, None)


@pytest.mark.parametrize(("accepted", "attempts"), [(1, 0), (-1, 5), (6, 5), (0, -1)])
def test_impossible_counts_are_an_error_in_both_forms(accepted: int, attempts: int) -> None:
    with pytest.raises(ValueError, match="impossible counts"):
        wilson(accepted, attempts)
    with pytest.raises(ValueError, match="impossible counts"):
        wilson_columns(pl.DataFrame({"accepted": [0, accepted], "attempts": [1, attempts]}))


def test_unknown_counts_are_an_error() -> None:
    with pytest.raises(ValueError, match="impossible counts"):
        wilson_columns(pl.DataFrame({"accepted": [None], "attempts": [3]}))
    with pytest.raises(ValueError, match="must be integers"):
        wilson(True, 3)


@given(st.integers(0, 10**7).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_the_interval_holds_the_rate_and_both_forms_agree_to_the_bit(counts: tuple[int, int]) -> None:
    accepted, attempts = counts

    low, high = wilson(accepted, attempts)
    row = wilson_columns(pl.DataFrame({"accepted": [accepted], "attempts": [attempts]})).row(0, named=True)

    assert (row["wilson_low"], row["wilson_high"]) == (low, high)
    if attempts:
        assert low is not None
        assert high is not None
        assert 0 <= low <= accepted / attempts <= high <= 1
        assert (low == 0) == (accepted == 0)
        assert (high == 1) == (accepted == attempts)
