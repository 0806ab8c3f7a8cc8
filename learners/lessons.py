"""``lessons:review-and-learn:v1``: a few short lessons, each earned by figures and retired when they no
longer hold.

Promises (contract, section 11) one step of review and learn over the nouns that were read: the
deterministic proposer, the threshold gate and a copy of the memory; each entry keeps its support, and two
lessons that contradict never both stand. Leaves out other proposers and gates: they use the same driver
(`learners.review`).
"""

from collections.abc import Mapping, Sequence
from typing import Any

from learners.catalog import LESSONS
from learners.contract import (
    Check,
    Evidence,
    Noun,
    OptionsError,
    Outcome,
    Reading,
    Run,
    Scope,
    Wanted,
    common_fields,
    name_of,
    output_key,
)
from learners.lesson_proposer import TARGET, Lesson, LessonProposer
from learners.lessons_checks import CHECKS
from learners.registry import load
from learners.review import (
    BUDGETS,
    DEFAULT_THRESHOLD,
    BoundedMemory,
    Entry,
    LearnOutcome,
    MemoryRefused,
    review_and_learn,
    score_threshold_gate,
)
from schemas.lessons import BODY_SCHEMA, CATEGORY, STORE, options_faults
from schemas.specs import spec_parts
from tessera.errors import Fault

READS = ("path_statistics", "routing_weights", "evaluation")


class LessonMemory:
    """A memory in which no lesson is added while the one that it contradicts stands."""

    def __init__(self, memory: BoundedMemory, lessons: Sequence[Lesson]) -> None:
        self._memory = memory
        self._opposite = {lesson.key: lesson.opposite for lesson in lessons}

    def apply(self, target: str, op: Mapping[str, Any]) -> None:
        """As the memory does; raises MemoryRefused for a lesson that contradicts a standing one."""
        opposite = self._opposite.get(str(op.get("key")))
        if op.get("action") == "add" and opposite in {entry.key for entry in self._memory.keyed(target)} - {
            None
        }:
            raise MemoryRefused(f"contradicts lesson {opposite}, which stands")
        self._memory.apply(target, op)


class Lessons:
    """The learner. Option: `threshold`, the gate's, 0 to 1."""

    spec: Mapping[str, Any] = LESSONS
    checks: Sequence[Check] = CHECKS

    def option_faults(self, options: Mapping[str, Any], root: str) -> list[Fault]:
        """What is wrong with the options."""
        return options_faults(options, root)

    def state_key(self, scope: Scope, options: Mapping[str, Any]) -> tuple[str, str]:
        """The noun of target `memory`."""
        return STORE, self._key(scope, TARGET)

    def reading(self, run: Run) -> Reading:
        """No observations: it learns from what others published."""
        return Reading(last=0, columns=("cursor", "private", "run_id"))

    def wanted(self, run: Run) -> Sequence[Wanted]:
        """The newest nouns of the scope's active scorecards, weights and evaluations, and the other
        memories.
        """
        nouns = []
        for entry in run.entries:
            parts = spec_parts(entry["spec"])
            of_scope = (entry["queue"], entry.get("kind")) == (run.scope.queue, run.scope.kind)
            if of_scope and entry["mode"] == "active" and parts is not None and parts[0] in READS:
                nouns.append(Wanted(*load(entry["spec"]).state_key(run.scope, entry["options"])))
        return [
            *nouns,
            *(Wanted(STORE, self._key(run.scope, target)) for target in BUDGETS if target != TARGET),
        ]

    def reach(self, run: Run) -> str | None:
        """The lowest cursor of the nouns that were read; None when there are none."""
        cursors = [int(record["body"]["cursor"]) for record in self._sources(run)]
        return str(min(cursors)) if cursors else None

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """The memory after the step; another target's noun only when the step changed it."""
        outcome, memory, proposer = self._step(run)
        learned = {lesson.key: lesson for lesson in proposer.lessons}
        applied = {proposal["op"].get("key") for proposal in outcome.applied}
        cursor = self.reach(run) or "0"
        nouns = []
        for target in BUDGETS:
            before = self._entries(run, target)
            kept = {(entry["key"], entry["text"]): entry for entry in before}
            entries = []
            for entry in memory.keyed(target):
                lesson = learned.get(entry.key or "")
                fresh = lesson is not None and lesson.key in applied and lesson.text == entry.text
                known = kept.get((entry.key, entry.text))
                entries.append(lesson.entry() if lesson and fresh else known or _unsupported(entry))
            if target == TARGET or entries != before:
                body = {
                    **common_fields(BODY_SCHEMA, self, run),
                    "cursor": cursor,
                    "target": target,
                    "entries": entries,
                }
                nouns.append(Noun(STORE, self._key(run.scope, target), CATEGORY, body))
        return Outcome(run, evidence, tuple(sorted(nouns, key=lambda noun: noun.body["target"] == TARGET)))

    def review(self, run: Run) -> LearnOutcome:
        """What became of each proposal of a run: the same step again, for whoever shows it."""
        return self._step(run)[0]

    def _step(self, run: Run) -> tuple[LearnOutcome, BoundedMemory, LessonProposer]:
        faults = options_faults(run.options)
        if faults:
            raise OptionsError(name_of(self), faults)
        standing = {target: self._entries(run, target) for target in BUDGETS}
        memory = BoundedMemory(
            {target: [Entry(entry["text"], entry["key"]) for entry in standing[target]] for target in BUDGETS}
        )
        proposer = LessonProposer(self._sources(run), standing[TARGET])
        gate = score_threshold_gate(run.options.get("threshold", DEFAULT_THRESHOLD))
        outcome = review_and_learn(proposer.summary(), proposer, gate, LessonMemory(memory, proposer.lessons))
        return outcome, memory, proposer

    def _sources(self, run: Run) -> list[Mapping[str, Any]]:
        """The nouns that evidence comes from; those that a surface may not show are none for it."""
        return [
            record
            for record in run.records
            if record["store"] != STORE and (run.surface is None or record.get("visibility") != "private")
        ]

    def _entries(self, run: Run, target: str) -> list[dict[str, Any]]:
        """The entries of a target before the step: none when the run starts anew."""
        if run.restart:
            return []
        if target == TARGET:
            return list(run.state["body"]["entries"]) if run.state else []
        key = self._key(run.scope, target)
        found = [record for record in run.records if (record["store"], record["key"]) == (STORE, key)]
        return list(found[-1]["body"]["entries"]) if found else []

    def _key(self, scope: Scope, target: str) -> str:
        return output_key(self.spec, scope, target)[1]


LEARNER = Lessons()


def _unsupported(entry: Entry) -> dict[str, Any]:
    """An entry that no record stands behind: someone else's proposal put it there."""
    return {
        "key": entry.key,
        "text": entry.text,
        "support": [],
        "runs_sha256": None,
        "earned_at": None,
        "recheck_at": None,
    }
