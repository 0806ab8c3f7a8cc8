"""Canonical JSON (RFC 8785), its digest, and the text rules that every pure function shares.

Promises: equal values give equal bytes everywhere, so a digest can be recomputed by anyone. ``dumps`` refuses
what JCS cannot say (integers beyond ±(2^53 − 1), non-finite numbers, lone surrogates); the text functions are
total. Leaves out reading: that is the door's work.
"""

import codecs
import hashlib
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
    return rfc8785.dumps(value)


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
