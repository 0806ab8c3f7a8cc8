"""Canonical JSON (RFC 8785), its digest, and the text rules that every pure function shares.

Promises: equal values give equal bytes everywhere, so a digest can be recomputed by anyone. ``dumps`` refuses
what JCS cannot say (integers beyond ±(2^53 − 1), non-finite numbers, lone surrogates); the text functions are
total. Leaves out reading: that is the door's work.
"""

import codecs
import hashlib
import json
from typing import Any

import rfc8785

codecs.lookup(
    "utf-16-be"
)  # what rfc8785 sorts by: a codec is a file, and there may be no handle for it later

_BLANKS = "\t\n\v\f\r "


def dumps(value: Any) -> bytes:
    """Canonical JSON of a JSON value, as UTF-8.

    Raises ValueError for what RFC 8785 cannot say: an integer beyond ±(2^53 − 1), NaN or infinity, a lone
    surrogate, a key that is not text, a value that is not JSON.
    """
    try:
        return _encode(_same_in_json(value)).encode()
    except (_NotTheSame, TypeError, UnicodeEncodeError):
        return rfc8785.dumps(value)


class _NotTheSame(Exception):  # noqa: N818 - not an error: the library says it then
    """A value that Python's own encoder may not write as RFC 8785 does."""


# Written in C: several times as fast as the library, which says whatever the two might not say alike.
_encode = json.JSONEncoder(
    ensure_ascii=False, allow_nan=False, separators=(",", ":"), sort_keys=True, check_circular=False
).encode
_SAFE = 2**53 - 1
_AS_THEY_ARE = frozenset({str, bool, type(None)})


def _same_in_json(value: Any) -> Any:
    """The value, whole floats as integers, when JSON sorted by code points is its canonical form.

    That is so for keys in ASCII, for integers in the safe range, and for floats from 0.0001 to 10^16: there
    Python writes the shortest digits without an exponent, as RFC 8785 does. Raises _NotTheSame otherwise.
    """
    kind = type(value)
    if kind in _AS_THEY_ARE:
        return value
    if kind is dict:
        same = {
            key: held if type(held) in _AS_THEY_ARE else _same_in_json(held) for key, held in value.items()
        }
        if not "".join(same).isascii():
            raise _NotTheSame
        return same
    if kind is list:
        return [held if type(held) in _AS_THEY_ARE else _same_in_json(held) for held in value]
    if kind is int and -_SAFE <= value <= _SAFE:
        return value
    if kind is float and (1e-4 <= value <= _SAFE or -_SAFE <= value <= -1e-4 or value == 0):
        return int(value) if value.is_integer() else value
    raise _NotTheSame


def digest(value: Any) -> str:
    """Lowercase hex SHA-256 of the canonical JSON of ``value``."""
    return hashlib.sha256(dumps(value)).hexdigest()


def is_scalar_text(text: str) -> bool:
    """Whether UTF-8 can carry ``text``; a high half before a low half is the character they spell."""
    if text.isascii():
        return True
    try:
        text.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
    except UnicodeDecodeError:
        return False
    return True


def scalar_text(text: str) -> str:
    """``text`` with each lone surrogate as U+FFFD, each high half before a low half as their one character.

    Total, and what JavaScript's TextEncoder writes.
    """
    if text.isascii():
        return text
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def utf8(text: str) -> bytes:
    """The UTF-8 bytes of ``scalar_text(text)``; total."""
    return scalar_text(text).encode()


def utf16_key(text: str) -> bytes:
    """A sort key: bytes that compare as the text's UTF-16 code units, the order of RFC 8785."""
    return text.encode("utf-16-be", "surrogatepass")


def is_blank(text: str) -> bool:
    """Whether ``text`` is empty or only U+0009–U+000D and U+0020; other white space counts as text."""
    return not text.strip(_BLANKS)
