"""Ids, time and SimHash."""

import hashlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.store import clock, ids, simhash


@given(st.integers(0, 2**63 - 1))
def test_an_id_leads_back_to_its_number_and_token(number: int) -> None:
    token = ids.token()

    assert ids.parse("run", ids.make("run", number, token)) == (number, token)
    assert len(ids.make("task", number, token)) <= 64


@pytest.mark.parametrize(
    "text",
    [
        "",
        "run",
        "run-1",
        "run--x",
        "run-01-x",
        "run-+1-x",
        "run-١-x",
        "task-1-x",
        "run-1-x-y",
        "run-" + "9" * 19 + "-x",
    ],
)
def test_what_is_no_id_leads_nowhere(text: str) -> None:
    assert ids.parse("run", text) is None


def test_moments_are_written_in_utc_with_milliseconds() -> None:
    assert clock.rfc3339(0) == "1970-01-01T00:00:00.000Z"
    assert clock.rfc3339(1_700_000_000_123) == "2023-11-14T22:13:20.123Z"
    assert clock.rfc3339(None) is None


@given(st.integers(0, 4_102_444_800_000))
def test_a_moment_that_is_written_reads_as_itself(moment: int) -> None:
    text = clock.rfc3339(moment)

    assert text is not None
    assert clock.milliseconds(text) == moment


def test_a_time_is_read_with_its_zone_or_not_at_all() -> None:
    assert clock.milliseconds("1970-01-01T02:00:00+02:00") == 0
    assert clock.milliseconds("1970-01-01T02:00:00") is None
    assert clock.milliseconds("yesterday") is None


def test_time_that_goes_forward_follows_the_wall_ahead_and_its_own_pace_when_that_is_set_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    moment = {"wall": 1_000_000, "ticks": 50}
    monkeypatch.setattr(clock, "_ticks", lambda: moment["ticks"])
    forward = clock.Forward(lambda: moment["wall"])

    def after(wall: int, ticks: int) -> tuple[int, int]:
        moment["wall"] += wall
        moment["ticks"] += ticks
        return forward(), forward.ahead

    assert after(0, 0) == (1_000_000, 0)
    assert after(10, 10) == (1_000_010, 0)
    assert after(60_000, 5) == (1_060_010, 0)  # set forward, or back from a sleep
    assert after(-300_000, 7) == (1_060_017, 300_007)
    assert after(1_000, 1_000) == (1_061_017, 300_007)
    assert after(400_000, 1) == (1_161_010, 0)
    forward.not_before(2_000_000)
    assert after(1, 1) == (2_000_001, 838_990)
    forward.not_before(5)
    assert after(0, 0)[0] == 2_000_001


def _apart(first: int, second: int) -> int:
    return (first ^ second).bit_count()


def test_simhash_of_no_words_is_nothing() -> None:
    assert simhash.simhash([]) is None


@given(st.lists(st.text(max_size=4), min_size=1, max_size=20))
def test_each_bit_of_a_simhash_is_the_majority_of_the_words_bits(words: list[str]) -> None:
    hashes = [int.from_bytes(hashlib.blake2b(w.encode(), digest_size=8).digest(), "big") for w in words]
    due = sum(1 << bit for bit in range(64) if 2 * sum((h >> bit) & 1 for h in hashes) > len(hashes))

    assert simhash.simhash(words) == due


def test_simhash_does_not_depend_on_the_order_of_words() -> None:
    assert simhash.simhash(["b", "a", "c"]) == simhash.simhash(["c", "b", "a"])


def test_texts_that_share_most_words_are_fewer_bits_apart_than_texts_that_share_none() -> None:
    words = [f"word{n}" for n in range(60)]
    base = simhash.simhash(words)
    near = simhash.simhash([*words[:57], "x", "y", "z"])
    far = simhash.simhash([f"other{n}" for n in range(60)])
    assert base is not None
    assert near is not None
    assert far is not None

    assert _apart(base, near) < 16 < _apart(base, far)


def test_simhash_counts_each_bits_votes_exactly() -> None:
    import hashlib

    words = [f"w{n}" for n in range(513)]
    hashes = [int.from_bytes(hashlib.blake2b(w.encode(), digest_size=8).digest(), "big") for w in words]
    expected = sum(1 << bit for bit in range(64) if 2 * sum((h >> bit) & 1 for h in hashes) > len(words))

    assert simhash.simhash(words) == expected


@given(st.integers(0, 2**64 - 1), st.sets(st.integers(0, 63), max_size=7))
def test_fingerprints_at_most_seven_bits_apart_share_a_band(fingerprint: int, flipped: set[int]) -> None:
    other = fingerprint
    for bit in flipped:
        other ^= 1 << bit

    pairs = zip(simhash.bands(fingerprint), simhash.bands(other), strict=True)
    assert any(mine == theirs for mine, theirs in pairs)
