"""Records: versioned nouns, written by compare-and-swap in batches, all or none.

Promises: versions are 1, 2, 3 … without gaps and never rewritten; a batch names the version it replaces
for each key and is refused whole, with every conflict, when one moved. A body is kept as canonical JSON,
so its digest is that of the bytes served. Leaves out listing: ``record_lists``.
"""

import hashlib
import json
from typing import Any

from sqlalchemy import bindparam, delete, select

from tessera import canonical
from tessera.errors import Conflict, Fault, Invalid, NotFound
from tessera.store import idempotency
from tessera.store.clock import rfc3339
from tessera.store.database import Session
from tessera.store.permission import (
    Caller,
    RecordFacts,
    may_read_record,
    may_write_next,
    require_kinds,
    require_queue,
    require_stores,
)
from tessera.store.schema import record_tags, records
from tessera.store.statements import Statement, insert_into

FACTS = (
    records.c.store,
    records.c.visibility,
    records.c.surface_queue,
    records.c.surface_kind,
    records.c.key_id,
    records.c.sha256,
)
HEAD = (*FACTS, records.c.key, records.c.version, records.c.category, records.c.tags, records.c.created_at)
_NAMED = (records.c.store == bindparam("store"), records.c.key == bindparam("key"))
_VERSION = records.c.version == bindparam("version")

_FACTS = Statement(select(*FACTS).where(*_NAMED, _VERSION))
_NEWEST = Statement(select(*HEAD).where(*_NAMED).order_by(records.c.version.desc()).limit(1))
_NEWEST_BODY = Statement(
    select(*HEAD, records.c.body).where(*_NAMED).order_by(records.c.version.desc()).limit(1)
)
_BODY = Statement(select(*HEAD, records.c.body).where(*_NAMED, _VERSION))
_ADD = insert_into(records)
_TAG = insert_into(record_tags)
_UNTAG = Statement(
    delete(record_tags).where(
        record_tags.c.tag == bindparam("tag"),
        record_tags.c.store == bindparam("store"),
        record_tags.c.key == bindparam("key"),
    )
)
_ABSENT = "there is no such record"


def facts(session: Session, store: str, key: str, version: int) -> RecordFacts | None:
    """What decides who may read a version; None when it is not there."""
    row = session.row(_FACTS, store=store, key=key, version=version)
    return None if row is None else RecordFacts(*row)


def head_facts(row: tuple[Any, ...]) -> RecordFacts:
    """The facts in a row of HEAD."""
    return RecordFacts(*row[:6])


def newest(session: Session, store: str, key: str) -> tuple[Any, ...] | None:
    """The newest version as a row of HEAD."""
    return session.row(_NEWEST, store=store, key=key)


def view(row: tuple[Any, ...]) -> dict[str, Any]:
    """A version without its body, from a row of HEAD."""
    surface = None
    if row[2] is not None:
        surface = {"queue": row[2]} if row[3] is None else {"queue": row[2], "kind": row[3]}
    return {
        "store": row[0],
        "key": row[6],
        "version": row[7],
        "category": row[8],
        "tags": json.loads(row[9]),
        "visibility": row[1],
        "surface": surface,
        "sha256": row[5],
        "created_at": rfc3339(row[10]),
        "key_id": row[4],
    }


def get(session: Session, caller: Caller, store: str, key: str, version: int | None) -> tuple[bytes, str]:
    """A version, the newest by default, as JSON bytes, and its sha256. NotFound when it may not be seen."""
    require_stores(caller, (store,))
    if version is None:
        row = session.row(_NEWEST_BODY, store=store, key=key)
    else:
        row = session.row(_BODY, store=store, key=key, version=version)
    if row is None or not may_read_record(caller, head_facts(row)):
        raise NotFound(_ABSENT)
    head = json.dumps(view(row), ensure_ascii=False, separators=(",", ":")).encode()
    return head[:-1] + b',"body":' + row[11] + b"}", row[5]


