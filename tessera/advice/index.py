"""A memory index as the consumer reads it: the newest head, and every segment that it pins, each verified.

Promises all of what the head pins or an error naming the record: a mismatched digest, a missing segment or a
newer schema never leads to a partial answer. What was read once is kept by digest, in memory and if asked on
disk. Leaves out search.
"""

import hashlib
import json
import os
import tempfile
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tessera import canonical
from tessera.advice import segments
from tessera.advice.segments import IndexFault, Segment
from tessera.advice.shapes import HEAD, MANIFEST, PIN_FIELDS
from tessera.errors import NotFound

if TYPE_CHECKING:
    from tessera.client import Client

STORE = "learn.outputs"
_KNOWN_INDEXES = 8
_AT_ONCE = 4  # segments asked for: a first reading waits for thousands of answers


@dataclass(slots=True)
class Index:
    """One version of an index. ``searchers`` keeps what search makes of it, ``answers`` what it found."""

    store: str
    key: str
    version: int
    sha256: str
    body: Mapping[str, Any]
    segments: tuple[Segment, ...]
    firsts: tuple[int, ...]
    searchers: dict[bool | None, Any] = field(default_factory=dict)
    answers: OrderedDict[Any, Any] = field(default_factory=OrderedDict)

    @property
    def entries(self) -> int:
        """How many entries there are."""
        return self.firsts[-1]

    @property
    def cursor(self) -> str:
        """Up to which run the queue is indexed."""
        return str(self.body["cursor"])

    def citation(self) -> dict[str, Any]:
        """What a report says under ``learning.advice`` of a run that used this index."""
        named = {name: self.body[name] for name in ("learner", "strategy", "version")}
        return {**named, "store": self.store, "key": self.key, "record_version": self.version}

    def read(self, positions: Sequence[int]) -> Iterator[dict[str, Any]]:
        """The entries at rising or any positions, read from their segments' text."""
        for position in positions:
            place = bisect_right(self.firsts, position) - 1
            yield self.segments[place].entry(position - self.firsts[place])


class Cache:
    """What was read of indexes: their newest versions in memory, their records by digest in ``folder``.

    A folder is made for its owner alone; a file in it that is not what its name says is read anew.
    """

    def __init__(self, folder: str | Path | None = None) -> None:
        self.folder = None if folder is None else Path(folder)
        self._indexes: OrderedDict[tuple[str, str, str], Index] = OrderedDict()

    def known(self, url: str, store: str, key: str) -> Index | None:
        """The version of an index that was read last."""
        return self._indexes.get((url, store, key))

    def keep(self, url: str, index: Index) -> None:
        """Keep a version, and forget those that were not asked for longest."""
        self._indexes.pop((url, index.store, index.key), None)
        self._indexes[url, index.store, index.key] = index
        while len(self._indexes) > _KNOWN_INDEXES:
            self._indexes.popitem(last=False)

    def text(self, sha256: str) -> bytes | None:
        """The canonical JSON kept on disk under a digest, whatever it is."""
        if self.folder is None or len(sha256) != 64 or not sha256.isalnum():
            return None
        try:
            return (self.folder / f"{sha256}.json").read_bytes()
        except FileNotFoundError:
            return None

    def keep_text(self, sha256: str, text: bytes) -> None:
        """Keep canonical JSON on disk, whole or not at all."""
        if self.folder is None:
            return
        self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        handle, name = tempfile.mkstemp(dir=self.folder)
        with os.fdopen(handle, "wb") as file:
            file.write(text)
        Path(name).replace(self.folder / f"{sha256}.json")


