"""The execution report: what a worker may claim about a run, judged field by field (contract, section 4).

Promises every fault, depth first in the order of the tables below, with the contract's messages and no
others; a report without faults may be stored as it is. Pure and total over JSON values, lone surrogates and
non-finite numbers included. Leaves out whether a claim is true: claims are never facts.
"""

import math
from collections.abc import Callable, Iterator
from typing import Any

from tessera.canonical import dumps, is_blank, is_scalar_text, utf8, utf16_key
from tessera.errors import Fault

MAX_BYTES = 32_768
OUTCOMES = ("succeeded", "partial", "failed", "blocked", "no_change")

Check = Callable[[Any, str], Iterator[Fault]]


def faults(report: Any, root: str = "execution_report") -> list[Fault]:
    """All faults of a parsed report, empty when it is fine; ``root`` begins each path."""
    found = list(_REPORT(report, root))
    if not found and _canonical_size(report) > MAX_BYTES:
        found.append(Fault(root, f"must be at most {MAX_BYTES} UTF-8 bytes"))
    return found


def _text(limit: int, *, choices: tuple[str, ...] = (), currency: bool = False) -> Check:
    def check(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, str):
            yield Fault(path, "must be a string")
        elif not is_scalar_text(value):
            yield Fault(path, "must be valid Unicode")
        elif is_blank(value):
            yield Fault(path, "must not be blank")
        elif choices and value not in choices:
            yield Fault(path, f"must be one of {', '.join(choices)}")
        elif currency and not is_currency(value):
            yield Fault(path, "must be three letters A-Z")
        elif len(utf8(value)) > limit:
            yield Fault(path, f"must be at most {limit} UTF-8 bytes")

    return check


def is_currency(text: str) -> bool:
    """Whether ``text`` is three letters A–Z."""
    return len(text) == 3 and all("A" <= letter <= "Z" for letter in text)


def as_number(value: Any) -> float | int | None:
    """``value`` if it is a JSON number, infinity when it overflows a double, None when it is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        float(value)
    except OverflowError:
        return float("inf") if value > 0 else float("-inf")
    return value


def is_integer(value: Any) -> bool:
    """Whether ``value`` is a number of integral value: ``1.0`` is, ``true`` and infinity are not."""
    number = as_number(value)
    return number is not None and float(number).is_integer()


def _number(high: int) -> Check:
    def check(value: Any, path: str) -> Iterator[Fault]:
        number = as_number(value)
        if number is None:
            yield Fault(path, "must be a number")
        elif not math.isfinite(number):
            yield Fault(path, "must be a finite number")
        elif not 0 <= number <= high:
            yield Fault(path, f"must be between 0 and {high}")

    return check


def _integer(high: int | None = None) -> Check:
    def check(value: Any, path: str) -> Iterator[Fault]:
        if not is_integer(value):
            yield Fault(path, "must be an integer")
        elif high is None and value < 1:
            yield Fault(path, "must be at least 1")
        elif high is not None and not 0 <= value <= high:
            yield Fault(path, f"must be between 0 and {high}")

    return check


def _nullable(check: Check) -> Check:
    def nullable(value: Any, path: str) -> Iterator[Fault]:
        if value is not None:
            yield from check(value, path)

    return nullable


def _array(limit: int, item: Check) -> Check:
    def check(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield Fault(path, "must be an array")
        elif len(value) > limit:
            yield Fault(path, f"must have at most {limit} items")
        else:
            for position, entry in enumerate(value):
                yield from item(entry, f"{path}[{position}]")

    return check


def _object(fields: dict[str, Check], *, required: bool = False) -> Check:
    def check(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield Fault(path, "must be an object")
            return
        for name, field in fields.items():
            if name in value:
                yield from field(value[name], f"{path}.{name}")
            elif required:
                yield Fault(f"{path}.{name}", "is required")
        for name in sorted((name for name in value if name not in fields), key=utf16_key):
            yield Fault(f"{path}.{name}", "is not a known field")

    return check


_STRINGS = _array(8, _text(512))
_UNKNOWNS_LIMIT = 16

_LEARNING_FIELDS: dict[str, Check] = {
    "outcome": _text(512, choices=OUTCOMES),
    "went_right": _STRINGS,
    "went_wrong": _STRINGS,
    "next_steps": _STRINGS,
    "ideas": _STRINGS,
    "types": _object({"input": _text(256), "output": _text(256)}),
    "path": _object({"shim": _text(128), "method": _text(128)}),
    "reasoning_summary": _text(2048),
    "duration_seconds": _nullable(_number(10**9)),
    "cost": _nullable(
        _object(
            {"amount": _number(10**12), "currency": _text(3, currency=True), "source": _text(128)},
            required=True,
        )
    ),
    "unknowns": _array(_UNKNOWNS_LIMIT, _object({"field": _text(128), "reason": _text(512)}, required=True)),
    "advice": _array(
        8,
        _object(
            {
                "learner": _text(256),
                "strategy": _text(256),
                "version": _integer(),
                "store": _text(256),
                "key": _text(256),
                "record_version": _integer(),
            },
            required=True,
        ),
    ),
}


def _learning(value: Any, path: str) -> Iterator[Fault]:
    """The block; a null measurement must be explained where the worker lists what it could not take."""
    explained = _explained(value)

    def measured(name: str) -> Check:
        def check(entry: Any, place: str) -> Iterator[Fault]:
            if entry is None and name not in explained:
                yield Fault(place, "must be listed in unknowns when null")
            else:
                yield from _LEARNING_FIELDS[name](entry, place)

        return check

    fields = {
        name: measured(name) if name in _MEASURED else check for name, check in _LEARNING_FIELDS.items()
    }
    yield from _object(fields)(value, path)


_MEASURED = ("duration_seconds", "cost")


def _explained(learning: Any) -> set[str]:
    """The fields that ``unknowns`` names; a list that is too long is not looked into."""
    unknowns = learning.get("unknowns") if isinstance(learning, dict) else None
    if not isinstance(unknowns, list) or len(unknowns) > _UNKNOWNS_LIMIT:
        return set()
    names = [entry.get("field") for entry in unknowns if isinstance(entry, dict)]
    return {name for name in names if isinstance(name, str)}


_TOKENS = _integer(10**12)

_REPORT = _object(
    {
        "summaries": _object({"problem": _text(4096), "solution": _text(4096)}),
        "harness": _text(128),
        "model": _nullable(_text(128)),
        "usage": _object({"input_tokens": _TOKENS, "output_tokens": _TOKENS, "total_tokens": _TOKENS}),
        "learning": _learning,
    }
)


def _canonical_size(report: Any) -> int:
    """Bytes of a faultless report as canonical JSON."""
    return len(dumps(_plain(report)))


def _plain(value: Any) -> Any:
    """``value`` as canonical JSON can say it: split pairs joined, integers beyond 2^53 as doubles."""
    if isinstance(value, str):
        return utf8(value).decode()
    if isinstance(value, dict):
        return {name: _plain(entry) for name, entry in value.items()}
    if isinstance(value, list):
        return [_plain(entry) for entry in value]
    if isinstance(value, int) and abs(value) >= 2**53:
        return float(value)
    return value
