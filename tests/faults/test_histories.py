"""The checker of histories is right itself: known histories, and a brute-force search on small ones."""

import math
from collections.abc import Mapping, Sequence

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.faults.histories import Operation, faults


def write(name: str, sent: float, answered: float, **versions: int) -> Operation:
    return Operation(name, sent, answered, wrote=versions)


def read(name: str, sent: float, answered: float, **versions: int) -> Operation:
    return Operation(name, sent, answered, read=versions)


GOOD = {
    "nothing at all": [],
    "one after the other": [write("a", 0, 1, k=1), write("b", 2, 3, k=2), read("c", 4, 5, k=2)],
    "overlapping writes whose order only the versions tell": [write("a", 0, 9, k=2), write("b", 0, 9, k=1)],
    "a read beside a write may see either side": [
        write("a", 0, 9, k=1),
        read("old", 1, 2, k=0),
        read("new", 3, 4, k=1),
    ],
    "an unanswered write that was seen": [write("a", 0, math.inf, k=1), read("b", 5, 6, k=1)],
    "two keys in one batch": [write("a", 0, 1, x=1, y=1), read("b", 2, 3, x=1, y=1)],
}

BAD = {
    "a lost update: one version written twice": [write("a", 0, 9, k=1), write("b", 0, 9, k=1)],
    "a stale read after an answered write": [write("a", 0, 1, k=1), read("b", 2, 3, k=0)],
    "a read that goes back in time": [
        write("a", 0, 9, k=1), read("new", 1, 2, k=1), read("old", 3, 4, k=0),
    ],
    "a gap in the versions": [write("a", 0, 1, k=1), write("b", 2, 3, k=3)],
    "a version nobody wrote": [read("a", 0, 1, k=1)],
    "an order of versions against real time": [write("a", 0, 1, k=2), write("b", 2, 3, k=1)],
    "a version seen before its write was sent": [read("a", 0, 1, k=1), write("b", 2, 3, k=1)],
    "half a batch seen": [write("a", 0, 9, x=1, y=1), read("b", 1, 8, x=1, y=0)],
    "two readers who disagree on the order of two keys": [
        write("a", 0, 9, x=1), write("b", 0, 9, y=1), read("c", 0, 9, x=1, y=0), read("d", 0, 9, x=0, y=1),
    ],
}  # fmt: skip


@pytest.mark.parametrize("history", GOOD.values(), ids=GOOD)
def test_a_good_history_has_no_faults(history: Sequence[Operation]) -> None:
    assert faults(history) == []


@pytest.mark.parametrize("history", BAD.values(), ids=BAD)
def test_a_bad_history_is_found_out(history: Sequence[Operation]) -> None:
    assert faults(history)


def serial_order_exists(history: Sequence[Operation]) -> bool:
    """Wing and Gong's search: try every next operation that real time allows."""
    seen: set[frozenset[int]] = set()

    def search(left: frozenset[int], state: Mapping[str, int]) -> bool:
        if not left:
            return True
        if left in seen:  # on one set of remaining operations the versions are always the same
            return False
        seen.add(left)
        for number in left:
            operation = history[number]
            if any(history[other].answered < operation.sent for other in left):
                continue
            if any(state.get(key, 0) != version for key, version in operation.read.items()):
                continue
            if any(state.get(key, 0) != version - 1 for key, version in operation.wrote.items()):
                continue
            if search(left - {number}, {**state, **operation.wrote}):
                return True
        return False

    return search(frozenset(range(len(history))), {})


@st.composite
def histories(draw: st.DrawFn) -> list[Operation]:
    """Histories of up to seven operations on two keys, near enough to the rules to be often good."""
    operations = []
    newest = {"x": 0, "y": 0}
    for number in range(draw(st.integers(1, 7))):
        sent = draw(st.integers(0, 10))
        answered = draw(st.one_of(st.integers(sent, 14), st.just(math.inf)))
        keys = draw(st.sampled_from([["x"], ["y"], ["x", "y"]]))
        if draw(st.booleans()):
            for key in keys:
                newest[key] += draw(st.sampled_from([1, 1, 1, 1, 1, 0, 2]))
            operation = Operation(f"w{number}", sent, answered, wrote={key: newest[key] for key in keys})
        else:
            seen = {key: draw(st.integers(0, newest[key])) for key in keys}
            operation = Operation(f"r{number}", sent, answered, read=seen)
        operations.append(operation)
    return operations


@settings(max_examples=400, deadline=None)
@given(histories())
def test_the_fast_verdict_is_that_of_the_exhaustive_search(history: list[Operation]) -> None:
    assert (faults(history) == []) == serial_order_exists(history)
