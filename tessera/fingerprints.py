"""Fingerprints of runs: an exact one that only equal inputs share, and MinHash for likeness (section 6).

Promises the same values on every machine and in every batch form, total over any text. MinHash follows Broder
1997 with 32 values out of one SHA-256 a feature; bands follow Indyk and Motwani 1998. Likeness is lexical and
a ranking signal, not a probability. Leaves out search: that is the memory learner's.
"""

import base64
import hashlib
import struct
from collections.abc import Iterable, Sequence
from functools import lru_cache
from typing import Any

from tessera.canonical import digest, dumps, scalar_text, utf8, utf16_key

EXACT_PROFILE = "tessera.exact.v1"
SCHEME = "tessera.minhash.v1"
VALUES = 32
"""Unsigned 32-bit values of a signature."""
BANDS = 4
MAX_WORDS = 512
MAX_TYPE_BYTES = 1024
TYPE_DEPTH = 3
"""Levels of a brief that its type spells out, the brief itself being the first."""
EVIDENCE = ("w:", "ti:", "to:")
"""What begins a feature that says something about the run beside its category."""

_FUNCTION_WORDS = """
about after all also am an and any are as at be because been before being between both but by can could
did do does doing during each for from had has have having he her here him his how if in into is it its
may me might more most must my no nor not of on once only or other our out over own same shall she
should so some such than that the their them then there these they this those through to too under until
up upon us very was we were what when where which while who whom why will with would you your
"""
FUNCTION_WORDS = frozenset(_FUNCTION_WORDS.split())
"""English words that say too little about a problem."""

_SEPARATORS = bytes([*range(0x21), *b"!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~", 0x7F])
SEPARATED = bytes.maketrans(_SEPARATORS, b" " * len(_SEPARATORS))
"""A translation table of UTF-8 bytes: whatever ends a word becomes a space."""
DROPPED = frozenset(
    [
        *(word.encode() for word in FUNCTION_WORDS),
        *(bytes([letter]) for letter in range(ord("a"), ord("z") + 1)),
    ]
)
"""Words, as UTF-8, that say too little: function words and single ASCII letters."""

_GOLDEN = 0x9E3779B9
_MASK = 0xFFFFFFFF


def input_type(brief: Any) -> str:
    """The structural type of a JSON value, such as ``{"goal":str,"pages":[num|str]}``, three levels deep.

    Over MAX_TYPE_BYTES as UTF-8 it is ``sha256:`` and the hex SHA-256 of that text.
    """
    text = _type(brief, 1)
    data = text.encode()
    return text if len(data) <= MAX_TYPE_BYTES else "sha256:" + hashlib.sha256(data).hexdigest()


def _type(value: Any, depth: int) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "bool"
        case int() | float():
            return "num"
        case str():
            return "str"
        case dict():
            if depth > TYPE_DEPTH:
                return "{*}"
            entries = sorted(
                ((scalar_text(name), _type(entry, depth + 1)) for name, entry in value.items()),
                key=lambda entry: (utf16_key(entry[0]), utf16_key(entry[1])),
            )
            return "{" + ",".join(f"{dumps(name).decode()}:{kind}" for name, kind in entries) + "}"
        case list() | tuple():
            if depth > TYPE_DEPTH:
                return "[*]"
            return "[" + "|".join(sorted({_type(entry, depth + 1) for entry in value}, key=utf16_key)) + "]"
    raise TypeError(f"not a JSON value: {type(value).__name__}")


def exact_fingerprint(category: str, input_type: str, input_digest: str | None) -> str | None:
    """Hex digest that runs of one category, type and captured input share; None without an input digest.

    All three are the server's own, so no claim of a worker can merge or split these groups.
    """
    if input_digest is None:
        return None
    return digest(
        {
            "category": scalar_text(category),
            "input_digest": scalar_text(input_digest),
            "input_type": scalar_text(input_type),
            "profile": EXACT_PROFILE,
        }
    )


