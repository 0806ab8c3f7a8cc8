"""Past attempts taken in as executions: each identity once within its queue, the same content again a no-op.

An identity that is there with other content refuses the whole call and names each such attempt; nothing
of the call is written.
"""

from typing import Any

from sqlalchemy import bindparam, select

from tessera import canonical, observations
from tessera.errors import Conflict
from tessera.store import executions, ids, submissions
from tessera.store.compact import compact
from tessera.store.database import Session
from tessera.store.permission import Caller, require_kinds, require_queue
from tessera.store.schema import imports
from tessera.store.statements import Statement, insert_into

_FIND = Statement(
    select(imports.c.content).where(
        imports.c.queue == bindparam("queue"), imports.c.identity == bindparam("identity")
    )
)
_ADD = insert_into(imports)

Attempt = dict[str, Any]


def take(session: Session, caller: Caller, request: dict[str, Any]) -> dict[str, Any]:
    """Import attempts that passed their checks: ``{imported, already_there}``."""
    queue, attempts = request["queue"], request["attempts"]
    require_queue(caller, queue)
    require_kinds(caller, sorted({attempt["kind"] for attempt in attempts}))
    new = _new(session, queue, attempts)
    if new:
        first = executions.take_numbers(session, len(new))
        executions.keep(
            session,
            [
                _execution(caller, queue, attempt, first + position)
                for position, (_, _, attempt) in enumerate(new)
            ],
        )
        session.insert_all(
            _ADD,
            [
                {"queue": queue, "identity": identity, "content": content, "number": first + position}
                for position, (identity, content, _) in enumerate(new)
            ],
        )
    return {"imported": len(new), "already_there": len(attempts) - len(new)}


def _new(session: Session, queue: str, attempts: list[Attempt]) -> list[tuple[str, str, Attempt]]:
    """The attempts not there yet, each once, with identity and content; Conflict naming those that differ."""
    known: dict[str, str] = {}
    new = []
    conflicts = []
    for index, attempt in enumerate(attempts):
        identity = observations.attempt_identity(attempt, queue)
        content = observations.attempt_content(attempt)
        if identity not in known:
            row = session.row(_FIND, queue=queue, identity=identity)
            known[identity] = content if row is None else row[0]
            if row is None:
                new.append((identity, content, attempt))
        if known[identity] != content:
            conflicts.append({"index": index, "path": f"attempts[{index}]"})
    if conflicts:
        raise Conflict(
            f"{len(conflicts)} of {len(attempts)} attempts are there already with other content; "
            "nothing was imported",
            extra={"conflicts": conflicts},
        )
    return new


def _execution(caller: Caller, queue: str, attempt: Attempt, number: int) -> executions.Row:
    """The execution that an attempt becomes."""
    parts = observations.attempt_parts(attempt, queue)
    token = ids.token()
    item = observations.build_item(
        run_id=ids.make("run", number, token),
        cursor=str(number),
        brief=parts.brief,
        key_id=caller.key_id,
        report=parts.report,
        **parts.server,
    )
    return executions.Row(
        number=number,
        token=token,
        queue=queue,
        kind=attempt["kind"],
        audience="",
        pins=None,
        input_digest=parts.server["input_digest"],
        input_type=item["brief"]["input_type"],
        item=compact(item),
        simhash=submissions.words_of(item, parts.brief.get("problem")),
        task=None,
        brief=canonical.dumps(parts.brief),
        output=None,
        failure=parts.server["failure"],
        receipt=None,
    )
