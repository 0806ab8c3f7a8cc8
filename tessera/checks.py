"""Checks of JSON values that name each fault by path, in the words of the contract (section 4).

A check takes a value and its path and yields faults. One value gets one message, the first that applies, in
the order type, Unicode, blank, choice or form, size, range. Pure and total over JSON values, lone surrogates
and non-finite numbers included. Leaves out what the fields are: reports and attempts say that.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tessera.canonical import is_blank, is_scalar_text, utf8, utf16_key
from tessera.errors import Fault

Check = Callable[[Any, str], Iterator[Fault]]


def within(path: str, name: str) -> str:
    """The path of a field of what is at ``path``, "" being the body's root."""
    return f"{path}.{name}" if path else name


def text(
    limit: int, *, choices: tuple[str, ...] = (), form: "Form | None" = None, may_be_blank: bool = False
) -> Check:
    """A string of at most ``limit`` UTF-8 bytes, of the choices or the form if there are any."""

    def check(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, str):
            yield Fault(path, "must be a string")
        elif not is_scalar_text(value):
            yield Fault(path, "must be valid Unicode")
        elif not may_be_blank and is_blank(value):
            yield Fault(path, "must not be blank")
        elif choices and value not in choices:
            yield Fault(path, f"must be one of {', '.join(choices)}")
        elif form and not form[0](value):
            yield Fault(path, form[1])
        elif len(utf8(value)) > limit:
            yield Fault(path, f"must be at most {limit} UTF-8 bytes")

    return check


Form = tuple[Callable[[str], object], str]
"""What a text must look like, and the message when it does not."""


def _is_currency(value: str) -> bool:
    return len(value) == 3 and all("A" <= letter <= "Z" for letter in value)


CURRENCY = text(3, form=(_is_currency, "must be three letters A-Z"))


def boolean(value: Any, path: str) -> Iterator[Fault]:
    """True or false, and no number or text that stands for them."""
    if not isinstance(value, bool):
        yield Fault(path, "must be a boolean")


def number(high: int) -> Check:
    """A finite number in 0..high; a boolean is none."""

    def check(value: Any, path: str) -> Iterator[Fault]:
        found = _as_number(value)
        if found is None:
            yield Fault(path, "must be a number")
        elif not math.isfinite(found):
            yield Fault(path, "must be a finite number")
        elif not 0 <= found <= high:
            yield Fault(path, f"must be between 0 and {high}")

    return check


def integer(high: int | None = None) -> Check:
    """A number of integral value (``1.0`` is one), in 0..high or, without a bound, at least 1."""

    def check(value: Any, path: str) -> Iterator[Fault]:
        found = _as_number(value)
        if found is None or not float(found).is_integer():
            yield Fault(path, "must be an integer")
        elif high is None and found < 1:
            yield Fault(path, "must be at least 1")
        elif high is not None and not 0 <= found <= high:
            yield Fault(path, f"must be between 0 and {high}")

    return check


def _as_number(value: Any) -> float | int | None:
    """``value`` if it is a JSON number, infinite when it overflows a double; None when it is no number."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf
    return value


def nullable(check: Check) -> Check:
    """Null, or what ``check`` takes."""

    def checked(value: Any, path: str) -> Iterator[Fault]:
        if value is not None:
            yield from check(value, path)

    return checked


def array(limit: int, item: Check) -> Check:
    """At most ``limit`` items; an array that is too long is not looked into."""

    def check(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, list):
            yield Fault(path, "must be an array")
        elif len(value) > limit:
            yield Fault(path, f"must have at most {limit} items")
        else:
            for position, entry in enumerate(value):
                yield from item(entry, f"{path}[{position}]")

    return check


def record(fields: Mapping[str, Check], *, required: bool = False) -> Check:
    """An object of known fields, each there if ``required``; unknown ones come last, sorted."""

    def check(value: Any, path: str) -> Iterator[Fault]:
        if not isinstance(value, dict):
            yield Fault(path, "must be an object")
            return
        for name, field in fields.items():
            if name in value:
                yield from field(value[name], within(path, name))
            elif required:
                yield Fault(within(path, name), "is required")
        yield from unknown_fields(value, fields, path)

    return check


def unknown_fields(value: Mapping[str, Any], known: Mapping[str, Any], path: str) -> Iterator[Fault]:
    """A fault for each field of ``value`` that is not known, sorted by UTF-16 code units."""
    for name in sorted((name for name in value if name not in known), key=utf16_key):
        yield Fault(within(path, name), "is not a known field")