def words(text: str) -> list[str]:
    """The distinct words of a text in order, at most MAX_WORDS: ASCII case folded, all else as it is."""
    parts = utf8(text).lower().translate(SEPARATED).split()
    kept = dict.fromkeys(part for part in parts if part not in DROPPED)
    return [part.decode() for part in list(kept)[:MAX_WORDS]]


def features(
    category: str,
    wording: Iterable[str],
    problem: str | None = None,
    input_sig: str | None = None,
    output_sig: str | None = None,
) -> list[str]:
    """The distinct features of a run: category, words of its declared types, of its wording and problem.

    ``wording`` holds the texts of the observation's bounded wording in order, ``problem`` is the report's
    ``summaries.problem``, the signatures are its ``learning.types``.
    """
    texts = [*wording] if problem is None else [*wording, problem]
    found = [
        "c:" + scalar_text(category),
        *("ti:" + word for word in words(input_sig or "")),
        *("to:" + word for word in words(output_sig or "")),
        *("w:" + word for word in words("\n".join(texts))),
    ]
    return list(dict.fromkeys(found))


def has_evidence(features: Iterable[str]) -> bool:
    """Whether any feature says something beside the category."""
    return any(feature.startswith(EVIDENCE) for feature in features)


def minhash(features: Sequence[str]) -> tuple[int, ...] | None:
    """The signature of a set of features: VALUES unsigned 32-bit minima; None without evidence.

    The share of equal positions of two signatures estimates the Jaccard overlap of the sets, with a standard
    error near 0.09 at 0.5.
    """
    if not has_evidence(features):
        return None
    return tuple(map(min, zip(*map(_hashes, features), strict=True)))


@lru_cache(maxsize=4096)
def _hashes(feature: str) -> tuple[int, ...]:
    return feature_hashes(utf8(feature))


def feature_hashes(feature: bytes) -> tuple[int, ...]:
    """The VALUES hashes of one feature's UTF-8: its SHA-256 as eight words, each mixed four times apart."""
    digest_words = feature_words(feature)
    return tuple(_fmix32((digest_words[k % 8] + _GOLDEN * (k // 8)) & _MASK) for k in range(VALUES))


def feature_words(feature: bytes) -> tuple[int, ...]:
    """Eight big-endian words of the domain-separated SHA-256 of one feature's UTF-8."""
    return struct.unpack(">8I", hashlib.sha256(SCHEME.encode() + b"\0" + feature).digest())


def _fmix32(value: int) -> int:
    """MurmurHash3's 32-bit finalizer (Appleby)."""
    value = (value ^ (value >> 16)) * 0x85EBCA6B & _MASK
    value = (value ^ (value >> 13)) * 0xC2B2AE35 & _MASK
    return value ^ (value >> 16)


def bands(signature: Sequence[int]) -> tuple[str, ...]:
    """The LSH bands: BANDS texts of two values each, 8 hex digits a value.

    Two runs at similarity J share one with probability 1 − (1 − J²)⁴.
    """
    _check(signature)
    return tuple(f"{signature[2 * band]:08x}{signature[2 * band + 1]:08x}" for band in range(BANDS))


def similarity(a: Sequence[int], b: Sequence[int]) -> float:
    """The share of equal positions, 0..1."""
    _check(a)
    _check(b)
    return sum(mine == yours for mine, yours in zip(a, b, strict=True)) / VALUES


def encode_signature(signature: Sequence[int]) -> str:
    """Standard base64 of the values as big-endian bytes."""
    _check(signature)
    return base64.b64encode(struct.pack(f">{VALUES}I", *signature)).decode("ascii")


def decode_signature(encoded: str) -> tuple[int, ...]:
    """The values of an encoded signature; ValueError when it is not one."""
    data = base64.b64decode(encoded, validate=True)
    if len(data) != 4 * VALUES:
        raise ValueError(f"a signature has {4 * VALUES} bytes, not {len(data)}")
    return struct.unpack(f">{VALUES}I", data)


def _check(signature: Sequence[int]) -> None:
    if len(signature) != VALUES:
        raise ValueError(f"a signature has {VALUES} values, not {len(signature)}")
