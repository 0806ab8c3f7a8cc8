"""Learner runs by hand: enqueue those that a queue's config asks for, and do one that waits.

Promises the caller's grants and never more: what is enqueued is the caller's own, and a run reads through the
API what its key may read. Leaves out the lake; the bytes are those that an asset publishes for the same runs.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from assets import run_verbs, runs, specs
from assets.evidence import Progress
from assets.run_verbs import Enqueued
from assets.runner import Ended, perform
from assets.runs import Prepared, RunError
from tessera.client import Client


@dataclass(frozen=True, slots=True)
class Asked:
    """What became of one config entry: its run's task and why it is due, or null when nothing is new."""

    prepared: Prepared
    reason: str | None
    task: Enqueued | None

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        state = self.prepared.brief()["state"]
        task = self.task
        return {
            "state": state,
            "options": dict(self.prepared.run.options),
            "reason": self.reason,
            "task_id": None if task is None else task.task_id,
            "task_state": None if task is None else task.state,
            "identity": None if task is None else task.identity,
        }


def enqueue(client: Client, name: str, queue: str) -> list[Asked]:
    """Enqueue the due runs of a spec on a queue, one for each config entry; raises RunError without one."""
    _, body = specs.installed(client, name)
    specs.runnable(name, body)
    entries = specs.entries_of(client, queue)
    mine = [entry for entry in entries if entry["spec"] == name]
    if not mine:
        raise RunError(
            f"no config entry runs {name} on queue {queue}: "
            f"`learner configure {name} --queue {queue}` adds one"
        )
    later = runs.later_in_store(client)
    asked = []
    for entry in mine:
        prepared = runs.prepare(client, entry, entries)
        reason = prepared.due(later)
        task = None if reason is None else run_verbs.enqueue(client, prepared)
        asked.append(Asked(prepared, reason, task))
    return asked


def run_one(client: Client, progress: Progress | None = None) -> Ended | None:
    """Claim one of the caller's waiting runs and do it; None when none waits."""
    task: Mapping[str, Any] | None = run_verbs.claim_next(client)
    return None if task is None else perform(client, task, runs.from_api(client, progress))
