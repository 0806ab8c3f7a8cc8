"""Groups tested against the rest: published figures, and what is not tested."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.group_tests import difference, group_tests, holm


def group(category: str, accepted: int, attempts: int) -> dict[str, Any]:
    return {"dimensions": {"category": category}, "accepted": accepted, "attempts": attempts}


def test_holm_steps_down_and_never_turns_back() -> None:
    assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])


@given(st.lists(st.floats(0, 1), max_size=30))
def test_holm_only_raises_keeps_the_order_and_stays_within_one(p_values: list[float]) -> None:
    adjusted = holm(p_values)

    assert all(before <= after <= 1 for before, after in zip(p_values, adjusted, strict=True))
    ranked = sorted(zip(p_values, adjusted, strict=True))
    assert [after for _, after in ranked] == sorted(adjusted)


@pytest.mark.parametrize(
    ("one", "two", "low", "high"),
    [
        ((56, 70), (48, 80), 0.0524, 0.3339),
        ((9, 10), (3, 10), 0.1705, 0.8090),
        ((10, 10), (0, 10), 0.6075, 1),
    ],
)
def test_the_difference_of_two_rates_has_newcombes_published_interval(
    one: tuple[int, int], two: tuple[int, int], low: float, high: float
) -> None:
    assert difference(one, two)[1:] == pytest.approx((low, high), abs=5e-5)


def test_each_group_is_tested_against_the_rest_of_its_own_category() -> None:
    first, _, other, _ = group_tests(
        [group("a", 3, 8), group("a", 8, 8), group("b", 10, 10), group("b", 0, 10)]
    )

    assert (first.rest_accepted, first.rest_attempts) == (8, 8)
    assert first.p == pytest.approx(56 / 4368 * 2)  # C(8,3) ways of C(16,5), and the same at the other end
    assert other.differs
    assert other.adjusted is not None
    assert other.p is not None
    assert other.adjusted == pytest.approx(4 * other.p)


def test_small_groups_and_lone_groups_are_not_tested_and_cost_nothing() -> None:
    small, large, alone = group_tests([group("a", 4, 4), group("a", 1, 20), group("b", 9, 9)])

    assert (small.p, large.p, alone.p) == (None, None, None)
    assert not any(test.differs for test in (small, large, alone))
    assert small.difference == pytest.approx(0.95)
    assert alone.difference is None


def test_nothing_is_shown_where_nothing_is_there() -> None:
    assert group_tests([]) == []
    (nothing,) = group_tests([group("a", 0, 0)])
    assert (nothing.p, nothing.difference) == (None, None)
