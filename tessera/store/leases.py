"""Claims and heartbeats: who holds a task, until when, under which fence.

Promises: a fence is given out once; the highest priority goes first, then the oldest; a lapsed lease is
offered again without a sweeper, and a lapsed last attempt to no one. A private task is offered to its
owner alone.
"""

from collections.abc import Iterator
from functools import lru_cache
from typing import Any

from sqlalchemy import bindparam, or_, select, text, tuple_, update

from tessera.errors import Conflict, NotFound
from tessera.store import pins, tasks
from tessera.store.clock import rfc3339
from tessera.store.database import Session
from tessera.store.permission import Caller, may_be_offered, require_kinds, require_queue
from tessera.store.schema import past_claims
from tessera.store.schema import tasks as table
from tessera.store.statements import Statement, insert_into
from tessera.store.tasks import Task

_BATCH = 16  # candidates read at a time: one is enough unless their pins may not be read

_CLAIM = Statement(
    update(table)
    .where(
        table.c.number == bindparam("task"),
        table.c.fence == bindparam("at_fence"),
        table.c.state == bindparam("at_state"),
    )
    .values(
        state=text("'claimed'"),
        fence=bindparam("next_fence"),
        claimed_by=bindparam("key_id"),
        claimed_at=bindparam("moment"),
        lease_seconds=bindparam("seconds"),
        lease_expires_at=bindparam("until"),
    )
)
_EXTEND = Statement(
    update(table)
    .where(
        table.c.number == bindparam("task"),
        table.c.fence == bindparam("at_fence"),
        text("state = 'claimed'"),
    )
    .values(lease_expires_at=bindparam("until"))
)
_ADD_PAST = insert_into(past_claims)
_PAST = Statement(
    select(past_claims.c.key_id).where(
        past_claims.c.task == bindparam("task"), past_claims.c.fence == bindparam("fence")
    )
)


def claim(session: Session, caller: Caller, request: dict[str, Any]) -> dict[str, Any] | None:
    """Take the next task of a queue, or the one named; None when there is none to take.

    ``brief`` is in the answer as canonical bytes, for the face to join.
    """
    require_queue(caller, request["queue"])
    require_kinds(caller, request.get("kinds", ()))
    task = (
        _named(session, caller, request)
        if "task_id" in request
        else next(_offers(session, caller, request["queue"], _kinds(caller, request)), None)
    )
    if task is None:
        return None
    seconds = request["lease_seconds"]
    until = session.now + seconds * 1000
    session.change(
        _CLAIM,
        task=task.number,
        at_fence=task.fence,
        at_state=task.state,
        next_fence=task.fence + 1,
        key_id=caller.key_id,
        moment=session.now,
        seconds=seconds,
        until=until,
    )
    if task.fence and task.claimed_by is not None:
        session.change(_ADD_PAST, task=task.number, fence=task.fence, key_id=task.claimed_by)
    return {
        "task_id": task.task_id,
        "state": "claimed",
        "fence": task.fence + 1,
        "queue": task.queue,
        "kind": task.kind,
        "brief": tasks.brief(session, task.number),
        "pins": (task.pins or "[]").encode(),
        "input_digest": task.input_digest,
        "lease_expires_at": rfc3339(until),
    }


def heartbeat(session: Session, caller: Caller, task_id: str, request: dict[str, Any]) -> dict[str, Any]:
    """Let the lease end ``lease_seconds`` from now, or when it ended before if that is later."""
    task = held(session, caller, task_id, request["fence"])
    until = max(task.lease_expires_at or 0, session.now + request["lease_seconds"] * 1000)
    session.change(_EXTEND, task=task.number, at_fence=task.fence, until=until)
    return {**task.view(session.now), "lease_expires_at": rfc3339(until)}


