"""Past attempts: the shape that an import takes, and the run that an attempt becomes (contract, section 5).

An attempt is one object of the 20 keys below, a missing one being null. Promises each fault with its path,
and the same run out of the same attempt. Nothing is estimated: what is null stays unknown. Pure; leaves out
the store, which finds repeats by identity and content.
"""

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, NamedTuple

from tessera.canonical import digest, is_blank, scalar_text
from tessera.checks import CURRENCY, Check, boolean, integer, number, text, unknown_fields, within
from tessera.errors import Fault
from tessera.reports import MAX_COUNT, MAX_LABEL, MAX_SECONDS, OUTCOMES

MAX_ATTEMPTS = 500
"""Attempts of one import call."""
MAX_PROBLEM = 1 << 20
MAX_FAILURE = 2048
IDENTITY = ("source", "task_key", "template", "phrasing", "shim", "method", "harness", "model", "attempt")
"""What makes an attempt one and the same within its queue."""

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-9]{2}))"
)


def utc_milliseconds(time: str) -> str | None:
    """An RFC 3339 time as UTC with milliseconds and ``Z``, cut there; None if it is none or zone-less."""
    found = _TIME.fullmatch(time)
    if found is None:
        return None
    year, month, day, hour, minute, second = (int(part) for part in found.groups()[:6])
    milliseconds = int(((found[7] or "") + "000")[:3])
    offset = timedelta(hours=int(found[9] or 0), minutes=int(found[10] or 0))
    if offset >= timedelta(days=1) or int(found[10] or 0) > 59:
        return None
    leap = second == 60  # a leap second is the first of the next minute
    try:
        local = datetime(year, month, day, hour, minute, 59 if leap else second, milliseconds * 1000, UTC)
        instant = local + timedelta(seconds=leap) - (-offset if found[8] == "-" else offset)
    except (ValueError, OverflowError):
        return None
    return instant.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _has_no_control_character(kind: str) -> bool:
    return not any(character < " " or "\x7f" <= character <= "\x9f" for character in kind)


_LABEL = text(MAX_LABEL)
_REQUIRED = ("source", "task_key", "attempt", "kind", "accepted")
_FIELDS: dict[str, Check] = {
    "source": text(MAX_LABEL),
    "task_key": text(512),
    "attempt": integer(),
    "kind": text(64, form=(_has_no_control_character, "must not hold control characters")),
    "problem_text": text(MAX_PROBLEM, may_be_blank=True),
    "template": _LABEL,
    "phrasing": _LABEL,
    "shim": _LABEL,
    "method": _LABEL,
    "harness": _LABEL,
    "model": _LABEL,
    "accepted": boolean,
    "failure_text": text(MAX_FAILURE, may_be_blank=True),
    "outcome": text(MAX_LABEL, choices=OUTCOMES),
    "input_tokens": integer(MAX_COUNT),
    "output_tokens": integer(MAX_COUNT),
    "cost_amount": number(MAX_COUNT),
    "cost_currency": CURRENCY,
    "duration_seconds": number(MAX_SECONDS),
    "started_at": text(64, form=(utc_milliseconds, "must be an RFC 3339 time with a zone")),
}
FIELDS = tuple(_FIELDS)
"""The keys of an attempt."""


def attempt_faults(attempt: Any, root: str) -> list[Fault]:
    """All faults of one attempt in the order of FIELDS, unknown keys last; ``root`` begins each path."""
    return list(_faults(attempt, root))


def _faults(attempt: Any, root: str) -> Iterator[Fault]:
    if not isinstance(attempt, dict):
        yield Fault(root, "must be an object")
        return
    for name, check in _FIELDS.items():
        value = attempt.get(name)
        if value is not None:
            yield from check(value, within(root, name))
        elif name in _REQUIRED:
            yield Fault(within(root, name), "is required")
        elif (other := _COST.get(name)) and attempt.get(other) is not None:
            yield Fault(within(root, name), f"is required with {other}")
    yield from unknown_fields(attempt, _FIELDS, root)


_COST = {"cost_amount": "cost_currency", "cost_currency": "cost_amount"}


def normal_attempt(attempt: Mapping[str, Any]) -> dict[str, Any]:
    """A faultless attempt with all its keys, its time in UTC: equal ones are equal attempts."""
    found = {name: _text(attempt.get(name)) for name in FIELDS}
    if found["started_at"] is not None:
        found["started_at"] = utc_milliseconds(found["started_at"])
    return found


def _text(value: Any) -> Any:
    return scalar_text(value) if isinstance(value, str) else value


def attempt_identity(attempt: Mapping[str, Any], queue: str) -> str:
    """Hex digest of what makes an attempt one and the same within the queue."""
    return digest({"queue": queue, **{name: _text(attempt.get(name)) for name in IDENTITY}})


def attempt_content(attempt: Mapping[str, Any]) -> str:
    """Hex digest of all that an attempt says: the same identity with another content is a conflict."""
    return digest(normal_attempt(attempt))


def attempt_task_id(source: str, task_key: str, queue: str) -> str:
    """The id that all attempts at one task of a source share within the queue; 39 ASCII characters."""
    return "import-" + digest({"queue": queue, "source": _text(source), "task_key": _text(task_key)})[:32]


class AttemptParts(NamedTuple):
    """The run that an attempt becomes.

    ``report`` is None when there is nothing in it. ``server`` holds the fields that the attempt decides, by
    the names of ``observations.build_item``; ``run_id``, ``cursor`` and ``key_id`` are the store's.
    """

    brief: dict[str, Any]
    report: dict[str, Any] | None
    server: dict[str, Any]


def attempt_parts(attempt: Mapping[str, Any], queue: str) -> AttemptParts:
    """Brief, report and server fields of a faultless attempt."""
    found = normal_attempt(attempt)
    brief = _known(problem=found["problem_text"], template=found["template"], phrasing=found["phrasing"])
    problem = found["problem_text"]
    fence = int(found["attempt"])
    server = {
        "origin": "imported",
        "private": False,
        "task_id": attempt_task_id(found["source"], found["task_key"], queue),
        "kind": found["kind"],
        "queue": queue,
        "fence": fence,
        "lapsed": 0,
        "claimed_at": found["started_at"],
        "submitted_at": None,
        "lease_seconds": None,
        "result": "accepted" if found["accepted"] else "failed",
        "state_after": None,
        "failure": found["failure_text"],
        "receipt_sha256": None,
        "draws": [],
        # equal emptiness is no likeness
        "input_digest": None
        if problem is None or is_blank(problem)
        else digest({"brief": brief, "pins": []}),
    }
    return AttemptParts(brief, _report(found) or None, server)


def _report(attempt: Mapping[str, Any]) -> dict[str, Any]:
    cost = {
        "amount": attempt["cost_amount"],
        "currency": attempt["cost_currency"],
        "source": attempt["source"],
    }
    learning = _known(
        outcome=attempt["outcome"],
        path=_known(shim=attempt["shim"], method=attempt["method"]),
        duration_seconds=attempt["duration_seconds"],
        cost=None if attempt["cost_amount"] is None else cost,
    )
    return _known(
        harness=attempt["harness"],
        model=attempt["model"],
        usage=_known(input_tokens=attempt["input_tokens"], output_tokens=attempt["output_tokens"]),
        learning=learning,
    )


def _known(**fields: Any) -> dict[str, Any]:
    """The fields that say something: neither null nor an object with nothing in it."""
    return {name: value for name, value in fields.items() if value is not None and value != {}}
