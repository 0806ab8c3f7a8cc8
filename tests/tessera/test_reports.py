"""The report's faults against the public vectors, and the order in which a value's messages apply."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.canonical import dumps
from tessera.reports import MAX_BYTES, faults


def found(report: Any) -> list[tuple[str, str]]:
    return [(fault.path.removeprefix("execution_report."), fault.message) for fault in faults(report)]


def test_faults_are_those_of_the_vectors(vectors: Any) -> None:
    for case in vectors.cases("report"):
        expected = [(error["path"], error["message"]) for error in case["errors"]]
        assert [(fault.path, fault.message) for fault in faults(case["report"])] == expected


NAMES = ["summaries", "problem", "harness", "model", "usage", "input_tokens", "learning", "outcome", "ideas"]
NAMES += [
    "types",
    "path",
    "duration_seconds",
    "cost",
    "amount",
    "unknowns",
    "field",
    "reason",
    "advice",
    "version",
]
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.just(10**400),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(NAMES) | st.text(st.characters()), inner, max_size=4)
    ),
    max_leaves=20,
)


@given(JSON_VALUES)
def test_any_value_is_judged_and_what_is_fine_is_small(report: Any) -> None:
    judged = faults(report)
    assert judged or len(dumps(report)) <= MAX_BYTES
    assert all(fault.path.startswith("execution_report") for fault in judged)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (None, "must be a number"),
        (True, "must be a number"),
        ("1", "must be a number"),
        (float("nan"), "must be a finite number"),
        (float("-inf"), "must be a finite number"),
        (10**400, "must be a finite number"),
        (-0.1, "must be between 0 and 1000000000000"),
        (1e12 + 1, "must be between 0 and 1000000000000"),
    ],
)
def test_a_number_gets_the_first_message_that_applies(value: Any, message: str) -> None:
    cost = {"amount": value, "currency": "USD", "source": "s"}
    assert found({"learning": {"cost": cost}}) == [("learning.cost.amount", message)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (True, "must be an integer"),
        (float("inf"), "must be an integer"),
        (float("nan"), "must be an integer"),
        (1.5, "must be an integer"),
        (10**400, "must be an integer"),
        (1e300, "must be between 0 and 1000000000000"),
        (-1.0, "must be between 0 and 1000000000000"),
    ],
)
def test_an_integer_gets_the_first_message_that_applies(value: Any, message: str) -> None:
    assert found({"usage": {"total_tokens": value}}) == [("usage.total_tokens", message)]


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (7, "must be a string"),
        ("\udc00" * 200, "must be valid Unicode"),
        (" " * 200, "must not be blank"),
        ("é" * 65, "must be at most 128 UTF-8 bytes"),
    ],
)
def test_a_text_gets_the_first_message_that_applies(value: Any, message: str) -> None:
    assert found({"model": value}) == [("model", message)]


def test_split_halves_of_one_character_are_valid_and_count_four_bytes() -> None:
    half = "\ud83d" + "\ude00"
    assert found({"model": half * 32}) == []
    assert found({"model": half * 33}) == [("model", "must be at most 128 UTF-8 bytes")]


def test_other_white_space_is_not_blank() -> None:
    assert found({"model": "\u00a0"}) == []


def test_the_bounds_themselves_are_fine() -> None:
    usage = {"input_tokens": 0, "output_tokens": 10**12, "total_tokens": 1.0}
    cost = {"amount": 10**12, "currency": "EUR", "source": "s" * 128}
    learning = {"duration_seconds": 10**9, "cost": cost, "ideas": ["i" * 512] * 8}
    assert found({"usage": usage, "learning": learning}) == []


def test_an_explanation_of_another_field_does_not_excuse_a_null() -> None:
    unknowns = [{"field": "cost ", "reason": "r"}, {"field": "duration_seconds", "reason": "r"}]
    learning = {"duration_seconds": None, "cost": None, "unknowns": unknowns}
    assert found({"learning": learning}) == [("learning.cost", "must be listed in unknowns when null")]


def test_a_list_that_is_too_long_is_not_looked_into() -> None:
    learning = {"cost": None, "unknowns": [{"field": "cost", "reason": "r"}] * 17}
    assert found({"learning": learning}) == [
        ("learning.cost", "must be listed in unknowns when null"),
        ("learning.unknowns", "must have at most 16 items"),
    ]


def test_the_size_is_judged_last_and_at_the_byte() -> None:
    """Control characters take six bytes each in canonical JSON, so texts within bounds can be too many."""
    learning = {"ideas": ["\x01" * 512] * 8}
    report: dict[str, Any] = {"learning": learning, "summaries": {"solution": "\x01" * 1000}}
    report["summaries"]["solution"] += "x" * (MAX_BYTES - len(dumps(report)))
    assert len(dumps(report)) == MAX_BYTES
    assert found(report) == []
    report["summaries"]["solution"] += "x"
    assert found(report) == [("execution_report", f"must be at most {MAX_BYTES} UTF-8 bytes")]
    assert found({**report, "harness": 1}) == [("harness", "must be a string")]
