"""Fingerprints: short real texts to signatures of 32 values, tokenization included.

Each peer gets the words that ours would take, found by the scalar form; what it hashes and how is its own.
"""

import numpy as np
import polars as pl
from datasketch import MinHash
from rensa import RMinHash

from bench.table import Line, median_seconds, rates
from bench.texts import sentences
from learners.fingerprints import signatures
from tessera.fingerprints import features, minhash, words

VALUES = 32


def lines(*, quick: bool) -> list[Line]:
    """Beside datasketch, in bulk and one by one, and beside rensa."""
    texts = sentences(20_000 if quick else 200_000)
    column, kind = pl.Series(texts), pl.Series(["verb.read"]).new_from_index(0, len(texts))
    ours = median_seconds(lambda: signatures(kind, [column]), 3)
    found = signatures(kind, [column])
    for place in range(0, len(texts), 997):  # the batch form is the scalar form, to the bit
        assert tuple(found.values[place].tolist()) == minhash(features("verb.read", [texts[place]]))
    few = texts[: len(texts) // 20]
    peers = {
        "datasketch, bulk": (median_seconds(lambda: in_bulk(texts), 1), "≥ 20 ×"),
        "datasketch, one by one": (median_seconds(lambda: one_by_one(few), 1) * 20, ""),
        "rensa, bulk": (median_seconds(lambda: by_rensa(texts), 3), "≥ 3 ×"),
    }
    return rates(
        f"fingerprints, {len(texts) // 1000} k texts",
        len(texts),
        ours,
        peers,
        "cutting texts into words",
        "texts/s",
    )


def in_bulk(texts: list[str]) -> object:
    """Every text at once, as datasketch does it fastest."""
    return MinHash.bulk([[word.encode() for word in words(text)] for text in texts], num_perm=VALUES)


def one_by_one(texts: list[str]) -> object:
    """As its documentation begins."""
    made = []
    for text in texts:
        one = MinHash(num_perm=VALUES)
        for word in words(text):
            one.update(word.encode())
        made.append(one)
    return made


def by_rensa(texts: list[str]) -> object:
    """The matrix of digests, its fastest way for token sets."""
    digests = RMinHash.digest_matrix_from_token_sets([words(text) for text in texts], VALUES, 1)
    return np.asarray(digests) if not hasattr(digests, "shape") else digests
