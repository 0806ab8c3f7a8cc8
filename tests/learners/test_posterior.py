"""P(group > rest) against the exact sum of fractions, and for counts that no factorial reaches."""

from fractions import Fraction
from math import factorial

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.posterior import probability_above


@st.composite
def counts(draw: st.DrawFn, most: int = 60) -> tuple[int, int]:
    attempts = draw(st.integers(0, most))
    return draw(st.integers(0, attempts)), attempts


def beta(a: int, b: int) -> Fraction:
    return Fraction(factorial(a - 1) * factorial(b - 1), factorial(a + b - 1))


def exactly(group: tuple[int, int], rest: tuple[int, int]) -> float:
    """The closed form for whole parameters (E. Miller, Formulas for Bayesian A/B testing), in fractions."""
    a, b = 1 + rest[0], 1 + rest[1] - rest[0]
    c, d = 1 + group[0], 1 + group[1] - group[0]
    return float(sum(beta(a + i, b + d) / ((d + i) * beta(1 + i, d) * beta(a, b)) for i in range(c)))


@given(counts(), counts())
def test_it_is_the_exact_probability(group: tuple[int, int], rest: tuple[int, int]) -> None:
    assert probability_above(group, rest) == pytest.approx(exactly(group, rest), abs=1e-12)


@given(counts(10**7), counts(10**7))
def test_one_of_two_sides_is_above_the_other(group: tuple[int, int], rest: tuple[int, int]) -> None:
    above, below = probability_above(group, rest), probability_above(rest, group)
    assert 0 <= above <= 1
    assert above + below == pytest.approx(1, abs=1e-9)


def test_nothing_known_of_either_side_is_a_toss_up() -> None:
    assert probability_above((0, 0), (0, 0)) == pytest.approx(0.5, abs=1e-14)


def test_a_million_against_a_million_is_the_normal_limit() -> None:
    found = probability_above((500_000, 1_000_000), (499_000, 1_000_000))
    assert found == pytest.approx(0.92135, abs=1e-5)


def test_a_narrow_side_beside_a_wide_one_is_the_wide_ones_tail() -> None:
    from scipy.special import betaincc

    assert probability_above((10, 20), (600_000, 1_000_000)) == pytest.approx(betaincc(11, 11, 0.6), abs=1e-5)


def test_impossible_counts_are_an_error() -> None:
    with pytest.raises(ValueError, match="impossible counts: 3 of 2"):
        probability_above((3, 2), (1, 2))
