"""How the benchmark table counts and speaks."""

import pytest

from bench.table import figure, median_seconds, rates


@pytest.mark.parametrize(
    ("value", "text"), [(16_900_000.0, "16.9 M"), (4_300.0, "4.3 k"), (148.2, "148"), (0.0123, "0.0123")]
)
def test_a_figure_has_three_digits_and_a_unit_of_size(value: float, text: str) -> None:
    assert figure(value) == text


def test_a_ratio_above_one_says_that_ours_is_faster() -> None:
    (line,) = rates("scorecards", 1000, 0.5, {"peer": (1.0, "2 ×")}, "memory")

    assert (line.ours, line.theirs, line.ratio) == (2000.0, 1000.0, 2.0)


def test_the_first_call_warms_up_and_is_not_counted() -> None:
    calls: list[int] = []

    assert median_seconds(lambda: calls.append(1), 3) < 1.0

    assert len(calls) == 4