def held(session: Session, caller: Caller, task_id: str, fence: int) -> Task:
    """The task that the caller holds under this fence.

    NotFound unless the caller made the claim of the fence; Conflict once the fence has moved or its lease
    is over for good.
    """
    task = tasks.find(session, task_id, to_change=True)
    if task is None or fence > task.fence:
        raise NotFound(tasks.ABSENT)
    if fence < task.fence:
        past = session.row(_PAST, task=task.number, fence=fence)
        if past is None or past[0] != caller.key_id:
            raise NotFound(tasks.ABSENT)
        raise Conflict(f"fence {fence} has moved: the task was claimed again", extra={"fence": task.fence})
    if task.claimed_by != caller.key_id:
        raise NotFound(tasks.ABSENT)
    state = task.state_at(session.now)
    if state != "claimed":
        raise Conflict(f"fence {fence} holds the task no more: it is {state}", extra={"state": state})
    return task


def _kinds(caller: Caller, request: dict[str, Any]) -> tuple[str, ...] | None:
    """The kinds to offer, None for all."""
    if "kinds" in request:
        return tuple(sorted(set(request["kinds"])))
    return None if caller.kinds is None else tuple(sorted(caller.kinds))


def _named(session: Session, caller: Caller, request: dict[str, Any]) -> Task | None:
    task = tasks.find(session, request["task_id"], to_change=True)
    if task is None or task.queue != request["queue"] or not _open(task, session.now):
        return None
    if "kinds" in request and task.kind not in request["kinds"]:
        return None
    facts = pins.PinReader(session).facts(task.pins)
    return task if may_be_offered(caller, task.kind, task.audience, facts, by_id=True) else None


def _open(task: Task, now: int) -> bool:
    return task.state == "queued" or (task.lapsed(now) and task.fence < task.max_attempts)


def _offers(session: Session, caller: Caller, queue: str, kinds: tuple[str, ...] | None) -> Iterator[Task]:
    """Tasks that may be claimed, best first: ready and lapsed ones, everyone's and the caller's own.

    Where others claim meanwhile, those that another has in hand are passed over. "There is none" is said only
    after a look that passed none over, since one that was enqueued behind them may have been missed.
    """
    reader = pins.PinReader(session)
    patient = False
    while True:
        passed_over = False
        for number in _candidates(session, caller, queue, kinds):
            task = tasks.take(session, number, wait=patient)
            if task is None or not _open(task, session.now):
                passed_over = True
            elif may_be_offered(caller, task.kind, task.audience, reader.facts(task.pins), by_id=False):
                yield task
        if not passed_over:
            return
        patient = True


def _candidates(session: Session, caller: Caller, queue: str, kinds: tuple[str, ...] | None) -> Iterator[int]:
    """Numbers of tasks that look open, in the order of offering."""
    count = None if kinds is None else len(kinds)
    values: dict[str, Any] = {f"kind_{n}": kind for n, kind in enumerate(kinds or ())}
    place = (-1_000, 0)  # before any rank and number
    while True:
        found: list[tuple[int, int]] = []
        for audience in ("", caller.key_id):
            values.update(queue=queue, audience=audience, rank=place[0], number=place[1], batch=_BATCH)
            found += session.rows(_query(count, lapsed=False), **values)
            found += session.rows(_query(count, lapsed=True), moment=session.now, **values)
        for place in sorted(found)[:_BATCH]:
            yield place[1]
        if len(found) < _BATCH:
            return


@lru_cache(maxsize=128)
def _query(kinds: int | None, *, lapsed: bool) -> Statement:
    """Candidates of one queue and audience behind a place, in the order of offering, from a partial index."""
    query = (
        select(table.c.rank, table.c.number)
        .where(
            table.c.queue == bindparam("queue"),
            table.c.audience == bindparam("audience"),
            tuple_(table.c.rank, table.c.number) > tuple_(bindparam("rank"), bindparam("number")),
        )
        .order_by(table.c.rank, table.c.number)
        .limit(bindparam("batch"))
    )
    if lapsed:
        query = query.where(
            text("state = 'claimed' AND fence < max_attempts"),
            table.c.lease_expires_at <= bindparam("moment"),
        )
    else:
        query = query.where(text("state = 'queued'"))
    if kinds is not None:
        query = query.where(or_(*(table.c.kind == bindparam(f"kind_{n}") for n in range(kinds))))
    return Statement(query)
