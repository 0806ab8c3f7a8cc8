"""Draws: the coin thrown for a worker, recorded once and standing until a submit.

Promises one row for each task, number of attempts submitted so far, and dimension, never rewritten: a fence
after a lapsed lease gets the recorded answer, and the same fence with another body a conflict. What is thrown
can be computed again from the store's secret, which never leaves it. Leaves out what weights mean.
"""

import json
from typing import Any, NamedTuple

from sqlalchemy import bindparam, select, tuple_

from tessera import canonical
from tessera.errors import Conflict
from tessera.store import coin, ids, leases
from tessera.store.database import Session
from tessera.store.permission import Caller
from tessera.store.schema import draws, tasks
from tessera.store.statements import Statement, insert_into

DIMENSIONS = ("shim", "method", "harness", "model", "lesson")
MAX_ARMS = 64

_RECORDED = (draws.c.fence, draws.c.arm, draws.c.propensity, draws.c.arms, draws.c.policy)
_FIND = Statement(
    select(*_RECORDED).where(
        draws.c.task == bindparam("task"),
        draws.c.submitted == bindparam("submitted"),
        draws.c.dimension == bindparam("dimension"),
    )
)
_STANDING = Statement(
    select(draws.c.dimension, *_RECORDED)
    .where(draws.c.task == bindparam("task"), draws.c.submitted == bindparam("submitted"))
    .order_by(draws.c.dimension)
)
_WALK = Statement(
    select(
        draws.c.task,
        draws.c.submitted,
        draws.c.dimension,
        *_RECORDED,
        tasks.c.token,
        tasks.c.queue,
        tasks.c.kind,
    )
    .select_from(draws.join(tasks, tasks.c.number == draws.c.task))
    .where(
        tuple_(draws.c.task, draws.c.submitted, draws.c.dimension)
        > tuple_(bindparam("task"), bindparam("submitted"), bindparam("dimension"))
    )
    .order_by(draws.c.task, draws.c.submitted, draws.c.dimension)
    .limit(bindparam("limit"))
)
_ADD = insert_into(draws)

Place = tuple[int, int, str]
"""Where a walk over draws stands: task number, attempts submitted, dimension."""

START: Place = (0, 0, "")


class _Recorded(NamedTuple):
    """What a row says was thrown; ``arms`` and ``policy`` as JSON text."""

    fence: int
    arm: str
    propensity: float
    arms: str
    policy: str | None

    def view(self) -> dict[str, Any]:
        return {
            "arm": self.arm,
            "propensity": self.propensity,
            "arms": json.loads(self.arms),
            "policy": None if self.policy is None else json.loads(self.policy),
        }


def draw(
    session: Session, caller: Caller, task_id: str, request: dict[str, Any], secret: bytes
) -> dict[str, Any]:
    """Throw the coin for a claimed task, or tell how it fell: ``{arm, propensity}``."""
    task = leases.held(session, caller, task_id, request["fence"])
    dimension, policy = request["dimension"], request.get("policy")
    row = session.row(_FIND, task=task.number, submitted=task.submitted, dimension=dimension)
    if row is not None:
        standing = _Recorded(*row)
        if standing.fence == task.fence and not _same(standing, request["arms"], policy):
            raise Conflict(f"fence {task.fence} has drawn the dimension {dimension} with another body")
        return {"arm": standing.arm, "propensity": standing.propensity}
    number = coin.uniform(secret, task.task_id, task.submitted, dimension)
    drawn = coin.pick(request["arms"], number)
    session.change(
        _ADD,
        task=task.number,
        submitted=task.submitted,
        dimension=dimension,
        fence=task.fence,
        arm=drawn["arm"],
        propensity=drawn["weight"],
        arms=_text(request["arms"]),
        policy=None if policy is None else _text(policy),
    )
    return {"arm": drawn["arm"], "propensity": drawn["weight"]}


def standing(session: Session, task: int, submitted: int) -> list[dict[str, Any]]:
    """The draws that an attempt's observation shows, by dimension."""
    rows = session.rows(_STANDING, task=task, submitted=submitted)
    return [{"dimension": row[0], **_Recorded(*row[1:]).view()} for row in rows]


def page(session: Session, caller: Caller, after: Place, limit: int, secret: bytes) -> dict[str, Any]:
    """Recorded draws of what the key is granted, each beside the coin thrown again."""
    task, submitted, dimension = after
    rows = session.rows(_WALK, task=task, submitted=submitted, dimension=dimension, limit=limit + 1)
    items = []
    for row in rows[:limit]:
        place, recorded, (token, queue, kind) = row[:3], _Recorded(*row[3:8]), row[8:]
        if not (caller.allows_queue(queue) and caller.allows_kind(kind)):
            continue
        task_id = ids.make("task", place[0], token)
        view = recorded.view()
        thrown = coin.pick(view["arms"], coin.uniform(secret, task_id, place[1], place[2]))
        items.append(
            {
                "task_id": task_id,
                "submitted": place[1],
                "dimension": place[2],
                "fence": recorded.fence,
                **view,
                "recomputed": {"arm": thrown["arm"], "propensity": thrown["weight"]},
                "agrees": (thrown["arm"], thrown["weight"]) == (recorded.arm, recorded.propensity),
            }
        )
    last = rows[:limit][-1][:3] if rows else after
    return {
        "items": items,
        "next_after": ".".join(str(part) for part in last) if last != START else "",
        "has_more": len(rows) > limit,
    }


def _same(recorded: _Recorded, arms: list[dict[str, Any]], policy: dict[str, Any] | None) -> bool:
    view = recorded.view()
    return canonical.dumps([view["arms"], view["policy"]]) == canonical.dumps([arms, policy])


def _text(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))
