"""Segments of a memory index as columns: what search needs of each entry, and its text for when it is needed.

Promises that a segment made here has the digest it was pinned by, and no Python object an entry: an entry is
read from its text when it is asked for. Leaves out where a segment comes from, and search.
"""

import base64
import binascii
import hashlib
import json
from array import array
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from tessera import canonical
from tessera.advice.shapes import ENTRY_FIELDS, SEGMENT, SEGMENT_ENTRIES
from tessera.errors import TesseraError
from tessera.fingerprints import SCHEME, VALUES

SIGNATURE_BYTES = 4 * VALUES
EXACT_BYTES = 32
_NO_SIGNATURE = bytes(SIGNATURE_BYTES)
_NO_EXACT = bytes(EXACT_BYTES)
_ENTRIES = b'"entries":[]'
_KEY = canonical.utf16_key("entries")


class IndexFault(TesseraError):  # noqa: N818 - the sentence reads as what it is
    """A memory index that cannot be relied on: the sentence names the record. There is no partial answer."""


@dataclass(frozen=True, slots=True)
class Segment:
    """At most 128 entries.

    ``signatures`` holds 128 big-endian bytes an entry and ``exact`` 32, zeros where there is none; ``known``
    a 1 for each signature there is. ``text`` is the segment's canonical JSON, in which entry ``i`` lies from
    ``starts[i]`` to ``ends[i]``.
    """

    sha256: str
    signatures: bytes
    known: bytes
    exact: bytes
    cursors: "array[int]"
    text: bytes
    starts: "array[int]"
    ends: "array[int]"

    def __len__(self) -> int:
        return len(self.cursors)

    def entry(self, position: int) -> dict[str, Any]:
        """One entry."""
        found: dict[str, Any] = json.loads(self.text[self.starts[position] : self.ends[position]])
        return found


def of_body(name: str, body: Mapping[str, Any], sha256: str) -> Segment:
    """The segment of a noun's body. Raises IndexFault naming it unless it is one and has that digest."""
    head, tail, parts = _canonical(body, fast=True)
    if _sha256(head, parts, tail) != sha256:
        # the quick writer differs from RFC 8785 in rare numbers; what has the pinned digest was pinned
        head, tail, parts = _canonical(body, fast=False)
        if _sha256(head, parts, tail) != sha256:
            raise IndexFault(
                f"{name} is not what its index pins: the digest of its body is not {sha256}. Nothing of the "
                "index was used; have it made anew."
            )
    if body.get("schema") != SEGMENT:
        raise IndexFault(f"{name} is a {body.get('schema')}; this software reads {SEGMENT}")
    if body.get("scheme") != SCHEME:
        raise IndexFault(f"{name} has signatures of {body.get('scheme')}; this software compares {SCHEME}")
    if len(body["entries"]) > SEGMENT_ENTRIES:
        raise IndexFault(
            f"{name} holds {len(body['entries'])} entries, at most {SEGMENT_ENTRIES} are allowed"
        )
    return _columns(name, body["entries"], sha256, head, parts, tail)


def of_text(name: str, text: bytes, sha256: str) -> Segment | None:
    """The segment of canonical JSON that was kept; None when the text is not the one of that digest."""
    if hashlib.sha256(text).hexdigest() != sha256:
        return None
    return of_body(name, json.loads(text), sha256)


def _canonical(body: Mapping[str, Any], fast: bool) -> tuple[bytes, bytes, list[bytes]]:
    """The body's canonical JSON in three parts: before its entries, after them, and each entry."""
    dumps = _quick if fast else canonical.dumps
    entries = body.get("entries")
    if not isinstance(entries, list):
        return b"", b"", []
    try:
        frame = canonical.dumps({**body, "entries": []})
        parts = [dumps(entry) for entry in entries]
    except (ValueError, TypeError):  # a lone surrogate and the like: no digest is its
        return b"", b"", []
    # the last one at the top level: what other fields hold sorts before or is closed by then
    at = _own_entries(body, frame)
    return frame[: at + len(_ENTRIES) - 1], frame[at + len(_ENTRIES) - 1 :], parts


def _own_entries(body: Mapping[str, Any], frame: bytes) -> int:
    """Where the body's own entries stand: fields before it in canonical order may hold the same text."""
    before = {name: value for name, value in body.items() if canonical.utf16_key(name) < _KEY}
    size = len(canonical.dumps(before)) if before else 1
    return frame.index(_ENTRIES, size - 1)


def _quick(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), sort_keys=True).encode()


def _sha256(head: bytes, parts: Sequence[bytes], tail: bytes) -> str:
    return hashlib.sha256(head + b",".join(parts) + tail).hexdigest()


def _columns(
    name: str, entries: Sequence[Any], sha256: str, head: bytes, parts: Sequence[bytes], tail: bytes
) -> Segment:
    starts, ends, at = array("Q"), array("Q"), len(head)
    signatures, known, exact = bytearray(), bytearray(), bytearray()
    cursors = array("q")
    for position, (entry, part) in enumerate(zip(entries, parts, strict=True)):
        starts.append(at)
        ends.append(at + len(part))
        at += len(part) + 1
        try:
            if missing := [field for field in ENTRY_FIELDS if field not in entry]:
                raise ValueError(f"has no {missing[0]}")
            signature, digest = entry["minhash"], entry["exact"]
            signatures += _bytes(signature, SIGNATURE_BYTES, base64.b64decode) or _NO_SIGNATURE
            known.append(signature is not None)
            exact += _bytes(digest, EXACT_BYTES, bytes.fromhex) or _NO_EXACT
            cursors.append(int(entry["cursor"]))
        except (ValueError, TypeError, OverflowError, binascii.Error) as error:
            raise IndexFault(f"{name} has an entry that is none: entries[{position}] {error}") from None
    return Segment(
        sha256,
        bytes(signatures),
        bytes(known),
        bytes(exact),
        cursors,
        head + b",".join(parts) + tail,
        starts,
        ends,
    )


def _bytes(value: str | None, size: int, decode: Any) -> bytes | None:
    if value is None:
        return None
    found: bytes = decode(value)
    if len(found) != size:
        raise ValueError(f"holds {len(found)} bytes where {size} belong")
    return found
