"""The strict door for JSON: every body, argument and imported line passes here (contract, section 2).

Promises that what comes through can be written as canonical JSON and read back the same, and that all else is
refused with the place: ``Malformed`` (400, line and column) for what is not JSON in UTF-8, repeats a key, has
a lone surrogate or NaN; ``Invalid`` (422, paths) for numbers and nesting beyond the bounds. What is malformed
is not judged further, however deep it nests. The time is in proportion to the bytes, whatever they are.
Counting the bytes as they stream is left to the faces, against the limits below.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator
from itertools import islice
from typing import Any

import jiter

from tessera.errors import Fault, Invalid, Malformed

MAX_BODY = 1 << 20
"""Bytes of an ordinary body."""
MAX_BULK = 16 << 20
"""Bytes of a body of records or of an import."""
MAX_DEPTH = 64
"""Levels of nesting, the body itself being the first."""
MAX_INTEGER = 2**53 - 1
"""The largest integral value, either side of zero."""
MAX_FAULTS = 100
"""Faults that one refusal lists; further ones show once these are repaired."""
_MAX_PATHS = 1 << 16  # characters of all paths of one refusal: a long key above many faults must not multiply
_MAX_MESSAGE = 120
_PARSER_DIGITS = 4_300  # the parser reads no number of more digits than this before its point

_OVERFLOW = "must not overflow a double"
_TOO_LARGE = f"must be within ±{MAX_INTEGER}"
_TOO_DEEP = f"must not nest over {MAX_DEPTH} levels"

# A number can be out of bounds only with 16 digits before its point or with an exponent. May hit inside a
# text, which costs a walk and nothing else.
_SUSPECT_NUMBER = re.compile(rb"(?:\A|[\[:,\s])-?[0-9](?:[0-9]{15}|[0-9.]*+[eE])")

# What such a number looks like to a search that is nearly free: sixteen digits, or an e behind a digit.
_DIGITS_AND_E = bytes(
    0x30 if byte in b"0123456789." else 0x65 if byte in b"eE" else 0x20 for byte in range(256)
)

_W = rb"[ \t\n\r]*+"
_STRING = (
    rb'"(?:[^"\\\x00-\x1f]++|\\(?:["\\/bfnrt]|u(?:(?![dD][89a-fA-F])[0-9a-fA-F]{4}'
    rb'|[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})))*+"'
)
_NUMBER = rb"-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+"
_SCALAR = b"(?:" + _STRING + b"|" + _NUMBER + rb"|true|false|null)"
_KEY = _STRING + _W + b":" + _W
_ELEMENTS = rb"\[" + _W + b"(?:" + _SCALAR + _W + b"," + _W + b")*+"
_MEMBERS = rb"\{" + _W + b"(?:" + _KEY + _SCALAR + _W + b"," + _W + b")*+" + _KEY
# Containers opened one in another, with the scalars before the next one, are one token, and so are closing
# brackets: what nests deep comes in few tokens.
_TOKEN = re.compile(
    b"%b(?:((?:%b|%b)++)|((?:[]}]%b)++)|({)|(,)|(%b)|(%b)|(.))"
    % (_W, _ELEMENTS, _MEMBERS, _W, _KEY, _SCALAR),
    re.DOTALL,
)
_IS_DESCENT, _IS_CLOSE, _IS_BRACE, _IS_COMMA, _IS_KEY, _IS_SCALAR = range(1, 7)
_TEXT_OR_BRACKET = re.compile(_STRING + rb"|[\[{]")
_NOT_A_BRACKET = bytes(set(range(256)) - set(b"[{]}"))
_OPENING = bytes.maketrans(b"]}", b"[{")

# Any number or text; an unclosed text runs to the end, so that no byte is tried twice.
_NUMBER_OR_TEXT = re.compile(rb'"(?:[^"\\]++|\\.)*+"?|[0-9][0-9.eE+-]*+', re.DOTALL)
_LONG_NUMBER = re.compile(rb"[1-9][0-9]*+(?:\.[0-9]++)?+(?:[eE][+-]?[0-9]++)?+")
_POSITION = re.compile(r"(.*) at line (\d+) column (\d+)", re.DOTALL)


def loads(data: bytes, *, root: str = "") -> Any:
    """Read one JSON value from UTF-8 bytes; ``root`` begins each path.

    Raises Malformed (400) with line and column, both from 1 and the column in characters, in its detail, its
    errors and as members ``line`` and ``column``. Raises Invalid (422) with a fault for each value out of
    bounds, in document order, at most MAX_FAULTS.
    """
    value = _parse(data, root)
    nested = data.count(b"[") + data.count(b"{") > MAX_DEPTH
    if (nested or _suspect(data)) and not _within_bounds(value):
        raise _invalid(value, root)
    return value


def _suspect(data: bytes) -> bool:
    """Whether a number may be out of bounds."""
    plain = data.translate(_DIGITS_AND_E)
    return (b"0" * 16 in plain or b"0e" in plain) and _SUSPECT_NUMBER.search(data) is not None


def loads_around(data: bytes, *names: str) -> Any:
    """Read a message of another protocol that carries a body at ``names``, such as ``params, arguments``.

    Malformed is judged of the whole message. Bounds are those of the body alone, whose levels and paths begin
    at its own root; the protocol judges the rest. Raises as ``loads`` does.
    """
    value = body = _parse(data, "")
    for name in names:
        body = body.get(name) if type(body) is dict else None
    if not _within_bounds(body):
        raise _invalid(body, "")
    return value


def _parse(data: bytes, root: str) -> Any:
    try:
        return jiter.from_json(data, allow_inf_nan=False, catch_duplicate_keys=True)
    except ValueError as error:
        found = _POSITION.fullmatch(str(error))
    message, line, column = (found[1], int(found[2]), int(found[3])) if found else ("unreadable", 1, 1)
    if message.startswith("number out of range") and (rewritten := _shorten_numbers(data)) != data:
        return _parse(rewritten, root)
    if message.startswith("recursion limit exceeded"):
        raise _refusal_of_depth(data, root)
    start = bisect_left(range(len(data)), line - 1, key=lambda end: data.count(b"\n", 0, end))
    raise _malformed(root, message, line, _characters(data[start : start + column]))


def _characters(line: bytes) -> int:
    """A column in characters, from 1, out of the bytes of a line up to and with the place."""
    return max(1, len(line.decode("utf-8", "replace")))


def _malformed(root: str, message: str, line: int, column: int) -> Malformed:
    if len(message) > _MAX_MESSAGE:  # it may quote a key
        message = message[:_MAX_MESSAGE] + "…"
    place = f"{message} at line {line} column {column}"
    return Malformed(
        f"the body is not well-formed JSON: {place}",
        errors=[Fault(root, f"is not well-formed JSON: {place}")],
        extra={"line": line, "column": column},
    )


def _malformed_at(data: bytes, root: str, offset: int, message: str) -> Malformed:
    line = data.count(b"\n", 0, offset) + 1
    start = data.rfind(b"\n", 0, offset) + 1
    return _malformed(root, message, line, _characters(data[start : offset + 1]))


def _within_bounds(value: Any) -> bool:
    """Whether nothing in ``value`` is out of bounds, level by level."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        if any(
            not -MAX_INTEGER <= entry <= MAX_INTEGER
            for entry in level
            if type(entry) is int or type(entry) is float
        ):
            return False
        containers = [
            entry.values() if type(entry) is dict else entry for entry in level if type(entry) in _HOLDS
        ]
        level = [entry for container in containers for entry in container if type(entry) in _JUDGED]
        if not containers:
            return True
    return False