def load(client: "Client", key: str, cache: Cache, store: str = STORE) -> Index | None:
    """The newest version of the index whose head is ``key``; None when there is none that the key may read.

    Raises IndexFault naming the record that is missing, not what it is pinned as, or of another schema.
    """
    try:
        record = client.get_record(store, key)
    except NotFound:
        return None
    known = cache.known(client.url, store, key)
    if known is not None and known.version == record["version"] and known.sha256 == record["sha256"]:
        return known
    body = _verified(f"{store}/{key} version {record['version']}", record["body"], record["sha256"], HEAD)
    pinned = list(_pins(client, store, body, cache))
    held = {} if known is None else {segment.sha256: segment for segment in known.segments}
    new = [pin for pin in pinned if pin["sha256"] not in held]
    with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="segments") as threads:
        for segment in threads.map(lambda pin: _segment(client, store, pin, cache), new):
            held[segment.sha256] = segment
    found, firsts = [], [0]
    for pin in pinned:
        segment = held[pin["sha256"]]
        if len(segment) != pin["entries"]:
            raise IndexFault(
                f"{store}/{pin['key']} holds {len(segment)} entries, its index says {pin['entries']}"
            )
        found.append(segment)
        firsts.append(firsts[-1] + len(segment))
    if firsts[-1] != body["entries"]:
        raise IndexFault(f"{store}/{key} says {body['entries']} entries, its segments hold {firsts[-1]}")
    index = Index(store, key, record["version"], record["sha256"], body, tuple(found), tuple(firsts))
    cache.keep(client.url, index)
    return index


def pins(client: "Client", store: str, body: Mapping[str, Any]) -> list[dict[str, Any]]:
    """What a head pins, its manifests' segments included, in capture order."""
    return list(_pins(client, store, body, Cache()))


def _pins(client: "Client", store: str, body: Mapping[str, Any], cache: Cache) -> Iterator[dict[str, Any]]:
    for pin in body["manifests"]:
        name = f"{store}/{pin['key']}"
        manifest = _kept(cache, pin["sha256"])
        if manifest is None:
            manifest = _fetched(client, store, pin)
            _verified(name, manifest, pin["sha256"], MANIFEST)
            cache.keep_text(pin["sha256"], canonical.dumps(manifest))
        if sum(one["entries"] for one in manifest["segments"]) != pin["entries"]:
            raise IndexFault(f"{name} does not hold the {pin['entries']} entries that its index says")
        yield from manifest["segments"]
    yield from body["segments"]


def _kept(cache: Cache, sha256: str) -> dict[str, Any] | None:
    text = cache.text(sha256)
    if text is None:
        return None
    return json.loads(text) if hashlib.sha256(text).hexdigest() == sha256 else None


def _segment(client: "Client", store: str, pin: Mapping[str, Any], cache: Cache) -> Segment:
    text = cache.text(pin["sha256"])
    segment = None if text is None else segments.of_text(f"{store}/{pin['key']}", text, pin["sha256"])
    if segment is None:
        body = _fetched(client, store, pin)
        segment = segments.of_body(f"{store}/{pin['key']}", body, pin["sha256"])
        cache.keep_text(pin["sha256"], segment.text)
    return segment


def _fetched(client: "Client", store: str, pin: Mapping[str, Any]) -> dict[str, Any]:
    try:
        body: dict[str, Any] = client.get_record(store, pin["key"], pin["version"])["body"]
    except NotFound:
        raise IndexFault(
            f"{store}/{pin['key']} version {pin['version']} is pinned by its index, but it is not there or "
            "this key may not read it. Nothing of the index was used."
        ) from None
    return body


def _verified(name: str, body: dict[str, Any], sha256: str, schema: str) -> dict[str, Any]:
    """The body, found to be what it is pinned as and to have the shape that is read here."""
    if canonical.digest(body) != sha256:
        raise IndexFault(f"{name} is not what it is pinned as: the digest of its body is not {sha256}")
    if body.get("schema") != schema:
        raise IndexFault(f"{name} is a {body.get('schema')}; this software reads {schema}")
    wanted = ("cursor", "entries", "segments", "manifests") if schema == HEAD else ("segments",)
    lists = [body.get(field) for field in wanted if field in ("segments", "manifests")]
    sound = all(field in body for field in wanted) and all(isinstance(one, list) for one in lists)
    if not sound or not all(_is_pin(pin) for one in lists for pin in one or ()):
        raise IndexFault(f"{name} does not have the shape of a {schema}")
    return body


def _is_pin(pin: Any) -> bool:
    return isinstance(pin, Mapping) and all(field in pin for field in PIN_FIELDS)


__all__ = ["STORE", "Cache", "Index", "IndexFault", "load", "pins"]
