"""Idempotency keys: the first answer again for the same key and canonical body, a conflict for another body.

The keys are the caller's own, and those of enqueues, submits and record batches do not meet. An answer is
kept in the transaction that it speaks of, so a refused call uses no key up.
"""

from sqlalchemy import bindparam, select

from tessera.errors import Conflict
from tessera.store.database import Session
from tessera.store.schema import idempotency
from tessera.store.statements import Statement, insert_into

_FIND = Statement(
    select(idempotency.c.digest, idempotency.c.answer).where(
        idempotency.c.key_id == bindparam("key_id"),
        idempotency.c.operation == bindparam("operation"),
        idempotency.c.name == bindparam("name"),
    )
)
_KEEP = insert_into(idempotency)


def first_answer(session: Session, key_id: str, operation: str, name: str, digest: str) -> bytes | None:
    """The answer that this key got before, None when it is new; Conflict when its body was another."""
    found = session.row(_FIND, key_id=key_id, operation=operation, name=name)
    if found is None:
        return None
    if found[0] != digest:
        raise Conflict("this idempotency key was used with another body: give another body another key")
    return bytes(found[1])


def keep(session: Session, key_id: str, operation: str, name: str, digest: str, answer: bytes) -> None:
    """Remember the answer of the transaction under way."""
    session.change(_KEEP, key_id=key_id, operation=operation, name=name, digest=digest, answer=answer)
