"""``lessons:review-and-learn:v1``: a few short lessons, each earned by figures and retired when they no
longer hold.

Promises (contract, section 11) one step of review and learn over the nouns that were read, on a copy of the
memory; each entry keeps its support, and two lessons that contradict never both stand. Leaves out proposers
and gates of others: they are given by whoever runs it, and its options only name them.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from learners.catalog import LESSONS
from learners.contract import (
    Check,
    Evidence,
    LearnerError,
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
    Gate,
    LearnOutcome,
    Memory,
    MemoryRefused,
    Proposer,
    review_and_learn,
    score_threshold_gate,
)
from schemas.lessons import BODY_SCHEMA, CATEGORY, STORE, options_faults
from schemas.specs import spec_parts
from tessera.errors import Fault

READS = ("path_statistics", "routing_weights", "evaluation")
EVIDENCE, SCORE = "evidence", "score"
"""The names of the proposer and the gate that are used when the options name none."""


@dataclass(frozen=True, slots=True)
class Learned(Outcome):
    """An outcome that says what became of each proposal."""

    proposals: LearnOutcome = field(default_factory=LearnOutcome)


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
    """The learner. Options: `threshold`, the score gate's, 0 to 1; `proposer` and `gate`, by name.

    ``proposer`` and ``gate`` are those that the options name; without them only the two of here are known.
    ``target`` is whose noun is the state: that of ``memory`` in every run.
    """

    spec: Mapping[str, Any] = LESSONS
    checks: Sequence[Check] = CHECKS

    def __init__(
        self, proposer: Proposer | None = None, gate: Gate | None = None, target: str = TARGET
    ) -> None:
        self._proposer, self._gate, self._target = proposer, gate, target

    def option_faults(self, options: Mapping[str, Any], root: str) -> list[Fault]:
        """What is wrong with the options."""
        return options_faults(options, root)

    def state_key(self, scope: Scope, options: Mapping[str, Any]) -> tuple[str, str]:
        """The noun of the target."""
        return STORE, key_of(scope, self._target)

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
            *(Wanted(STORE, key_of(run.scope, target)) for target in BUDGETS if target != self._target),
        ]

    def reach(self, run: Run) -> str | None:
        """The lowest cursor of the nouns that were read; None when there are none."""
        cursors = [int(record["body"]["cursor"]) for record in sources(run)]
        return str(min(cursors)) if cursors else None

    def learn(self, run: Run, evidence: Evidence) -> Learned:
        """The memory after the step; another target's noun only when the step changed it."""
        outcome, memory, evident = self._step(run)
        applied = {proposal["op"].get("key") for proposal in outcome.applied}
        earned = {lesson.key: lesson for lesson in evident.lessons if lesson.key in applied}
        cursor = self.reach(run) or "0"
        nouns = []
        for target in BUDGETS:
            before = standing(run, target)
            entries = after(before, memory.keyed(target), earned)
            if target == TARGET or entries != before:
                nouns.append(
                    Noun(STORE, key_of(run.scope, target), CATEGORY, body(run, target, cursor, entries))
                )
        nouns.sort(key=lambda noun: noun.body["target"] == TARGET)
        return Learned(run, evidence, tuple(nouns), proposals=outcome)

    def review(self, run: Run) -> LearnOutcome:
        """What became of each proposal of a run: the same step again, for whoever shows it."""
        return self._step(run)[0]

    def _step(self, run: Run) -> tuple[LearnOutcome, BoundedMemory, LessonProposer]:
        faults = options_faults(run.options)
        if faults:
            raise OptionsError(name_of(self), faults)
        before = {target: standing(run, target) for target in BUDGETS}
        memory = BoundedMemory(
            {target: [Entry(entry["text"], entry["key"]) for entry in before[target]] for target in BUDGETS}
        )
        evident = LessonProposer(sources(run), before[TARGET])
        return self.step(run, evident, LessonMemory(memory, evident.lessons)), memory, evident

    def step(
        self, run: Run, evident: LessonProposer, memory: Memory, summary: str | None = None
    ) -> LearnOutcome:
        """Review and learn from what the evidence carries, by the proposer and the gate of the options."""
        proposer, gate = run.options.get("proposer", EVIDENCE), run.options.get("gate", SCORE)
        for kind, named, known, given in (
            ("proposer", proposer, EVIDENCE, self._proposer),
            ("gate", gate, SCORE, self._gate),
        ):
            if named != known and given is None:
                raise LearnerError(
                    f"the {kind} {named!r} of the options is not at hand here: install the package that "
                    "offers it, or take the option out"
                )
        threshold = run.options.get("threshold", DEFAULT_THRESHOLD)
        if summary is None:
            summary = evident.told() if self._proposer else evident.summary()
        return review_and_learn(
            summary, self._proposer or evident, self._gate or score_threshold_gate(threshold), memory
        )


LEARNER = Lessons()


def key_of(scope: Scope, target: str) -> str:
    """The key of a target's noun."""
    return output_key(LESSONS, scope, target)[1]


def sources(run: Run) -> list[Mapping[str, Any]]:
    """The nouns that evidence comes from; those that a surface may not show are none for it."""
    return [
        record
        for record in run.records
        if record["store"] != STORE and (run.surface is None or record.get("visibility") != "private")
    ]


def standing(run: Run, target: str) -> list[dict[str, Any]]:
    """The entries of a target before the step: none when the run starts anew."""
    if run.restart:
        return []
    if run.state is not None and run.state["body"]["target"] == target:
        return list(run.state["body"]["entries"])
    key = key_of(run.scope, target)
    found = [record for record in run.records if (record["store"], record["key"]) == (STORE, key)]
    return list(found[-1]["body"]["entries"]) if found else []


def after(
    before: Sequence[Mapping[str, Any]], entries: Sequence[Entry], earned: Mapping[str, Lesson]
) -> list[dict[str, Any]]:
    """A memory's entries as its noun writes them: an earned one with its support, one that was there as it
    was.
    """
    kept = {(entry["key"], entry["text"]): dict(entry) for entry in before}
    written = []
    for entry in entries:
        lesson = earned.get(entry.key or "")
        known = kept.get((entry.key, entry.text))
        if lesson is not None and lesson.text == entry.text:
            written.append(lesson.entry())
        else:
            written.append(known or _unsupported(entry))
    return written


def body(run: Run, target: str, cursor: str, entries: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The body of a target's noun."""
    fields = {"cursor": cursor, "target": target, "entries": [dict(entry) for entry in entries]}
    return {**common_fields(BODY_SCHEMA, LEARNER, run), **fields}


def _unsupported(entry: Entry) -> dict[str, Any]:
    """An entry that no record stands behind: someone else's proposal put it there."""
    nothing = dict.fromkeys(("runs_sha256", "earned_at", "recheck_at"))
    return {"key": entry.key, "text": entry.text, "support": [], **nothing}
