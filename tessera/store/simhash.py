"""SimHash (Charikar 2002) of a run's words, cut into bands: what the synchronous baseline finds likeness by.

64 bits, each the sign of a vote among the words' hashes; two texts that differ in few words differ in few
bits. Eight bands of eight bits: texts at most seven bits apart share one. Pure.
"""

import hashlib
from collections.abc import Iterable
from functools import lru_cache

BITS = 64
BANDS = 8


def simhash(words: Iterable[str]) -> int | None:
    """The 64-bit fingerprint of a set of words; None when there are none."""
    votes = 0
    total = 0
    for word in words:
        votes += _votes(word)
        total += 1
    if not total:
        return None
    # A lane's highest bit becomes 1 where twice its votes exceed the total.
    judged = 2 * votes + (_HALF - 1 - total) * _ONES
    return int(judged.to_bytes(2 * BITS, "big")[::2].translate(_HIGHEST), 2)


def bands(fingerprint: int) -> list[int]:
    """Its eight bytes, most significant first."""
    return list(fingerprint.to_bytes(BANDS, "big"))


def distance(one: int | None, other: int | None) -> int | None:
    """In how many bits two fingerprints differ, 0 to 64; None when one is unknown."""
    return None if one is None or other is None else (one ^ other).bit_count()


def signed(fingerprint: int | None) -> int | None:
    """The same 64 bits as a database keeps them."""
    return fingerprint if fingerprint is None or fingerprint < _SIGN else fingerprint - 2 * _SIGN


def unsigned(kept: int | None) -> int | None:
    """The fingerprint that a database keeps."""
    return kept if kept is None or kept >= 0 else kept + 2 * _SIGN


_SIGN = 1 << (BITS - 1)
_LANE = 16  # more than enough for 512 words
_HALF = 1 << (_LANE - 1)
_ONES = sum(1 << (bit * _LANE) for bit in range(BITS))
_HIGHEST = bytes(0x31 if byte & 0x80 else 0x30 for byte in range(256))
_BYTE = [sum(((byte >> bit) & 1) << (bit * _LANE) for bit in range(8)) for byte in range(256)]


@lru_cache(maxsize=16_384)  # a fleet's runs share most of their words
def _votes(word: str) -> int:
    """The word's hash, each bit in a lane of 16 bits, so that one addition counts 64 votes."""
    return _spread(int.from_bytes(hashlib.blake2b(word.encode(), digest_size=8).digest(), "big"))


def _spread(value: int) -> int:
    spread = 0
    for byte in value.to_bytes(8, "big"):
        spread = (spread << (8 * _LANE)) | _BYTE[byte]
    return spread
