"""Past attempts: validated with paths, and turned into runs without guessing."""

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tessera.attempts import utc_milliseconds
from tessera.canonical import digest
from tessera.json_door import loads
from tessera.observations import (
    FIELDS,
    attempt_content,
    attempt_faults,
    attempt_identity,
    attempt_parts,
    build_item,
)
from tessera.reports import faults as report_faults

LEAST: dict[str, Any] = {"source": "s", "task_key": "t", "attempt": 1, "kind": "k", "accepted": True}


def found(attempt: Any) -> list[tuple[str, str]]:
    return [(fault.path, fault.message) for fault in attempt_faults(attempt, "attempts[3]")]


def test_every_real_record_is_an_attempt_and_becomes_a_sound_run(records: Path) -> None:
    seen = 0
    for file in sorted(records.glob("*.jsonl.gz")):
        with gzip.open(file) as lines:
            for line in lines:
                attempt = loads(line)
                seen += 1
                assert attempt_faults(attempt, "attempts[0]") == []
                assert set(attempt) == set(FIELDS)
                parts = attempt_parts(attempt, "history")
                assert parts.report is None or report_faults(parts.report) == []
                assert (parts.server["input_digest"] is None) == (attempt["problem_text"] is None)
    assert seen == 2_680 + 50_974 + 7_883


def test_missing_keys_are_null() -> None:
    assert found(LEAST) == []
    assert attempt_content(LEAST) == attempt_content(dict.fromkeys(FIELDS) | LEAST)


def test_faults_come_in_the_fields_order_with_unknown_keys_last() -> None:
    attempt = {"zz": 1, "a": 2, "accepted": 1, "kind": "", "attempt": True, "cost_amount": "0.9"}
    assert found(attempt) == [
        ("attempts[3].source", "is required"),
        ("attempts[3].task_key", "is required"),
        ("attempts[3].attempt", "must be an integer"),
        ("attempts[3].kind", "must not be blank"),
        ("attempts[3].accepted", "must be a boolean"),
        ("attempts[3].cost_amount", "must be a number"),
        ("attempts[3].cost_currency", "is required with cost_amount"),
        ("attempts[3].a", "is not a known field"),
        ("attempts[3].zz", "is not a known field"),
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("source", "s" * 129, "must be at most 128 UTF-8 bytes"),
        ("source", 5, "must be a string"),
        ("task_key", "\ud800", "must be valid Unicode"),
        ("attempt", 0, "must be at least 1"),
        ("attempt", 1.5, "must be an integer"),
        ("kind", "k" * 65, "must be at most 64 UTF-8 bytes"),
        ("kind", "a\nb", "must not hold control characters"),
        ("problem_text", 3, "must be a string"),
        ("template", " ", "must not be blank"),
        ("model", "m" * 129, "must be at most 128 UTF-8 bytes"),
        ("accepted", "true", "must be a boolean"),
        ("failure_text", "é" * 1025, "must be at most 2048 UTF-8 bytes"),
        ("outcome", "done", "must be one of succeeded, partial, failed, blocked, no_change"),
        ("input_tokens", -1, "must be between 0 and 1000000000000"),
        ("output_tokens", "1", "must be an integer"),
        ("duration_seconds", 1e9 + 1, "must be between 0 and 1000000000"),
        ("started_at", "2026-01-01T00:00:00", "must be an RFC 3339 time with a zone"),
        ("started_at", 1_700_000_000, "must be a string"),
    ],
)
def test_each_type_and_size_is_judged_with_its_path(name: str, value: Any, message: str) -> None:
    assert found({**LEAST, name: value}) == [(f"attempts[3].{name}", message)]


def test_what_is_no_object_is_no_attempt() -> None:
    for value in (None, [], "x", 3):
        assert found(value) == [("attempts[3]", "must be an object")]


def test_a_line_of_its_own_is_its_own_root() -> None:
    paths = [fault.path for fault in attempt_faults({**LEAST, "kind": 1, "zz": 1, "cost_amount": 1}, "")]
    assert paths == ["kind", "cost_currency", "zz"]


def test_a_cost_names_both_amount_and_currency_or_neither() -> None:
    assert found({**LEAST, "cost_amount": 0, "cost_currency": "USD"}) == []
    assert found({**LEAST, "cost_amount": 0}) == [
        ("attempts[3].cost_currency", "is required with cost_amount")
    ]
    assert found({**LEAST, "cost_currency": "USD"}) == [
        ("attempts[3].cost_amount", "is required with cost_currency")
    ]
    assert found({**LEAST, "cost_amount": 0, "cost_currency": "US"}) == [
        ("attempts[3].cost_currency", "must be three letters A-Z")
    ]


