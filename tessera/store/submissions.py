"""Submits: the end of a claim, kept as an execution.

Promises: a submit under the fence that holds the task is kept whole with its receipt in one transaction,
and any other writes nothing. What the worker says of itself stays in the report; what the store saw is
beside it.
"""

import hashlib
import json
from typing import Any, Literal, NamedTuple

from sqlalchemy import bindparam, text, update

from tessera import canonical, fingerprints, observations
from tessera.errors import Problem
from tessera.store import draws, executions, idempotency, ids, leases, simhash, tasks
from tessera.store.clock import rfc3339
from tessera.store.compact import compact
from tessera.store.database import Session
from tessera.store.permission import Caller
from tessera.store.schema import tasks as table
from tessera.store.statements import Statement
from tessera.store.tasks import Task

_END = Statement(
    update(table)
    .where(
        table.c.number == bindparam("task"),
        table.c.fence == bindparam("at_fence"),
        text("state = 'claimed'"),
    )
    .values(state=bindparam("next_state"), submitted=table.c.submitted + text("1"))
)


class _Ended(NamedTuple):
    """One submission, as the store saw it."""

    number: int
    token: str
    result: Literal["accepted", "failed"]
    state_after: str
    output: bytes | None
    report: dict[str, Any] | None

    @property
    def run_id(self) -> str:
        return ids.make("run", self.number, self.token)


def submit(session: Session, caller: Caller, task_id: str, request: dict[str, Any]) -> bytes:
    """Keep how a claimed task went; the receipt as JSON bytes.

    The same idempotency key and body gives the first receipt again, also after the fence moved.
    """
    name, digest = request.get("idempotency_key"), ""
    if name is not None:
        digest = hashlib.sha256(task_id.encode() + b"\0" + canonical.dumps(request)).hexdigest()
        answer = idempotency.first_answer(session, caller.key_id, "submit", name, digest)
        if answer is not None:
            return answer
    try:
        task = leases.held(session, caller, task_id, request["fence"])
    except Problem:
        # The same submit, sent twice at once, may have been kept while this one waited for the task.
        answer = name and idempotency.first_answer(session, caller.key_id, "submit", name, digest)
        if answer:
            return answer
        raise
    ended = _Ended(
        number=executions.take_numbers(session),
        token=ids.token(),
        result="accepted" if request["ok"] else "failed",
        state_after=_state_after(task, request["ok"]),
        output=canonical.dumps(request["output"]) if request.get("output") is not None else None,
        report=request.get("execution_report"),
    )
    session.change(_END, task=task.number, at_fence=task.fence, next_state=ended.state_after)
    receipt = _receipt(session, task, ended)
    answer = compact(receipt)
    _keep(session, caller, task, ended, request.get("failure"), receipt, answer)
    if name is not None:
        idempotency.keep(session, caller.key_id, "submit", name, digest, answer)
    return answer


def _state_after(task: Task, ok: bool) -> str:
    if ok:
        return "succeeded"
    return "queued" if task.fence < task.max_attempts else "failed"


def _receipt(session: Session, task: Task, ended: _Ended) -> dict[str, Any]:
    receipt = {
        "run_id": ended.run_id,
        "task_id": task.task_id,
        "fence": task.fence,
        "result": ended.result,
        "state_after": ended.state_after,
        "submitted_at": rfc3339(session.now),
        "input_digest": task.input_digest,
        "output_sha256": None if ended.output is None else hashlib.sha256(ended.output).hexdigest(),
        "report_sha256": None if ended.report is None else canonical.digest(ended.report),
    }
    return {**receipt, "receipt_sha256": canonical.digest(receipt)}


def _keep(
    session: Session,
    caller: Caller,
    task: Task,
    ended: _Ended,
    failure: str | None,
    receipt: dict[str, Any],
    answer: bytes,
) -> None:
    brief = json.loads(tasks.brief(session, task.number))
    item = observations.build_item(
        run_id=ended.run_id,
        cursor=str(ended.number),
        brief=brief,
        input_digest=task.input_digest,
        origin="live",
        private=bool(task.discreet),
        task_id=task.task_id,
        kind=task.kind,
        queue=task.queue,
        fence=task.fence,
        lapsed=task.fence - 1 - task.submitted,
        key_id=caller.key_id,
        claimed_at=rfc3339(task.claimed_at),
        submitted_at=receipt["submitted_at"],
        lease_seconds=task.lease_seconds,
        result=ended.result,
        state_after=ended.state_after,
        failure=failure,
        receipt_sha256=receipt["receipt_sha256"],
        draws=draws.standing(session, task.number, task.submitted),
        report=ended.report,
    )
    row = executions.Row(
        number=ended.number,
        token=ended.token,
        queue=task.queue,
        kind=task.kind,
        audience=task.audience,
        pins=task.pins,
        input_digest=task.input_digest,
        input_type=item["brief"]["input_type"],
        item=compact(item),
        simhash=words_of(item, ((ended.report or {}).get("summaries") or {}).get("problem")),
        task=task.number,
        brief=None,
        output=ended.output,
        failure=failure,
        receipt=answer,
    )
    executions.keep(session, [row])


def words_of(item: dict[str, Any], problem: str | None) -> int | None:
    """The SimHash of a run with problem text: of its wording and that text; None for a run without."""
    if problem is None:
        return None
    return simhash.simhash(fingerprints.words("\n".join([*item["brief"]["wording"].values(), problem])))
