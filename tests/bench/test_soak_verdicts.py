"""The soak's verdicts, on figures whose answer is known."""

import random

import pytest

from bench.soak.verdicts import Slope, count, lag_grows, memory_grows, percentiles, slope, steady
from bench.soak.watch import told_apart


def test_a_line_has_its_own_slope_and_no_doubt() -> None:
    found = slope([(float(at), 3.0 + 0.5 * at) for at in range(160)])

    assert found is not None
    assert (found.value, found.low, found.high) == pytest.approx((0.5, 0.5, 0.5))


def test_a_saw_without_a_trend_does_not_grow_and_with_one_it_does() -> None:
    noise = random.Random(4)
    saw = [(float(at), 167.0 * (at % 47) + noise.random()) for at in range(600)]
    rising = [(at, value + 20 * at) for at, value in saw]

    assert lag_grows(slope(saw), 167) is False
    assert lag_grows(slope(rising), 167) is True


def test_too_few_points_have_no_slope_and_no_verdict() -> None:
    assert slope([(1.0, 1.0), (2.0, 2.0)]) is None
    assert lag_grows(None, 167) is None
    assert memory_grows(None) is None


def test_memory_grows_when_even_the_low_end_is_above_a_mebibyte_a_minute() -> None:
    a_minute = (1 << 20) / 60

    assert memory_grows(Slope(3 * a_minute, 2 * a_minute, 4 * a_minute)) is True
    assert memory_grows(Slope(3 * a_minute, 0.5 * a_minute, 6 * a_minute)) is False


def test_the_first_quarter_and_what_is_after_the_load_are_left_out() -> None:
    assert steady([(0, 1.0), (24.9, 1.0), (25, 2.0), (100, 3.0), (101, 4.0)], 0, 100) == [
        (25, 2.0),
        (100, 3.0),
    ]


def test_nothing_lost_and_nothing_doubled_is_told_from_each_of_its_opposites() -> None:
    assert count("abc", "abc", list("abc")).exact

    unanswered = count("ab", "abc", list("abc"))
    assert unanswered.exact
    assert unanswered.unanswered == 1

    assert count("abc", "ab", list("ab")).lost == 1  # acknowledged, and the store does not have it
    assert count("abc", "abc", list("ab")).lost == 1  # in the store, and not in the lake
    assert count("abc", "abc", list("abbc")).doubled == 1
    assert count("ab", "ab", list("abx")).doubled == 1  # a row of no run
    assert count("abb", "ab", list("ab")).doubled == 1  # two acknowledgements of one run


def test_percentiles_of_nothing_are_unknown() -> None:
    assert percentiles([]) == {"p50": None, "p99": None, "max": None}
    assert percentiles([1.0, 2.0, 3.0])["p50"] == 2.0


@pytest.mark.parametrize(
    ("command", "role"),
    [
        ("python -m dagster api grpc --socket /tmp/x", "code server"),
        ("python -c from multiprocessing.spawn import spawn_main; spawn_main()", "runs"),
        ("python -m pipelines.attached bench.soak.stage:dagster_daemon run", "daemon"),
    ],
)
def test_what_dagster_starts_is_told_apart_by_its_command(command: str, role: str) -> None:
    assert told_apart("daemon", command.split()) == role
    assert told_apart("store", command.split()) == "store"
