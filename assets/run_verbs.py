"""Learner runs as verbs: private tasks of the queue `learn.runs`, one for each identity.

Promises that equal triggers for an equal state are one task, that a run which failed for good or was
cancelled gives way to the next, and that a task which someone else holds is waited for, not worked twice.
Leaves out doing the run (`assets.runner`).
"""

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assets.leases import LEASE_SECONDS
from assets.runs import Prepared, RunError, identity
from schemas.specs import RUNS_QUEUE
from tessera.client import Client
from tessera.errors import Conflict

OVER = ("succeeded", "failed", "cancelled")
_SPENT = ("failed", "cancelled")
_MOST_TASKS = 10_000
_POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Enqueued:
    """The task of a run: its id and state, the run's identity, and how many tasks of it are spent."""

    task_id: str
    state: str
    identity: str
    spent: int


def enqueue(client: Client, prepared: Prepared) -> Enqueued:
    """Enqueue the run or find its task.

    The n-th task of an identity has the idempotency key ``learner-run:<identity>:<n>``; the first that is not
    spent is the run's, and the store makes it when it is not there.
    """
    brief = prepared.brief()
    mine = identity(brief)
    for spent in range(_MOST_TASKS):
        try:
            task = client.enqueue(
                RUNS_QUEUE,
                prepared.spec["verb"]["category"],
                brief,
                private=True,
                idempotency_key=f"learner-run:{mine}:{spent}",
            )
        except Conflict:  # enqueued by another version of this software, whose hint or verb was another
            continue
        if task["state"] not in _SPENT:
            return Enqueued(task["task_id"], task["state"], mine, spent)
    raise RunError(
        f"{_MOST_TASKS} runs of {prepared.name} on queue {prepared.run.scope.queue} have failed in the same "
        "state: mend the cause, then change the entry's options or surface to begin anew"
    )


def claim(client: Client, task_id: str, patience: float = 2 * LEASE_SECONDS) -> Mapping[str, Any] | None:
    """Claim a run by its id; None when it is over by then.

    While another worker holds it, wait up to ``patience`` seconds, then raise RunError.
    """
    deadline = time.monotonic() + patience
    while True:
        claimed = client.claim(RUNS_QUEUE, task_id=task_id, lease_seconds=LEASE_SECONDS)
        if claimed is not None:
            return claimed
        task = client.get_task(task_id)
        if task["state"] in OVER:
            return None
        if time.monotonic() >= deadline:
            raise RunError(
                f"run {task_id} is leased to another worker until {task['lease_expires_at']}: it goes on "
                "there; run this again to see how it ended"
            )
        time.sleep(_POLL_SECONDS)


def claim_next(client: Client) -> Mapping[str, Any] | None:
    """Claim the next run that is the key's own; None when there is none."""
    return client.claim(RUNS_QUEUE, lease_seconds=LEASE_SECONDS)