_HOLDS = frozenset({dict, list})
_JUDGED = frozenset({dict, list, float, int})


def _invalid(value: Any, root: str) -> Invalid:
    """The refusal of what is out of bounds: one fault at least, and no more than are listed."""
    kept: list[Fault] = []
    characters = 0
    for fault in islice(_faults(value, root, 1), MAX_FAULTS):
        characters += len(fault.path)
        if kept and characters > _MAX_PATHS:
            break
        kept.append(fault)
    return Invalid("the body holds values that cannot be kept", errors=kept)


def _faults(value: Any, path: str, depth: int) -> Iterator[Fault]:
    """The values out of bounds, in document order."""
    if type(value) in _HOLDS:
        if depth > MAX_DEPTH:
            yield Fault(path, _TOO_DEEP)
            return
        prefix = path and path + "."
        for name, entry in value.items() if type(value) is dict else enumerate(value):
            if type(entry) in _JUDGED:
                place = f"{path}[{name}]" if type(name) is int else f"{prefix}{name}"
                yield from _faults(entry, place, depth + 1)
    elif not -MAX_INTEGER <= value <= MAX_INTEGER:
        yield Fault(path, _OVERFLOW if _overflows(value) else _TOO_LARGE)


def _overflows(value: int | float) -> bool:
    try:
        return float(value) in (float("inf"), float("-inf"))
    except OverflowError:
        return True


