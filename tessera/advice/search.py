"""Search of a memory index: every entry that is like the query, best first.

Promises the same answer from either form: columns with numpy, or plain Python without it. Up to a limit every
entry is looked at; above, those that share an LSH band (Indyk and Motwani 1998) or the exact fingerprint.
Leaves out reading the index, and what the found runs say.
"""

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from operator import eq
from struct import unpack_from
from typing import Protocol

from tessera.advice.segments import EXACT_BYTES, SIGNATURE_BYTES, Segment
from tessera.advice.shapes import EXACT_LIMIT, LEAST_EQUAL
from tessera.fingerprints import BANDS, VALUES

Signature = Sequence[int]


@dataclass(frozen=True, slots=True)
class Found:
    """Entries that passed, best first: exact ones, then by similarity, then newest.

    ``positions`` in the index, whether each is ``exact``, and of how many positions both signatures are
    ``equal``, −1 where one of the two has none.
    """

    positions: list[int]
    exact: list[bool]
    equal: list[int]

    def similarity(self, rank: int) -> float | None:
        """The estimated Jaccard overlap, None without a signature."""
        return None if self.equal[rank] < 0 else self.equal[rank] / VALUES


class Searcher(Protocol):
    """What a query is asked of."""

    def search(self, signature: Signature | None, exact: str | None, exact_limit: int = EXACT_LIMIT) -> Found:
        """Every entry that passes: equal exact fingerprint, or similarity of 0.3 and more."""


def searcher(segments: Sequence[Segment], fast: bool | None = None) -> Searcher:
    """A searcher over segments: by columns where numpy is installed, unless ``fast`` says otherwise."""
    if find_spec("numpy") is not None if fast is None else fast:
        from tessera.advice.columns import Columns

        return Columns(segments)
    return Plain(segments)


class Plain:
    """Search without numpy: the definition that the columns are held to."""

    def __init__(self, segments: Sequence[Segment]) -> None:
        self._signatures = b"".join(segment.signatures for segment in segments)
        self._known = b"".join(segment.known for segment in segments)
        self._exact = b"".join(segment.exact for segment in segments)
        self._cursors = array("q")
        for segment in segments:
            self._cursors.extend(segment.cursors)
        self._bands: list[dict[bytes, list[int]]] | None = None

    def search(self, signature: Signature | None, exact: str | None, exact_limit: int = EXACT_LIMIT) -> Found:
        """Every entry that passes, best first."""
        same = set() if exact is None else self._same(bytes.fromhex(exact))
        alike: dict[int, int] = {}
        if signature is not None:
            every = len(self._cursors) <= exact_limit
            looked_at = range(len(self._cursors)) if every else self._sharing(signature) | same
            alike = self._equal(signature, looked_at)
        passed = same | {position for position, count in alike.items() if count >= LEAST_EQUAL}
        ranked = sorted(
            passed,
            key=lambda position: (position not in same, -alike.get(position, -1), -self._cursors[position]),
        )
        return Found(
            ranked,
            [position in same for position in ranked],
            [alike.get(position, -1) for position in ranked],
        )

    def _same(self, exact: bytes) -> set[int]:
        found, at = set(), self._exact.find(exact)
        while at >= 0:
            if at % EXACT_BYTES == 0:
                found.add(at // EXACT_BYTES)
            at = self._exact.find(exact, at + 1)
        return found

    def _equal(self, signature: Signature, looked_at: "range | set[int]") -> dict[int, int]:
        form, query = f">{VALUES}I", tuple(signature)
        return {
            position: sum(map(eq, query, unpack_from(form, self._signatures, position * SIGNATURE_BYTES)))
            for position in looked_at
            if self._known[position]
        }

    def _sharing(self, signature: Signature) -> set[int]:
        """The entries that share a band with the signature."""
        if self._bands is None:
            bands: list[dict[bytes, list[int]]] = [{} for _ in range(BANDS)]
            for position, known in enumerate(self._known):
                if known:
                    for band, found in enumerate(bands):
                        start = position * SIGNATURE_BYTES + 8 * band
                        found.setdefault(self._signatures[start : start + 8], []).append(position)
            self._bands = bands  # whole: another thread may be looking
        shared: set[int] = set()
        for band, found in enumerate(self._bands):
            pair = b"".join(value.to_bytes(4, "big") for value in signature[2 * band : 2 * band + 2])
            shared.update(found.get(pair, ()))
        return shared
