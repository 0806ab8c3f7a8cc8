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
_ONES = np.uint64(0x0101010101010101)

Positions = npt.NDArray[np.int64]
Values = npt.NDArray[np.uint32]
_Bands = tuple[list[tuple[npt.NDArray[np.uint64], Positions]], npt.NDArray[np.uint8]]
"""Each band's values, sorted, and whose they are; and the low byte of every value."""


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
        self._bands: _Bands | None = None

    def search(self, signature: Signature | None, exact: str | None, exact_limit: int = EXACT_LIMIT) -> Found:
        """Every entry that passes, best first."""
        query = None if signature is None else np.array(signature, np.uint32)
        if query is None:
            near = np.zeros(0, np.int64)
        elif len(self._values) <= exact_limit:
            near = self._bounded(query)
        else:
            near = self._sharing(query)
        same = None if exact is None else self._same(bytes.fromhex(exact))
        if same is not None and len(same):
            return self._with_equals(near, same, query)
        equal = _equal(self._values.take(near, axis=0), query) if query is not None else near
        kept = np.flatnonzero(equal >= LEAST_EQUAL)
        positions, equal = near[kept], equal[kept]
        order = np.lexsort((-self._cursors[positions], -equal))
        found = positions[order].tolist()
        return Found(found, [False] * len(found), equal[order].tolist())

    def _with_equals(self, near: Positions, same: Positions, query: Values | None) -> Found:
        """What passes when some entries have the query's exact fingerprint, known signature or not."""
        positions = np.union1d(near, same)
        equal = np.full(len(positions), -1, np.int64)
        if query is not None:
            known = self._known[positions]
            equal[known] = _equal(self._values.take(positions[known], axis=0), query)
        is_same = np.isin(positions, same)
        kept = np.flatnonzero(is_same | (equal >= LEAST_EQUAL))
        positions, equal, is_same = positions[kept], equal[kept], is_same[kept]
        order = np.lexsort((-self._cursors[positions], -equal, ~is_same))
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
        """The entries with a signature whose low bytes are equal to the query's often enough, rising."""
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
        if not found:
            return np.zeros(0, np.int64)
        hits = np.concatenate(found)
        return hits[self._known[hits]]

    def _sharing(self, query: Values) -> Positions:
        """The entries that share a band with the query and may be alike, each once."""
        bands, low = self._by_band()
        found = []
        for band, (pairs, positions) in enumerate(bands):
            wanted = np.uint64(int(query[2 * band]) << 32 | int(query[2 * band + 1]))
            start, stop = pairs.searchsorted(wanted, "left"), pairs.searchsorted(wanted, "right")
            found.append(positions[start:stop])
        shared = np.concatenate(found)
        # the bound first: what shares a band is many times what is alike, and a low byte is little to read
        near = _counted(low.take(shared, axis=0) == query.astype(np.uint8))
        return np.unique(shared[near >= LEAST_EQUAL])

    def _by_band(self) -> _Bands:
        if self._bands is None:
            keys = self._values[:, : 2 * BANDS].astype(np.uint64)
            known = np.flatnonzero(self._known)
            bands = []
            for band in range(BANDS):
                pairs = keys[known, 2 * band] << np.uint64(32) | keys[known, 2 * band + 1]
                order = np.argsort(pairs)
                bands.append((pairs[order], known[order]))
            self._bands = bands, self._values.astype(np.uint8)  # whole: another thread may be looking
        return self._bands


def _equal(rows: Values, query: Values) -> Positions:
    """Of how many positions each row is equal to the query."""
    return _counted(rows == query)


def _counted(flags: npt.NDArray[np.bool_]) -> Positions:
    """How many of each row's 32 flags are set: eight of them are added at a time, as the bytes of a word."""
    words = flags.view(np.uint64)
    sums = words[:, 0] + words[:, 1] + words[:, 2] + words[:, 3]
    counts: Positions = ((sums * _ONES) >> np.uint64(56)).astype(np.int64)
    return counts