def _shorten_numbers(data: bytes) -> bytes:
    """Each number too long for the parser written shorter, in the same place and of the same value."""

    def shorter(found: re.Match[bytes]) -> bytes:
        token = found[0]
        if len(token) <= _PARSER_DIGITS or not _LONG_NUMBER.fullmatch(token):
            return token
        value = float(token)
        return (b"1e999" if value == float("inf") else repr(value).encode()).ljust(len(token))

    return _NUMBER_OR_TEXT.sub(shorter, data)


def _refusal_of_depth(data: bytes, root: str) -> Malformed | Invalid:
    """The refusal of what nests deeper than the parser reads: as malformed if it is, else for its nesting.

    Faults are listed up to the first container that is too deep.
    """
    try:
        data.decode()
    except UnicodeDecodeError as error:
        return _malformed_at(data, root, error.start, "invalid unicode code point")
    cut, wrong, message = _scan(data.rstrip(b" \t\n\r"))
    if message:
        return _malformed_at(data, root, wrong, message)
    return _invalid(jiter.from_json(data[:cut], partial_mode=True), root)


def _scan(data: bytes) -> tuple[int, int, str]:
    """Judge a text of any depth in one pass over its tokens, without recursion.

    Answers where to cut it just inside its first container that is too deep, where it goes wrong, and how (""
    when it is well-formed). Repeated keys are not looked for: the text is refused for its nesting anyhow.
    """
    stack = bytearray()  # the open containers, a bracket each
    cut, state = 0, _VALUE
    for token in _TOKEN.finditer(data):
        kind = token.lastindex
        if kind == _IS_DESCENT and state in (_VALUE, _FIRST_VALUE):
            brackets = _brackets(token[1])
            if not cut and len(stack) + len(brackets) > MAX_DEPTH:
                cut = token.start(1) + _end_of_bracket(token[1], MAX_DEPTH - len(stack))
            stack += brackets
            state = _FIRST_VALUE if token[1].rstrip().endswith(b"[") else _VALUE
        elif kind == _IS_CLOSE and state in (_AFTER, _FIRST_VALUE, _FIRST_KEY):
            closed = _brackets(token[2]).translate(_OPENING)[::-1]
            if not stack.endswith(closed):
                return cut, token.start(2), "unexpected closing bracket"
            del stack[len(stack) - len(closed) :]
            state = _AFTER
        elif kind == _IS_BRACE and state in (_VALUE, _FIRST_VALUE):
            stack += b"{"
            cut = cut or (token.end() if len(stack) > MAX_DEPTH else 0)
            state = _FIRST_KEY
        elif kind == _IS_COMMA and state == _AFTER and stack:
            state = _KEY_NEXT if stack.endswith(b"{") else _VALUE
        elif kind == _IS_KEY and state == _KEY_NEXT:
            state = _VALUE
        elif kind == _IS_SCALAR and state in (_VALUE, _FIRST_VALUE):
            state = _AFTER
        else:
            return cut, token.start(kind or 0), "unexpected token"
    return cut, len(data), "EOF while parsing" if stack or state != _AFTER else ""


_VALUE, _FIRST_VALUE, _AFTER, _KEY_NEXT, _FIRST_KEY = range(5)  # FIRST: just opened, so it may close at once
_TEXT = re.compile(_STRING)


def _brackets(token: bytes) -> bytes:
    """The brackets of a token that stand outside its texts."""
    return (_TEXT.sub(b"", token) if b'"' in token else token).translate(None, _NOT_A_BRACKET)


def _end_of_bracket(descent: bytes, number: int) -> int:
    """Where the opening bracket of that number, from 0, ends."""
    brackets = (found for found in _TEXT_OR_BRACKET.finditer(descent) if not found[0].startswith(b'"'))
    return next(islice(brackets, number, None)).end()
