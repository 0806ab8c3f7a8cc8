"""Checks that the bodies of nouns need beside those of `tessera.checks`: lower bounds, names, options.

Promises the store's own messages and its order of faults: depth first, known fields as declared, then unknown
ones, sorted. Leaves out which nouns there are.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from tessera.checks import Check, unknown_fields, within
from tessera.errors import Fault

LARGEST = 2**53 - 1
NAME = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-")


def integer(low: int, high: int = LARGEST) -> Check:
    """A number of integral value within bounds; ``2.0`` is one, a boolean is not."""

    def check(value: Any, path: str) -> Iterator[Fault]:
        whole = isinstance(value, int) or (isinstance(value, float) and value.is_integer())
        if isinstance(value, bool) or not whole:
            yield Fault(path, "must be an integer")
        elif value < low and high == LARGEST:
            yield Fault(path, f"must be at least {low}")
        elif not low <= value <= high:
            yield Fault(path, f"must be between {low} and {high}")

    return check


def true(value: Any, path: str) -> Iterator[Fault]:
    """Nothing but true: a promise that a body has to make."""
    if value is not True:
        yield Fault(path, "must be true")


def name(value: Any, path: str) -> Iterator[Fault]:
    """A queue, store or part of a key: 1 to 64 of ``[A-Za-z0-9._-]``."""
    if not isinstance(value, str):
        yield Fault(path, "must be a string")
    elif not 1 <= len(value) <= 64 or not set(value) <= NAME:
        yield Fault(path, "must be 1 to 64 characters of A-Z a-z 0-9 . _ -")


def some(check: Check) -> Check:
    """An array, as ``check`` says, that is not empty."""

    def checked(value: Any, path: str) -> Iterator[Fault]:
        yield from check(value, path)
        if isinstance(value, list) and not value:
            yield Fault(path, "must have at least 1 item")

    return checked


def mapping(fields: Mapping[str, Check], optional: Mapping[str, Check] | None = None) -> Check:
    """An object with exactly these fields, the optional ones where present."""
    known = {**fields, **(optional or {})}

    def check(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, Mapping):
            yield Fault(path, "must be an object")
            return
        for field, of in known.items():
            if field in value:
                yield from of(value[field], within(path, field))
            elif field in fields:
                yield Fault(within(path, field), "is required")
        yield from unknown_fields(value, known, path)

    return check


def free(value: Any, path: str) -> Iterator[Fault]:
    """Any object; what it may hold is for someone else to say."""
    if not isinstance(value, Mapping):
        yield Fault(path, "must be an object")
