"""The execution report: what a worker may claim about a run, judged field by field (contract, section 4).

Promises every fault, depth first in the order of the tables below, with the contract's messages and no
others; a report without faults may be stored as it is. Pure and total over JSON values. Leaves out whether a
claim is true: claims are never facts.
"""

import json
from collections.abc import Iterator
from typing import Any

from tessera.canonical import dumps, scalar_text
from tessera.checks import CURRENCY, Check, array, integer, nullable, number, record, text
from tessera.errors import Fault

MAX_BYTES = 32_768
"""Bytes of a report as canonical JSON."""
OUTCOMES = ("succeeded", "partial", "failed", "blocked", "no_change")
MAX_COUNT = 10**12
"""The largest number of tokens, and the largest amount of money."""
MAX_SECONDS = 10**9
MAX_LABEL = 128
"""Bytes of a harness, model, shim or method, and of the source of a cost."""
_MAX_UNKNOWNS = 16
_NUMBERS = 1_024  # more than the numbers of a report can take: 21 of at most 25 bytes
_long = json.JSONEncoder(separators=(",", ":")).encode


def faults(report: Any, root: str = "execution_report") -> list[Fault]:
    """All faults of a parsed report, empty when it is fine; ``root`` begins each path."""
    found = list(_REPORT(report, root))
    # Canonical JSON is dear, and this writing of it is longer but for its numbers, of which a report has few.
    if not found and len(_long(report)) > MAX_BYTES - _NUMBERS and len(dumps(_canonical(report))) > MAX_BYTES:
        found.append(Fault(root, f"must be at most {MAX_BYTES} UTF-8 bytes"))
    return found


_NOTES = array(8, text(512))
_COST = record({"amount": number(MAX_COUNT), "currency": CURRENCY, "source": text(MAX_LABEL)}, required=True)
_UNKNOWN = record({"field": text(128), "reason": text(512)}, required=True)
_CITATION = record(
    {
        "learner": text(256),
        "strategy": text(256),
        "version": integer(),
        "store": text(256),
        "key": text(256),
        "record_version": integer(),
    },
    required=True,
)
_LEARNING: dict[str, Check] = {
    "outcome": text(512, choices=OUTCOMES),
    "went_right": _NOTES,
    "went_wrong": _NOTES,
    "next_steps": _NOTES,
    "ideas": _NOTES,
    "types": record({"input": text(256), "output": text(256)}),
    "path": record({"shim": text(MAX_LABEL), "method": text(MAX_LABEL)}),
    "reasoning_summary": text(2048),
    "duration_seconds": nullable(number(MAX_SECONDS)),
    "cost": nullable(_COST),
    "unknowns": array(_MAX_UNKNOWNS, _UNKNOWN),
    "advice": array(8, _CITATION),
}
_MEASURED = ("duration_seconds", "cost")


def _learning(value: Any, path: str) -> Iterator[Fault]:
    """The block; a measurement that is null must be listed among what the worker could not take."""
    explained = _explained(value)
    bare = [name for name in _MEASURED if isinstance(value, dict) and value.get(name, 0) is None]
    yield from record({**_LEARNING, **{name: _unexplained for name in bare if name not in explained}})(
        value, path
    )


def _unexplained(_: Any, path: str) -> Iterator[Fault]:
    yield Fault(path, "must be listed in unknowns when null")


def _explained(learning: Any) -> set[str]:
    """The fields that ``unknowns`` names; a list that is too long is not looked into."""
    unknowns = learning.get("unknowns") if isinstance(learning, dict) else None
    if not isinstance(unknowns, list) or len(unknowns) > _MAX_UNKNOWNS:
        return set()
    names = [entry.get("field") for entry in unknowns if isinstance(entry, dict)]
    return {name for name in names if isinstance(name, str)}


_TOKENS = integer(MAX_COUNT)
_REPORT = record(
    {
        "summaries": record({"problem": text(4096), "solution": text(4096)}),
        "harness": text(MAX_LABEL),
        "model": nullable(text(MAX_LABEL)),
        "usage": record({"input_tokens": _TOKENS, "output_tokens": _TOKENS, "total_tokens": _TOKENS}),
        "learning": _learning,
    }
)


def _canonical(value: Any) -> Any:
    """``value`` as canonical JSON can say it: split pairs joined, integers beyond 2^53 as doubles."""
    if isinstance(value, str):
        return scalar_text(value)
    if isinstance(value, dict):
        return {name: _canonical(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_canonical(entry) for entry in value]
    if isinstance(value, int) and abs(value) >= 2**53:
        return float(value)
    return value
