"""Search by columns, with numpy: what makes recall a matter of milliseconds.

Promises the answers of ``tessera.advice.search.Plain`` to the bit. An exact scan first bounds each similarity
from above by the low byte of each value, plane by plane, which leaves few entries to compare whole. Bands are
sorted arrays. No Python object an entry.
"""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from tessera.advice.search import Found, Signature
from tessera.advice.segments import EXACT_BYTES, Segment
from tessera.advice.shapes import EXACT_LIMIT, LEAST_EQUAL
from tessera.fingerprints import BANDS, VALUES

CHUNK = 16_384
"""Entries whose planes are looked at together: half a MiB, which stays in the cache."""

Positions = npt.NDArray[np.int64]
Values = npt.NDArray[np.uint32]


class Columns:
    """The signatures, exact fingerprints and cursors of some segments, or of arrays (``of_arrays``)."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        joined = np.frombuffer(b"".join(segment.signatures for segment in segments), ">u4")
        known = np.frombuffer(b"".join(segment.known for segment in segments), np.uint8)
        exact = b"".join(segment.exact for segment in segments)
        cursors = [np.frombuffer(segment.cursors, np.int64) for segment in segments if len(segment)]
        self._set(
            joined.astype(np.uint32).reshape(-1, VALUES),
            known.astype(np.bool_),
            exact,
            np.concatenate(cursors) if cursors else np.zeros(0, np.int64),
        )

    @classmethod
    def of_arrays(cls, values: Values) -> "Columns":
        """Columns of signatures alone, a row each, newest last."""
        made = cls.__new__(cls)
        rows = len(values)
        made._set(values, np.ones(rows, np.bool_), bytes(rows * EXACT_BYTES), np.arange(rows, dtype=np.int64))
        return made

    def _set(self, values: Values, known: npt.NDArray[np.bool_], exact: bytes, cursors: Positions) -> None:
        self._values, self._known, self._exact, self._cursors = values, known, exact, cursors
        self._exact_starts = np.frombuffer(exact, ">u8").reshape(-1, EXACT_BYTES // 8)[:, 0]
        self._planes: list[npt.NDArray[np.uint8]] | None = None
        self._bands: list[tuple[npt.NDArray[np.uint64], Positions]] | None = None

    def search(self, signature: Signature | None, exact: str | None, exact_limit: int = EXACT_LIMIT) -> Found:
        """Every entry that passes, best first."""
        same = np.zeros(0, np.int64) if exact is None else self._same(bytes.fromhex(exact))
        positions, equal = same, np.full(len(same), -1, np.int64)
        if signature is not None:
            query = np.array(signature, np.uint32)
            every = len(self._values) <= exact_limit
            near = self._bounded(query) if every else self._sharing(query)
            positions = np.union1d(near, same) if len(same) else near
            equal = np.count_nonzero(self._values[positions] == query, axis=1)
            equal[~self._known[positions]] = -1
        is_same = np.isin(positions, same) if len(same) else np.zeros(len(positions), np.bool_)
        kept = np.flatnonzero(is_same | (equal >= LEAST_EQUAL))
        order = kept[np.lexsort((-self._cursors[positions[kept]], -equal[kept], ~is_same[kept]))]
        return Found(positions[order].tolist(), is_same[order].tolist(), equal[order].tolist())

    def _same(self, exact: bytes) -> Positions:
        start = int.from_bytes(exact[:8], "big")
        near = np.flatnonzero(self._exact_starts == start)
        size = EXACT_BYTES
        return (
            near[[self._exact[at * size : (at + 1) * size] == exact for at in near.tolist()]]
            if len(near)
            else near
        )

    def _bounded(self, query: Values) -> Positions:
        """The entries whose low bytes are equal to the query's in enough positions, rising."""
        if self._planes is None:
            low = self._values.astype(np.uint8)
            self._planes = [
                np.ascontiguousarray(low[start : start + CHUNK].T) for start in range(0, len(low), CHUNK)
            ]
        wanted = query.astype(np.uint8)[:, None]
        found = []
        for number, planes in enumerate(self._planes):
            equal = np.add.reduce((planes == wanted).view(np.uint8), axis=0, dtype=np.uint8)
            hits = np.flatnonzero(equal >= LEAST_EQUAL)
            if len(hits):
                found.append(hits + number * CHUNK)
        return np.concatenate(found) if found else np.zeros(0, np.int64)

    def _sharing(self, query: Values) -> Positions:
        """The entries that share a band with the query, each once."""
        if self._bands is None:
            keys = self._values[:, : 2 * BANDS].astype(np.uint64)
            known = np.flatnonzero(self._known)
            self._bands = []
            for band in range(BANDS):
                pairs = keys[known, 2 * band] << np.uint64(32) | keys[known, 2 * band + 1]
                order = np.argsort(pairs)
                self._bands.append((pairs[order], known[order]))
        found = []
        for band, (pairs, positions) in enumerate(self._bands):
            wanted = np.uint64(int(query[2 * band]) << 32 | int(query[2 * band + 1]))
            start = np.searchsorted(pairs, wanted, "left")
            stop = np.searchsorted(pairs, wanted, "right")
            found.append(positions[start:stop])
        return np.unique(np.concatenate(found))
