"""Tasks: enqueued, read and cancelled. Claims and leases are in ``leases``, submits in ``submissions``.

A state is read with the clock: a task on its last attempt is ``failed`` as soon as its lease lapses,
though nobody has touched its row.
"""

import hashlib
import json
from dataclasses import dataclass
from typing import Any

from sqlalchemy import bindparam, select, text, update

from tessera import canonical
from tessera.errors import Conflict, Forbidden, NotFound
from tessera.store import idempotency, ids, keys, pins
from tessera.store.clock import rfc3339
from tessera.store.database import Session
from tessera.store.permission import (
    Caller,
    may_cancel,
    may_read_run,
    require_kinds,
    require_queue,
)
from tessera.store.schema import briefs, tasks
from tessera.store.statements import Statement, insert_into

_COLUMNS = (
    tasks.c.number,
    tasks.c.token,
    tasks.c.queue,
    tasks.c.kind,
    tasks.c.state,
    tasks.c.fence,
    tasks.c.submitted,
    tasks.c.max_attempts,
    tasks.c.rank,
    tasks.c.audience,
    tasks.c.owner_key_id,
    tasks.c.pins,
    tasks.c.discreet,
    tasks.c.input_digest,
    tasks.c.created_at,
    tasks.c.claimed_by,
    tasks.c.claimed_at,
    tasks.c.lease_seconds,
    tasks.c.lease_expires_at,
)
_BY_NUMBER = Statement(select(*_COLUMNS).where(tasks.c.number == bindparam("number")))
# Where many write at once, what a transaction is about to change is its own from here on: it waits for
# whoever has it, or passes it over. SQLite's writers take turns, and it knows no such words.
_TO_CHANGE = Statement(select(*_COLUMNS).where(tasks.c.number == bindparam("number")).with_for_update())
_TO_TAKE = Statement(
    select(*_COLUMNS).where(tasks.c.number == bindparam("number")).with_for_update(skip_locked=True)
)
_ADD = insert_into(tasks, without=("number",))
_ADD_BRIEF = insert_into(briefs)
_BRIEF = Statement(select(briefs.c.brief).where(briefs.c.task == bindparam("task")))
_CANCEL = Statement(
    update(tasks)
    .where(
        tasks.c.number == bindparam("task"),
        tasks.c.fence == bindparam("at_fence"),
        tasks.c.state == bindparam("at_state"),
    )
    .values(state=text("'cancelled'"))
)
ABSENT = "there is no such task"


@dataclass(frozen=True, slots=True)
class Task:
    """A task's row; ``state`` is the stored one, ``state_at`` the true one."""

    number: int
    token: str
    queue: str
    kind: str
    state: str
    fence: int
    submitted: int
    max_attempts: int
    rank: int
    audience: str
    owner_key_id: str
    pins: str | None
    discreet: int
    input_digest: str
    created_at: int
    claimed_by: str | None
    claimed_at: int | None
    lease_seconds: int | None
    lease_expires_at: int | None

    @property
    def task_id(self) -> str:
        return ids.make("task", self.number, self.token)

    def lapsed(self, now: int) -> bool:
        """Whether the lease is over: claimed, and its end is not after ``now``."""
        return self.state == "claimed" and self.lease_expires_at is not None and self.lease_expires_at <= now

    def state_at(self, now: int) -> str:
        """``failed`` for a lapsed last attempt; any other lapsed lease is still its holder's."""
        return "failed" if self.lapsed(now) and self.fence >= self.max_attempts else self.state

    def view(self, now: int) -> dict[str, Any]:
        """What every call about a task answers."""
        return {
            "task_id": self.task_id,
            "state": self.state_at(now),
            "fence": self.fence,
            "queue": self.queue,
            "kind": self.kind,
        }


def find(session: Session, task_id: str, *, to_change: bool = False) -> Task | None:
    """The task of an id, whoever may see it; with ``to_change`` nobody else's until the transaction ends."""
    place = ids.parse("task", task_id)
    if place is None:
        return None
    row = session.row(_TO_CHANGE if to_change else _BY_NUMBER, number=place[0])
    task = None if row is None else Task(*row)
    return task if task is not None and task.token == place[1] else None


def load(session: Session, number: int) -> Task | None:
    """The task of a number."""
    row = session.row(_BY_NUMBER, number=number)
    return None if row is None else Task(*row)


def take(session: Session, number: int, *, wait: bool) -> Task | None:
    """The task of a number, nobody else's until the transaction ends; None, unless to ``wait``, while it is
    another's.
    """
    row = session.row(_TO_CHANGE if wait else _TO_TAKE, number=number)
    return None if row is None else Task(*row)


