"""The scalar definition of the outcome statistics; its columns are compared with it beside the learners."""

from typing import Any

import pytest

from tessera.statistics import failure_reason, median, most_frequent, summary, total_tokens, wilson_interval


def entry(**fields: Any) -> dict[str, Any]:
    """An entry of the memory index, as far as statistics read it."""
    return {
        "result": "accepted",
        "retry": False,
        "task_id": "task-1",
        "worker_outcome": None,
        "failure_reason": None,
        "problems": [],
        "server_duration_seconds": None,
        "total_tokens": None,
        "reported_duration_seconds": None,
        "cost": None,
        **fields,
    }


def test_no_entries_say_that_nothing_is_known() -> None:
    assert summary([]) == {
        "attempts": 0,
        "accepted": 0,
        "acceptance_rate": None,
        "wilson_low": None,
        "wilson_high": None,
        "distinct_tasks": 0,
        "retried": 0,
        "median_server_duration_seconds": None,
        "median_total_tokens": None,
        "median_reported_duration_seconds": None,
        "median_cost": {},
        "worker_outcomes": {},
        "failure_reasons": [],
        "problems": [],
    }


def test_a_worked_value_comes_out_whole() -> None:
    usd, eur = (
        {"amount": 1, "currency": "USD", "source": "s"},
        {"amount": 2, "currency": "EUR", "source": "s"},
    )
    failed = {"result": "failed", "failure_reason": "timeout after #s", "retry": True}

    found = summary(
        [
            entry(total_tokens=5, cost=usd, problems=["b", "a"]),
            entry(total_tokens=8, cost=eur, worker_outcome="partial", problems=["b"], **failed),
        ]
    )

    assert found == {
        "attempts": 2,
        "accepted": 1,
        "acceptance_rate": 0.5,
        "wilson_low": pytest.approx(0.09453120573423074, abs=1e-12),
        "wilson_high": pytest.approx(0.9054687942657693, abs=1e-12),
        "distinct_tasks": 1,
        "retried": 1,
        "median_server_duration_seconds": None,
        "median_total_tokens": 6.5,
        "median_reported_duration_seconds": None,
        "median_cost": {"USD": 1.0, "EUR": 2.0},
        "worker_outcomes": {"partial": 1},
        "failure_reasons": [{"text": "timeout after #s", "count": 1}],
        "problems": [{"text": "b", "count": 2}, {"text": "a", "count": 1}],
    }


def test_only_the_ten_most_frequent_texts_are_named() -> None:
    texts = [str(number) for number in range(12) for _ in range(number + 1)]

    assert [one["text"] for one in most_frequent(texts)] == [str(number) for number in range(11, 1, -1)]


def test_tokens_are_the_reported_total_or_the_sum_of_both_parts() -> None:
    assert total_tokens({"total_tokens": 3, "input_tokens": 1, "output_tokens": 1}) == 3
    assert total_tokens({"input_tokens": 1, "output_tokens": 1}) == 2
    assert total_tokens({"input_tokens": 1}) is total_tokens({}) is total_tokens(None) is None


def test_unknown_values_do_not_move_a_median() -> None:
    assert median([None, 3.0, float("nan"), 4.0]) == 3.5
    assert median([None]) is None


def test_a_reason_is_bounded_and_trimmed_after_it_is_cut() -> None:
    assert failure_reason("x" * 159 + " tail") == "x" * 159
    assert failure_reason(None) is None


def test_an_interval_needs_counts_that_can_be() -> None:
    with pytest.raises(ValueError, match="impossible counts: 3 accepted of 2 attempts"):
        wilson_interval(3, 2)
