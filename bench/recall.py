"""Recall: the ten most alike of many entries, by an exact scan and by bands, beside datasketch's LSH.

All search the same signatures; datasketch's are ranked by its own estimate. How many of the exact scan's ten
each finds is printed beside it.
"""

import time
from collections.abc import Callable
from heapq import nlargest

import numpy as np
import numpy.typing as npt
import polars as pl
from datasketch import LeanMinHash, MinHashLSH

from bench.table import Line
from learners.fingerprints import signatures
from tessera.advice.columns import Columns
from tessera.advice.shapes import LEAST_EQUAL
from tessera.fingerprints import VALUES

TOP = 10
QUERIES = 200
Values = npt.NDArray[np.uint32]
Search = Callable[[list[int]], list[int]]


def lines(*, quick: bool) -> list[Line]:
    """For each size the exact scan and the bands, each beside datasketch."""
    found = []
    for size, reach_exact, reach_bands in (
        (20_000, "≥ 3 ×", ""),
        (200_000, "≥ 3 ×", "≥ 8 ×"),
        (1_000_000, "", "≥ 8 ×"),
    ):
        if quick and size > 20_000:
            continue
        found += _of_size(size, reach_exact, reach_bands)
    return found


def _of_size(size: int, reach_exact: str, reach_bands: str) -> list[Line]:
    values = sample(size)
    dice = np.random.default_rng(3)
    queries = [values[place].tolist() for place in dice.integers(size, size=QUERIES)]
    started = time.perf_counter()
    columns = Columns.of_arrays(values)
    columns.search(queries[0], None, 0)
    built = time.perf_counter() - started
    columns.search(queries[0], None, size)
    started = time.perf_counter()
    sketches = [sketch(row) for row in values]
    theirs_index = peer(sketches)
    theirs_built = time.perf_counter() - started
    by_scan: Search = lambda query: columns.search(query, None, size).positions[:TOP]  # noqa: E731
    by_bands: Search = lambda query: columns.search(query, None, 0).positions[:TOP]  # noqa: E731
    by_peer: Search = lambda query: ranked(theirs_index, sketches, query)  # noqa: E731
    best = [set(by_scan(query)) for query in queries]
    rate = {search: per_second(search, queries) for search in (by_scan, by_bands, by_peer)}
    share = {search: recall(search, queries, best) for search in (by_bands, by_peer)}
    label = f"{size // 1000} k" if size < 1_000_000 else f"{size // 1_000_000} M"
    peer_name = f"datasketch LSH (recall@10 {share[by_peer]:.2f})"
    binds = (
        f"the candidates; recall@10 {share[by_bands]:.2f}; built in {built:.2g} s, peer {theirs_built:.2g} s"
    )
    theirs = rate[by_peer]

    def line(how: str, search: Search, reach: str, binds: str) -> Line:
        ours = rate[search]
        return Line(
            f"recall of {label}, {how}", ours, peer_name, theirs, "queries/s", ours / theirs, reach, binds
        )

    return [
        line("exact scan", by_scan, reach_exact, "memory bandwidth; recall@10 1.00"),
        line("bands", by_bands, reach_bands, binds),
    ]


def sample(size: int) -> Values:
    """Signatures of short texts: families of rewordings over common and rare words, newest last."""
    dice = np.random.default_rng(11)
    rare = 1 + (dice.pareto(1.1, size=(size // 8, 14)) * 40).astype(np.int64) % 60_000
    family = dice.integers(len(rare), size=size)
    words = rare[family]
    changed = dice.random(words.shape) < dice.choice([0.1, 0.3, 0.6], size=(size, 1))
    words[changed] = 1 + (dice.pareto(1.1, size=int(changed.sum())) * 40).astype(np.int64) % 60_000
    texts = pl.DataFrame(words).select(pl.concat_str(pl.all().cast(pl.String), separator=" w")).to_series()
    kinds = pl.Series([f"verb.{place}" for place in range(5)]).gather(pl.Series(family % 5))
    return signatures(kinds, [texts]).values


def sketch(row: Values) -> LeanMinHash:
    """A signature as datasketch has one; only equality of its values counts."""
    return LeanMinHash(seed=1, hashvalues=row, scheme="affine32")


def peer(sketches: list[LeanMinHash]) -> MinHashLSH:
    """datasketch's index of the same signatures, with as many bands of as many values."""
    index = MinHashLSH(num_perm=VALUES, params=(4, 2))
    with index.insertion_session() as session:
        for place, one in enumerate(sketches):
            session.insert(place, one, check_duplication=False)
    return index


def ranked(index: MinHashLSH, sketches: list[LeanMinHash], query: list[int]) -> list[int]:
    """Its candidates, ranked by its own estimate as ours are, the newest first among equals."""
    asked = sketch(np.array(query, np.uint32))
    scored = [(asked.jaccard(sketches[place]), place) for place in index.query(asked)]
    best = nlargest(TOP, (one for one in scored if one[0] >= LEAST_EQUAL / VALUES))
    return [place for _, place in best]


def per_second(search: Search, queries: list[list[int]]) -> float:
    """Queries a second, the median of three rounds."""
    taken = []
    for _ in range(3):
        started = time.perf_counter()
        for query in queries:
            search(query)
        taken.append(time.perf_counter() - started)
    return len(queries) / sorted(taken)[1]


def recall(search: Search, queries: list[list[int]], best: list[set[int]]) -> float:
    """The mean share of the exact scan's ten that a search finds."""
    shares = [
        len(set(search(query)) & ten) / len(ten) for query, ten in zip(queries, best, strict=True) if ten
    ]
    return float(np.mean(shares))
