"""Lists of records: the newest versions by name, and one record's history; bodies are left out.

A list looks at no more than SCAN keys a call, so it stays short whatever is skipped; the position to go
on from is the last key looked at, written ``store/key``.
"""

from collections.abc import Iterator
from typing import Any

from sqlalchemy import bindparam, select

from tessera.errors import NotFound
from tessera.store import records as noun
from tessera.store.database import Session
from tessera.store.permission import Caller, may_read_record, require_stores
from tessera.store.schema import record_tags, records
from tessera.store.statements import Statement

SCAN = 2_000

Name = tuple[str, str]

_NEXT_KEY = Statement(
    select(records.c.store, records.c.key)
    .where(records.c.store == bindparam("store"), records.c.key >= bindparam("key"))
    .order_by(records.c.key)
    .limit(1)
)
_NEXT_STORE = Statement(
    select(records.c.store, records.c.key)
    .where(records.c.store > bindparam("store"))
    .order_by(records.c.store, records.c.key)
    .limit(1)
)
_NEXT_TAGGED = Statement(
    select(record_tags.c.store, record_tags.c.key)
    .where(
        record_tags.c.tag == bindparam("tag"),
        record_tags.c.store == bindparam("store"),
        record_tags.c.key >= bindparam("key"),
    )
    .order_by(record_tags.c.key)
    .limit(1)
)
_NEXT_TAGGED_STORE = Statement(
    select(record_tags.c.store, record_tags.c.key)
    .where(record_tags.c.tag == bindparam("tag"), record_tags.c.store > bindparam("store"))
    .order_by(record_tags.c.store, record_tags.c.key)
    .limit(1)
)
_VERSIONS = Statement(
    select(*noun.HEAD)
    .where(
        records.c.store == bindparam("store"),
        records.c.key == bindparam("key"),
        records.c.version > bindparam("after"),
    )
    .order_by(records.c.version)
    .limit(bindparam("limit"))
)


def newest(
    session: Session,
    caller: Caller,
    *,
    store: str | None,
    prefix: str,
    tag: str | None,
    category: str | None,
    after: Name | None,
    limit: int,
) -> dict[str, Any]:
    """Newest versions that the key may read, ordered by store and key."""
    if store is not None:
        require_stores(caller, (store,))
    items: list[dict[str, Any]] = []
    last, looked = after, 0
    has_more = False
    for name in _walk(session, store, prefix, tag, after):
        if len(items) == limit or looked == SCAN:
            has_more = True
            break
        last, looked = name, looked + 1
        row = noun.newest(session, *name)
        if row is None or not may_read_record(caller, noun.head_facts(row)):
            continue
        if category is None or row[8] == category:
            items.append(noun.view(row))
    return {"items": items, "next_after": "" if last is None else "/".join(last), "has_more": has_more}


def versions(
    session: Session, caller: Caller, store: str, key: str, after: int, limit: int
) -> dict[str, Any]:
    """The history of one record, oldest first; NotFound when the key may read none of it."""
    require_stores(caller, (store,))
    rows = session.rows(_VERSIONS, store=store, key=key, after=after, limit=SCAN + 1)
    items: list[dict[str, Any]] = []
    last, has_more = after, False
    for looked, row in enumerate(rows):
        if len(items) == limit or looked == SCAN:
            has_more = True
            break
        last = row[7]
        if may_read_record(caller, noun.head_facts(row)):
            items.append(noun.view(row))
    if not items and not _visible(session, caller, store, key):
        raise NotFound("there is no such record")
    return {"items": items, "next_after": str(last), "has_more": has_more}


def _visible(session: Session, caller: Caller, store: str, key: str) -> bool:
    """Whether the key may read any version: tells a page without one from a record not to be seen."""
    after = 0
    while rows := session.rows(_VERSIONS, store=store, key=key, after=after, limit=SCAN):
        if any(may_read_record(caller, noun.head_facts(row)) for row in rows):
            return True
        after = rows[-1][7]
    return False


def _walk(
    session: Session, store: str | None, prefix: str, tag: str | None, after: Name | None
) -> Iterator[Name]:
    """Names in order, from behind ``after``, one seek each however many versions a key has."""
    tagged = {} if tag is None else {"tag": tag}
    next_key, next_store = (_NEXT_KEY, _NEXT_STORE) if tag is None else (_NEXT_TAGGED, _NEXT_TAGGED_STORE)
    place, bound = ("" if store is None else store), prefix
    if after is not None and after[0] >= place:
        place, bound = after[0], max(prefix, _behind(after[1]))
    while store is None or place == store:
        found = session.row(next_key, store=place, key=bound, **tagged)
        if found is not None and found[1].startswith(prefix):
            yield (found[0], found[1])
            bound = _behind(found[1])
            continue
        found = session.row(next_store, store=place, **tagged)
        if found is None:
            return
        place, bound = found[0], prefix


def _behind(key: str) -> str:
    """The least text behind a key: each character of a key sorts behind ``!``."""
    return key + "!"
