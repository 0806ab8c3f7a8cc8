"""Review and learn outside a run: a step now, and the memory it writes to, one compare-and-swap an operation.

Promises that each operation rereads the memory, passes the checks and the one publishing place, and is tried
again when another writer was faster; what stands keeps its support. Leaves out who proposes and who judges.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

import polars as pl

from assets import review_ports, runs, specs
from assets.publish import publish, read_state, same_surface, verified
from assets.runs import Prepared, RunError
from learners.contract import Evidence, Noun, Run, name_of
from learners.lesson_proposer import TARGET, LessonProposer
from learners.lessons import (
    EVIDENCE,
    LEARNER,
    SCORE,
    Learned,
    LessonMemory,
    Lessons,
    after,
    body,
    key_of,
    sources,
    standing,
)
from learners.review import BoundedMemory, Entry, Gate, LearnOutcome, MemoryRefused, Proposer
from schemas.lessons import CATEGORY, STORE
from tessera.client import Client

NAME = name_of(LEARNER)
_TRIES = 16


@dataclass(frozen=True, slots=True)
class StoreMemory:
    """The memory of a queue, as the active config entry has it."""

    client: Client
    queue: str
    kind: str | None = None

    def apply(self, target: str, op: Mapping[str, Any]) -> None:
        """One operation, written when it changes something. Raises MemoryRefused, and what the store says."""
        for _ in range(_TRIES):
            prepared = prepare(self.client, self.queue, self.kind)
            run, learner = _of_target(self.client, prepared.run, target), Lessons(target=target)
            work = _applied(run, target, op)
            if work is None:
                return
            done = publish(self.client, verified(learner, work, prepared.spec))
            if done.status == "published":
                return
        raise MemoryRefused(f"retries used up: {STORE}/{key_of(run.scope, target)} changed {_TRIES} times")


def prepare(client: Client, queue: str, kind: str | None = None) -> Prepared:
    """The lessons of a scope as a run would find them. Raises RunError when no config entry has any."""
    entries = specs.entries_of(client, queue)
    for entry in entries:
        if (entry["spec"], entry.get("kind"), entry["mode"]) == (NAME, kind, "active"):
            return runs.prepare(client, entry, entries)
    of_kind = "" if kind is None else f" --kind {kind}"
    raise RunError(
        f"no active config entry runs {NAME} on queue {queue}{' for ' + kind if kind else ''}: "
        f"`learner configure {NAME} --queue {queue}{of_kind}` adds one"
    )


def step(
    client: Client,
    queue: str,
    *,
    kind: str | None = None,
    proposer: Proposer | str | None = None,
    gate: Gate | str | None = None,
    summary: str | None = None,
) -> LearnOutcome:
    """One step of review and learn over the nouns as they are now; ports by name, or as they are.

    Without a proposer or a gate those of the config entry's options; ``summary`` is what another proposer is
    told instead of the evidence in words. Raises ReviewError with the outcome so
    far when proposer or gate fail.
    """
    run = prepare(client, queue, kind).run
    by, judged_by = proposer or run.options.get("proposer", EVIDENCE), gate or run.options.get("gate", SCORE)
    if isinstance(by, str):
        by = review_ports.proposer(by)
    if isinstance(judged_by, str):
        judged_by = review_ports.gate(judged_by, client, queue, run.options, surface=run.surface)
    kept = {name: value for name, value in run.options.items() if name == "threshold"}
    evident = LessonProposer(sources(run), standing(run, TARGET))
    memory = StoreMemory(client, queue, kind)
    return Lessons(by, judged_by).step(replace(run, options=kept), evident, memory, summary)


def _of_target(client: Client, run: Run, target: str) -> Run:
    """The run as the writer of one target's noun, the other target's among its records."""
    if target == TARGET:
        return run
    state = read_state(client, STORE, key_of(run.scope, target))
    others = [record for record in run.records if record["store"] != STORE]
    restart = state is not None and not same_surface(state.get("surface"), run.surface)
    return replace(run, state=state, restart=restart, records=tuple(others))


def _applied(run: Run, target: str, op: Mapping[str, Any]) -> Learned | None:
    """What to publish after an operation; None when it changes nothing."""
    before = standing(run, target)
    lessons = LessonProposer(sources(run)).lessons
    memory = BoundedMemory({target: [Entry(entry["text"], entry["key"]) for entry in before]})
    LessonMemory(memory, lessons).apply(target, op)
    earned = {lesson.key: lesson for lesson in lessons if target == TARGET and lesson.key == op.get("key")}
    entries = after(before, memory.keyed(target), earned)
    if entries == before:
        return None
    cursor = "0" if run.state is None or run.restart else str(run.state["body"]["cursor"])
    noun = Noun(STORE, key_of(run.scope, target), CATEGORY, body(run, target, cursor, entries))
    return Learned(run, Evidence(pl.DataFrame(schema={"cursor": pl.Int64})), (noun,))