@pytest.mark.parametrize(
    ("time", "expected"),
    [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
        ("2026-01-02t03:04:05.6789z", "2026-01-02T03:04:05.678Z"),
        ("2026-01-02T01:04:05+02:00", "2026-01-01T23:04:05.000Z"),
        ("2026-01-01T23:34:05-03:30", "2026-01-02T03:04:05.000Z"),
        ("2016-12-31T23:59:60Z", "2017-01-01T00:00:00.000Z"),
        ("2026-01-02T03:04:05", None),
        ("2026-01-02", None),
        ("2026-02-30T00:00:00Z", None),
        ("2026-01-02T03:04:05+24:00", None),
        ("2026-01-02T03:04:05+01:60", None),
        ("2026-01-02T24:00:00Z", None),
        ("0000-01-01T00:00:00Z", None),
        ("0001-01-01T00:00:00+01:00", None),
        ("2026-01-02T03:04:05Z\n", None),
        ("２026-01-02T03:04:05Z", None),
        ("", None),
    ],
)
def test_times_become_utc_milliseconds_or_nothing(time: str, expected: str | None) -> None:
    assert utc_milliseconds(time) == expected


def test_equal_instants_are_the_same_content() -> None:
    zones = [
        {**LEAST, "started_at": time} for time in ("2026-01-02T03:04:05Z", "2026-01-02T05:04:05.000+02:00")
    ]
    assert attempt_content(zones[0]) == attempt_content(zones[1])


def test_an_attempt_with_nothing_reported_becomes_a_run_without_report_or_digest() -> None:
    parts = attempt_parts(LEAST, "q")
    assert (parts.brief, parts.report) == ({}, None)
    assert parts.server["input_digest"] is None
    assert parts.server["claimed_at"] is None


def test_a_whole_attempt_becomes_a_run() -> None:
    attempt = {
        **LEAST,
        "attempt": 2,
        "problem_text": "p",
        "template": "tpl",
        "shim": "sh",
        "harness": "h",
        "model": "m",
        "accepted": False,
        "failure_text": "boom",
        "outcome": "failed",
        "input_tokens": 0,
        "cost_amount": 0,
        "cost_currency": "USD",
        "duration_seconds": 1.5,
        "started_at": "2026-01-02T05:04:05+02:00",
    }
    brief, report, server = attempt_parts(attempt, "q")
    built = build_item(run_id="r", cursor=1, key_id="k1", brief=brief, report=report, **server)
    assert brief == {"problem": "p", "template": "tpl"}
    assert report == {
        "harness": "h",
        "model": "m",
        "usage": {"input_tokens": 0},
        "learning": {
            "outcome": "failed",
            "path": {"shim": "sh"},
            "duration_seconds": 1.5,
            "cost": {"amount": 0, "currency": "USD", "source": "s"},
        },
    }
    assert built["input_digest"] == digest({"brief": brief, "pins": []})
    assert built["server"] == {
        "origin": "imported",
        "private": False,
        "task_id": server["task_id"],
        "kind": "k",
        "queue": "q",
        "fence": 2,
        "lapsed": 0,
        "key_id": "k1",
        "claimed_at": "2026-01-02T03:04:05.000Z",
        "submitted_at": None,
        "lease_seconds": None,
        "result": "failed",
        "state_after": None,
        "failure_text": "boom",
        "receipt_sha256": None,
        "retry": True,
        "draws": [],
    }


def test_attempts_at_one_task_share_its_id_within_the_queue() -> None:
    def task(queue: str, **changes: Any) -> str:
        return str(attempt_parts({**LEAST, **changes}, queue).server["task_id"])

    assert task("q") == task("q", attempt=2, model="m", accepted=False)
    assert len({task("q"), task("p"), task("q", source="other"), task("q", task_key="u")}) == 4
    assert len(task("q")) <= 64


def test_identity_is_the_nine_fields_and_the_queue_and_no_other() -> None:
    base = attempt_identity(LEAST, "q")
    assert attempt_identity({**LEAST, "accepted": False, "kind": "z", "cost_amount": 1}, "q") == base
    assert attempt_identity({**LEAST, "attempt": 1.0}, "q") == base
    assert attempt_identity(LEAST, "p") != base
    for name in ("source", "task_key", "template", "phrasing", "shim", "method", "harness", "model"):
        assert attempt_identity({**LEAST, name: "other"}, "q") != base
    assert attempt_identity({**LEAST, "attempt": 2}, "q") != base


VALUES = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(st.characters()) | st.lists(st.none())
)


@given(st.dictionaries(st.sampled_from(FIELDS) | st.text(), VALUES))
def test_any_object_is_judged_and_a_faultless_one_becomes_a_run(changes: dict[str, Any]) -> None:
    attempt = {**LEAST, **changes}
    if not attempt_faults(attempt, "a") and abs(attempt["attempt"]) < 2**53:
        parts = attempt_parts(attempt, "q")
        assert parts.report is None or report_faults(parts.report) == []
        assert attempt_identity(attempt, "q")
        assert json.dumps(parts)
