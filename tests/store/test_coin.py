"""The coin: what it is computed from, and which arm it gives (contract, section 3, "Draws")."""

import hashlib
import hmac
from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.store import coin


def arms(*weights: float) -> list[dict[str, object]]:
    return [{"arm": f"a{n}", "weight": weight} for n, weight in enumerate(weights)]


def test_the_number_is_53_bits_of_the_keyed_hash_of_task_submitted_and_dimension() -> None:
    digest = hmac.new(b"secret", b"task-1-x\x002\x00model", hashlib.sha256).digest()

    number = coin.uniform(b"secret", "task-1-x", 2, "model")

    assert Fraction(number) == Fraction(int.from_bytes(digest[:8], "big") >> 11, 2**53)


def test_the_number_is_known_for_a_known_secret() -> None:
    assert coin.uniform(bytes(32), "task-1-00", 0, "method") == 0.019583065291187474  # by openssl


@given(st.binary(max_size=40), st.text(max_size=20).filter(str.isascii), st.integers(0, 99))
def test_the_number_is_at_least_0_and_below_1(secret: bytes, task_id: str, submitted: int) -> None:
    assert 0 <= coin.uniform(secret, task_id, submitted, "shim") < 1


@pytest.mark.parametrize(
    ("weights", "number", "arm"),
    [
        ((0.25, 0.75), 0.0, "a0"),
        ((0.25, 0.75), 0.2499, "a0"),
        ((0.25, 0.75), 0.25, "a1"),
        ((0.0, 1.0), 0.0, "a1"),
        ((1.0, 0.0), 0.9999999999999999, "a0"),
        ((0.5, 0.4999999999, 0.0), 0.99999999999, "a1"),
        ((1.0,), 0.5, "a0"),
    ],
)
def test_the_arm_is_the_first_whose_cumulative_weight_exceeds_the_number_else_the_last_above_0(
    weights: tuple[float, ...], number: float, arm: str
) -> None:
    assert coin.pick(arms(*weights), number)["arm"] == arm


@given(st.lists(st.integers(0, 5), min_size=1, max_size=9).filter(any), st.floats(0, 1, exclude_max=True))
def test_an_arm_without_weight_is_never_given(parts: list[int], number: float) -> None:
    picked = coin.pick(arms(*(part / sum(parts) for part in parts)), number)

    assert picked["weight"] > 0
