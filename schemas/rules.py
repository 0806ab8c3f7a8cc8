"""Rules for the bodies of nouns: small functions that say what is wrong with one value, and where.

Promises the store's own messages and its order of faults: depth first, known fields as declared, then unknown
ones, sorted. Leaves out which nouns there are.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from tessera.canonical import is_blank, is_scalar_text, utf8, utf16_key
from tessera.errors import Fault
from tessera.reports import as_number, is_integer

Rule: TypeAlias = Callable[[Any, str], Iterator[Fault]]

LARGEST = 2**53 - 1
NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def text(limit: int = 256) -> Rule:
    """A nonblank string of at most ``limit`` bytes."""

    def rule(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, str):
            yield Fault(path, "must be a string")
        elif not is_scalar_text(value):
            yield Fault(path, "must be valid Unicode")
        elif is_blank(value):
            yield Fault(path, "must not be blank")
        elif len(utf8(value)) > limit:
            yield Fault(path, f"must be at most {limit} UTF-8 bytes")

    return rule


def choice(*allowed: Any) -> Rule:
    """One of the allowed values."""

    def rule(value: Any, path: str) -> Iterator[Fault]:
        if not any(value is one or (isinstance(value, str) and value == one) for one in allowed):
            yield Fault(path, f"must be one of {', '.join(str(one) for one in allowed)}")

    return rule


def integer(low: int, high: int = LARGEST) -> Rule:
    """An integer within bounds; ``2.0`` is one, a boolean is not."""

    def rule(value: Any, path: str) -> Iterator[Fault]:
        if not is_integer(value):
            yield Fault(path, "must be an integer")
        elif not low <= value <= high:
            yield Fault(
                path, f"must be at least {low}" if high == LARGEST else f"must be between {low} and {high}"
            )

    return rule


def number(low: float, high: float) -> Rule:
    """A finite number within bounds."""

    def rule(value: Any, path: str) -> Iterator[Fault]:
        given = as_number(value)
        if given is None:
            yield Fault(path, "must be a number")
        elif not math.isfinite(given):
            yield Fault(path, "must be a finite number")
        elif not low <= given <= high:
            yield Fault(path, f"must be between {low} and {high}")

    return rule


def name(limit: int = 64) -> Rule:
    """A queue or store: 1 to ``limit`` of ``[A-Za-z0-9._-]``."""

    def rule(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, str):
            yield Fault(path, "must be a string")
        elif not 1 <= len(value) <= limit or not set(value) <= NAME:
            yield Fault(path, f"must be 1 to {limit} characters of A-Z a-z 0-9 . _ -")

    return rule


def array(of: Rule, at_most: int, at_least: int = 0) -> Rule:
    """A list whose items keep ``of``. One that is too long is not looked into."""

    def rule(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield Fault(path, "must be an array")
        elif len(value) > at_most:
            yield Fault(path, f"must have at most {at_most} items")
        elif len(value) < at_least:
            yield Fault(path, f"must have at least {at_least} items")
        else:
            for position, item in enumerate(value):
                yield from of(item, f"{path}[{position}]")

    return rule


def mapping(fields: Mapping[str, Rule], optional: Mapping[str, Rule] | None = None) -> Rule:
    """An object with exactly these fields, the optional ones where present."""
    known = {**fields, **(optional or {})}

    def rule(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, Mapping):
            yield Fault(path, "must be an object")
            return
        for field, of in known.items():
            where = f"{path}.{field}" if path else field
            if field in value:
                yield from of(value[field], where)
            elif field in fields:
                yield Fault(where, "is required")
        for field in sorted((key for key in value if key not in known), key=utf16_key):
            yield Fault(f"{path}.{field}" if path else field, "is not a known field")

    return rule


def anything(value: Any, path: str) -> Iterator[Fault]:
    """No rule: the value is judged elsewhere."""
    yield from ()


def free(value: Any, path: str) -> Iterator[Fault]:
    """Any object; what it may hold is the learner's to say."""
    if not isinstance(value, Mapping):
        yield Fault(path, "must be an object")
