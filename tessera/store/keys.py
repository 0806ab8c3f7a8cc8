"""API keys: made, found by their secret, listed and revoked.

A secret has 256 random bits and is shown once; the store keeps its SHA-256, which is all it needs to
recognise it. Nothing here puts a secret into an error or a log.
"""

import hashlib
import json
import secrets
from functools import lru_cache
from typing import Any

from sqlalchemy import bindparam, select, update

from tessera.errors import NotFound, Unauthorized
from tessera.store.clock import rfc3339
from tessera.store.database import Session
from tessera.store.permission import Caller, Grant
from tessera.store.schema import keys
from tessera.store.statements import Statement, insert_into

_GRANT = (keys.c.id, keys.c.name, keys.c.scopes, keys.c.queues, keys.c.kinds, keys.c.stores)
_TIMES = (keys.c.created_at, keys.c.expires_at, keys.c.revoked_at)
_BY_SECRET = Statement(select(*_GRANT, *_TIMES).where(keys.c.secret_sha256 == bindparam("secret_sha256")))
_BY_ID = Statement(select(*_GRANT, *_TIMES).where(keys.c.id == bindparam("id")))
# The key stays as it is until the transaction that relies on it ends, where others write meanwhile.
_BY_ID_TO_RELY_ON = Statement(
    select(*_GRANT, *_TIMES).where(keys.c.id == bindparam("id")).with_for_update(read=True)
)
_AFTER = Statement(
    select(*_GRANT, *_TIMES)
    .where(keys.c.id > bindparam("after"))
    .order_by(keys.c.id)
    .limit(bindparam("limit"))
)
_ADD = insert_into(keys)
_REVOKE = Statement(
    update(keys)
    .where(keys.c.id == bindparam("key_id"), keys.c.revoked_at.is_(None))
    .values(revoked_at=bindparam("moment"))
)
REFUSED = "the key is missing, unknown, revoked or expired"


def new_secret() -> str:
    """A fresh secret of 256 random bits."""
    return "tsk_" + secrets.token_urlsafe(32)


def add(session: Session, grant: Grant, secret: str) -> str:
    """Keep a key under its secret's hash; returns its id."""
    key_id = "key_" + secrets.token_hex(8)
    session.change(
        _ADD,
        id=key_id,
        secret_sha256=_hash(secret),
        name=grant.name,
        scopes=json.dumps(sorted(grant.scopes)),
        queues=json.dumps(list(grant.queues)),
        kinds=None if grant.kinds is None else json.dumps(sorted(grant.kinds)),
        stores=None if grant.stores is None else json.dumps(sorted(grant.stores)),
        created_at=session.now,
        expires_at=grant.expires_at,
        revoked_at=None,
    )
    return key_id


def authenticate(session: Session, secret: str) -> Caller:
    """The key of a secret; Unauthorized, always in the same words, when it cannot be used."""
    row = session.row(_BY_SECRET, secret_sha256=_hash(secret))
    if row is None or not _usable(row, session.now):
        raise Unauthorized(REFUSED)
    return _caller(row)


def find_usable(session: Session, key_id: str) -> Caller | None:
    """The key of an id, None when it is unknown, revoked or expired."""
    row = session.row(_BY_ID_TO_RELY_ON, id=key_id)
    return _caller(row) if row is not None and _usable(row, session.now) else None


def page(session: Session, after: str, limit: int) -> dict[str, Any]:
    """Keys ordered by id, without their secrets."""
    rows = session.rows(_AFTER, after=after, limit=limit + 1)
    items = [_view(row) for row in rows[:limit]]
    return {
        "items": items,
        "next_after": items[-1]["id"] if items else after,
        "has_more": len(rows) > limit,
    }


def revoke(session: Session, key_id: str) -> dict[str, Any]:
    """Revoke a key; repeating it changes nothing. NotFound when there is none."""
    row = session.row(_BY_ID, id=key_id)
    if row is None:
        raise NotFound("there is no such key")
    revoked_at = row[8]
    if revoked_at is None:
        revoked_at = session.now
        session.change(_REVOKE, key_id=key_id, moment=revoked_at)
    return {"id": key_id, "revoked_at": rfc3339(revoked_at)}


def whoami(caller: Caller, store_id: str) -> dict[str, Any]:
    """What a key may know of itself; ``kinds`` and ``stores`` null mean all."""
    return {
        "id": caller.key_id,
        "name": caller.name,
        "scopes": sorted(caller.scopes),
        "queues": list(caller.queues),
        "kinds": None if caller.kinds is None else sorted(caller.kinds),
        "stores": None if caller.stores is None else sorted(caller.stores),
        "expires_at": rfc3339(caller.expires_at),
        "store_id": store_id,
    }


def _hash(secret: str) -> str:
    return hashlib.sha256(secret.encode()).hexdigest()


def _usable(row: tuple[Any, ...], now: int) -> bool:
    expires_at, revoked_at = row[7], row[8]
    return revoked_at is None and (expires_at is None or now < expires_at)


def _names(text: str | None) -> frozenset[str] | None:
    return None if text is None else frozenset(json.loads(text))


@lru_cache(maxsize=1024)
def _caller(row: tuple[Any, ...]) -> Caller:
    """The key of a row; what a row says is the same however often it is read."""
    return Caller(
        key_id=row[0],
        name=row[1],
        scopes=frozenset(json.loads(row[2])),
        queues=tuple(json.loads(row[3])),
        kinds=_names(row[4]),
        stores=_names(row[5]),
        expires_at=row[7],
    )


def _view(row: tuple[Any, ...]) -> dict[str, Any]:
    caller = _caller(row)
    return {
        "id": caller.key_id,
        "name": caller.name,
        "scopes": sorted(caller.scopes),
        "queues": list(caller.queues),
        "kinds": None if caller.kinds is None else sorted(caller.kinds),
        "stores": None if caller.stores is None else sorted(caller.stores),
        "created_at": rfc3339(row[6]),
        "expires_at": rfc3339(row[7]),
        "revoked_at": rfc3339(row[8]),
    }