def brief(session: Session, number: int) -> bytes:
    """A task's brief, canonical JSON."""
    row = session.row(_BRIEF, task=number)
    if row is None:
        raise LookupError(f"task {number} has no brief")
    return bytes(row[0])


def enqueue(session: Session, caller: Caller, request: dict[str, Any]) -> tuple[bool, dict[str, Any]]:
    """Enqueue a task: whether it is new, and its view. A repeat under its idempotency key is not new."""
    queue, kind = request["queue"], request["kind"]
    require_queue(caller, queue)
    require_kinds(caller, (kind,))
    if "owner_key_id" in request and not caller.is_admin:
        raise Forbidden("owner_key_id is for keys with the scope admin")
    name, digest = request.get("idempotency_key"), ""
    if name is not None:
        digest = canonical.digest(request)
        answer = idempotency.first_answer(session, caller.key_id, "enqueue", name, digest)
        if answer is not None:
            known = load(session, int(answer))
            if known is None:
                raise NotFound(ABSENT)
            return False, known.view(session.now)
    owner = _owner(session, caller, request)
    number, token = _add(session, caller, owner, request)
    if name is not None:
        idempotency.keep(session, caller.key_id, "enqueue", name, digest, str(number).encode())
    return True, {
        "task_id": ids.make("task", number, token),
        "state": "queued",
        "fence": 0,
        "queue": queue,
        "kind": kind,
    }


def _owner(session: Session, caller: Caller, request: dict[str, Any]) -> str:
    """Whose task it will be: the enqueuer's, or that of the key an admin names, if it is granted as much."""
    key_id: str | None = request.get("owner_key_id")
    if key_id is None:
        return caller.key_id
    owner = keys.find_usable(session, key_id)
    if owner is None:
        raise Forbidden("owner_key_id: the key is unknown, revoked or expired")
    if not owner.allows_queue(request["queue"]):
        raise Forbidden("owner_key_id: the key is not granted the queue")
    if not owner.allows_kind(request["kind"]):
        raise Forbidden("owner_key_id: the key is not granted the kind")
    return key_id


def _add(session: Session, caller: Caller, owner: str, request: dict[str, Any]) -> tuple[int, str]:
    captured: list[pins.Pin] = []
    discreet = False
    if request.get("pins"):
        captured, discreet = pins.capture(session, caller, request["pins"])
    private = request.get("private", False)
    body = canonical.dumps(request["brief"])
    # The digest of {brief, pins}: canonical JSON sorts the two names so.
    snapshot = b'{"brief":' + body + b',"pins":' + canonical.dumps(captured) + b"}"
    token = ids.token()
    number = session.insert(
        _ADD,
        token=token,
        queue=request["queue"],
        kind=request["kind"],
        state="queued",
        fence=0,
        submitted=0,
        max_attempts=request.get("max_attempts", 3),
        rank=-request.get("priority", 0),
        audience=owner if private else "",
        owner_key_id=owner,
        pins=json.dumps(captured) if captured else None,
        discreet=int(private or discreet),
        input_digest=hashlib.sha256(snapshot).hexdigest(),
        created_at=session.now,
        claimed_by=None,
        claimed_at=None,
        lease_seconds=None,
        lease_expires_at=None,
    )
    session.change(_ADD_BRIEF, task=number, brief=body)
    return number, token


def get(session: Session, caller: Caller, task_id: str) -> dict[str, Any]:
    """A task as it is now; NotFound when it may not be seen."""
    task = find(session, task_id)
    if task is None or not may_read_run(
        caller, task.queue, task.kind, task.audience, pins.PinReader(session).facts(task.pins)
    ):
        raise NotFound(ABSENT)
    held = task.state_at(session.now) == "claimed"
    return {
        **task.view(session.now),
        "private": bool(task.audience),
        "priority": -task.rank,
        "max_attempts": task.max_attempts,
        "owner_key_id": task.owner_key_id,
        "created_at": rfc3339(task.created_at),
        "lease_expires_at": rfc3339(task.lease_expires_at) if held else None,
    }


def cancel(session: Session, caller: Caller, task_id: str) -> dict[str, Any]:
    """Cancel a task that is not over; repeating it changes nothing. Conflict when it succeeded or failed."""
    task = find(session, task_id, to_change=True)
    if task is None or not may_cancel(caller, task.queue, task.kind, task.owner_key_id):
        raise NotFound(ABSENT)
    state = task.state_at(session.now)
    if state in ("succeeded", "failed"):
        raise Conflict(f"the task has {state} and cannot be cancelled")
    if state != "cancelled":
        session.change(_CANCEL, task=task.number, at_fence=task.fence, at_state=task.state)
    return {**task.view(session.now), "state": "cancelled"}