def write(session: Session, caller: Caller, writes: list[dict[str, Any]], name: str | None) -> bytes:
    """Write a batch, all or none; ``{records: [{store, key, version, sha256}]}`` as JSON bytes.

    Conflict lists each write that does not replace the newest version, with its index and that version.
    """
    require_stores(caller, (write["store"] for write in writes))
    for write in writes:
        surface = write.get("surface")
        if surface is not None:
            require_queue(caller, surface["queue"])
            require_kinds(caller, [surface["kind"]] if "kind" in surface else [])
    bodies = [canonical.dumps(write["body"]) for write in writes]
    digests = [hashlib.sha256(body).hexdigest() for body in bodies]
    batch = ""
    if name is not None:
        batch = canonical.digest([{**w, "body": d} for w, d in zip(writes, digests, strict=True)])
        answer = idempotency.first_answer(session, caller.key_id, "records", name, batch)
        if answer is not None:
            return answer
    replaced = _expect(session, caller, writes)
    rows = [
        _row(session, caller, write, body, sha256)
        for write, body, sha256 in zip(writes, bodies, digests, strict=True)
    ]
    # In one order, so that two batches of the same keys never wait for each other.
    session.insert_all(_ADD, sorted(rows, key=lambda row: (row["store"], row["key"])))
    _retag(session, writes, [[] if old is None else json.loads(old[9]) for old in replaced])
    answer = json.dumps(
        {
            "records": [
                {
                    "store": write["store"],
                    "key": write["key"],
                    "version": write["expected_version"] + 1,
                    "sha256": sha256,
                }
                for write, sha256 in zip(writes, digests, strict=True)
            ]
        },
        separators=(",", ":"),
    ).encode()
    if name is not None:
        idempotency.keep(session, caller.key_id, "records", name, batch, answer)
    return answer


def repeated(writes: list[dict[str, Any]]) -> list[Fault]:
    """A fault for each write whose key stands earlier in the batch."""
    seen: set[tuple[str, str]] = set()
    faults = []
    for position, write in enumerate(writes):
        name = (write["store"], write["key"])
        if name in seen:
            faults.append(Fault(f"writes[{position}].key", "must not stand twice in a batch"))
        seen.add(name)
    return faults


def _expect(session: Session, caller: Caller, writes: list[dict[str, Any]]) -> list[tuple[Any, ...] | None]:
    """The newest version of each key as the batch expects it; Conflict naming each that is not."""
    if faults := repeated(writes):
        raise Invalid("a key stands twice in the batch", errors=faults)
    names = [{"store": write["store"], "key": write["key"]} for write in writes]
    found = session.row_of_each(_NEWEST, names)
    conflicts = []
    for index, (write, row) in enumerate(zip(writes, found, strict=True)):
        current = 0 if row is None else row[7]
        allowed = may_write_next(caller, None if row is None else head_facts(row))
        if current != write["expected_version"] or not allowed:
            conflicts.append(
                {
                    "index": index,
                    "store": write["store"],
                    "key": write["key"],
                    "expected_version": write["expected_version"],
                    "current_version": current,
                }
            )
    if conflicts:
        raise Conflict(
            f"{len(conflicts)} of {len(writes)} writes do not replace what they expect; nothing was written",
            extra={"conflicts": conflicts},
        )
    return found


def _row(session: Session, caller: Caller, write: dict[str, Any], body: bytes, sha256: str) -> dict[str, Any]:
    surface = write.get("surface") or {}
    return {
        "store": write["store"],
        "key": write["key"],
        "version": write["expected_version"] + 1,
        "category": write["category"],
        "tags": json.dumps(write["tags"], ensure_ascii=False),
        "visibility": write["visibility"],
        "surface_queue": surface.get("queue"),
        "surface_kind": surface.get("kind"),
        "sha256": sha256,
        "created_at": session.now,
        "key_id": caller.key_id,
        "body": body,
    }


def _retag(session: Session, writes: list[dict[str, Any]], old: list[list[str]]) -> None:
    """Make the tags of the newest versions findable; those shared with the predecessor cost nothing."""
    new: list[dict[str, Any]] = []
    for write, before in zip(writes, old, strict=True):
        name = {"store": write["store"], "key": write["key"]}
        for tag in before:
            if tag not in write["tags"]:
                session.change(_UNTAG, tag=tag, **name)
        new += [{"tag": tag, **name} for tag in write["tags"] if tag not in before]
    session.insert_all(_TAG, new)
