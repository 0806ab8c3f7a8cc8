"""Executions: what is kept of each submission, and the observations served from them.

Promises: an execution's number is given inside the transaction that writes it, from a counter that no
deletion turns back, so a cursor never skips, repeats or reuses one. An observation is kept as the bytes
that are served. Reads never show what the key may not read, and a page looks at no more than SCAN
executions.
"""

import json
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, text

from tessera.errors import NotFound
from tessera.store import ids, pins, simhash
from tessera.store.database import Session
from tessera.store.permission import Caller, may_read_run
from tessera.store.reader import Reader, Scope
from tessera.store.schema import briefs, execution_details, executions, simhash_bands
from tessera.store.statements import Statement, insert_into

SCAN = 2_000
_ABSENT = "there is no such execution"

_TAKE = Statement(
    text("UPDATE counters SET value = value + :count WHERE name = 'executions' RETURNING value")
)
_ADD = insert_into(executions)
_ADD_DETAILS = insert_into(execution_details)
_ADD_BAND = insert_into(simhash_bands)
_ITEMS = Statement(
    select(executions.c.item)
    .where(
        executions.c.queue == bindparam("queue"),
        executions.c.number.between(bindparam("first"), bindparam("last")),
    )
    .order_by(executions.c.number)
)
_ITEM = Statement(select(executions.c.item).where(executions.c.number == bindparam("number")))
_NEXT_QUEUE = Statement(
    select(executions.c.queue)
    .where(executions.c.queue > bindparam("queue"))
    .order_by(executions.c.queue)
    .limit(1)
)
_ONE = Statement(
    select(
        executions.c.token,
        executions.c.queue,
        executions.c.kind,
        executions.c.audience,
        executions.c.pins,
        executions.c.item,
        execution_details.c.brief,
        briefs.c.brief,
        execution_details.c.output,
        execution_details.c.failure,
        execution_details.c.receipt,
    )
    .select_from(
        executions.join(execution_details, execution_details.c.number == executions.c.number).outerjoin(
            briefs, briefs.c.task == execution_details.c.task
        )
    )
    .where(executions.c.number == bindparam("number"))
)


class Row(NamedTuple):
    """One execution to keep; ``brief`` only when no task holds it. JSON is UTF-8 bytes.

    ``simhash`` makes a run with problem text findable by likeness.
    """

    number: int
    token: str
    queue: str
    kind: str
    audience: str
    pins: str | None
    input_digest: str | None
    input_type: str
    item: bytes
    simhash: int | None
    task: int | None
    brief: bytes | None
    output: bytes | None
    failure: str | None
    receipt: bytes | None


def take_numbers(session: Session, count: int = 1) -> int:
    """The first of ``count`` new numbers; they are this transaction's, and gone if it is rolled back."""
    (value,) = session.rows(_TAKE, count=count)[0]
    return int(value) - count + 1


def keep(session: Session, rows: list[Row]) -> None:
    """Write executions under their numbers, each findable as recall looks for it."""
    session.insert_all(
        _ADD,
        [
            {
                "number": row.number,
                "token": row.token,
                "queue": row.queue,
                "kind": row.kind,
                "audience": row.audience,
                "pinned": pins.mark(row.pins),
                "pins": row.pins,
                "input_digest": row.input_digest,
                "input_type": row.input_type,
                "item": row.item,
                "simhash": simhash.signed(row.simhash),
            }
            for row in rows
        ],
    )
    session.insert_all(
        _ADD_DETAILS,
        [
            {
                "number": row.number,
                "task": row.task,
                "brief": row.brief,
                "output": row.output,
                "failure": row.failure,
                "receipt": row.receipt,
            }
            for row in rows
        ],
    )
    session.insert_all(
        _ADD_BAND,
        [
            {"queue": row.queue, "kind": row.kind, "band": band, "value": value, "number": row.number}
            for row in rows
            if row.simhash is not None
            for band, value in enumerate(simhash.bands(row.simhash))
        ],
    )


def page(session: Session, caller: Caller, scope: Scope, limit: int, store_id: str) -> bytes:
    """One page of observations in capture order, as the bytes of its answer."""
    scope.check(session, caller)
    found: list[int] = []
    looked, last, skipped, more = 0, scope.after, False, False
    reader = Reader(session, caller, scope)
    for number, readable in reader.walk(first=limit + 1):
        if looked == SCAN or len(found) == limit:
            more = True
            break
        looked, last = looked + 1, number
        if readable:
            found.append(number)
        else:
            skipped = True
    items: list[bytes] = []
    if found and not skipped:
        rows = session.rows(_ITEMS, queue=scope.queue, first=found[0], last=found[-1])
        items = [row[0] for row in rows]
    else:
        for number in found:
            row = session.row(_ITEM, number=number)
            items += [] if row is None else [row[0]]
    return b'{"store_id":%b,"items":[%b],"next_after":"%d","has_more":%b}' % (
        json.dumps(store_id).encode(),
        b",".join(items),
        last,
        b"true" if more else b"false",
    )


def pending(session: Session, caller: Caller, scope: Scope, cap: int, store_id: str) -> dict[str, Any]:
    """How many readable observations lie behind the cursor, counted up to ``cap``, and up to which."""
    scope.check(session, caller)
    count, last, capped = 0, scope.after, False
    for number in Reader(session, caller, scope).numbers(first=cap + 1):
        if count == cap:
            capped = True
            break
        count, last = count + 1, number
    return {"count": count, "capped": capped, "last": str(last), "store_id": store_id}


def get(session: Session, caller: Caller, run_id: str) -> bytes:
    """An execution whole, as JSON bytes: its observation and what an observation leaves out."""
    place = ids.parse("run", run_id)
    row = None if place is None else session.row(_ONE, number=place[0])
    if (
        place is None
        or row is None
        or row[0] != place[1]
        or not may_read_run(caller, row[1], row[2], row[3], pins.PinReader(session).facts(row[4]))
    ):
        raise NotFound(_ABSENT)
    item, own_brief, task_brief, output, failure, receipt = row[5:]
    return b"".join(
        (
            item[:-1],
            b',"brief_full":',
            own_brief or task_brief or b"null",
            b',"pins":',
            (row[4] or "[]").encode(),
            b',"output":',
            output or b"null",
            b',"failure":',
            json.dumps(failure, ensure_ascii=False).encode(),
            b',"receipt":',
            receipt or b"null",
            b"}",
        )
    )


def queues(session: Session, caller: Caller, store_id: str) -> dict[str, Any]:
    """The queues with at least one execution that the key may read, sorted."""
    names: list[str] = []
    queue = ""
    while (row := session.row(_NEXT_QUEUE, queue=queue)) is not None:
        queue = row[0]
        if caller.allows_queue(queue):
            reader = Reader(session, caller, Scope(queue, None, 0))
            if next(reader.numbers(first=1), None) is not None:
                names.append(queue)
    return {"queues": names, "store_id": store_id}
