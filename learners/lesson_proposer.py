"""The deterministic proposer: what the evidence carries becomes lessons, and lessons it no longer carries go.

Promises proposals in a fixed order from values alone: removals first, then the lessons that fit the memory,
widest gap first. A lesson whose support no longer holds, that a held-out trial found of no help, or that
contradicts better evidence, is proposed for removal. Leaves out deciding: that is the gate's, and writing,
the memory's.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from learners.comparisons import BETTER, FAILS, LESS, MORE, Comparison, comparisons, interval
from learners.review import BUDGETS, JOINER, Proposal
from schemas.evaluation import BODY_SCHEMA as EVALUATION
from tessera.advice.lesson_words import WARNING, opening

TARGET = "memory"
RECHECK = timedelta(days=30)


@dataclass(frozen=True, slots=True)
class Lesson:
    """A lesson the evidence carries, as the noun keeps it, and how sure and how wide it is."""

    key: str
    text: str
    support: tuple[Mapping[str, Any], ...]
    runs_sha256: str
    earned_at: str
    recheck_at: str
    score: float
    gap: float
    opposite: str | None

    def entry(self) -> dict[str, Any]:
        """As the noun writes it."""
        return {
            "key": self.key,
            "text": self.text,
            "support": [dict(one) for one in self.support],
            "runs_sha256": self.runs_sha256,
            "earned_at": self.earned_at,
            "recheck_at": self.recheck_at,
        }


def lessons(records: Sequence[Mapping[str, Any]]) -> list[Lesson]:
    """The lessons that the records carry, widest gap first; one found of no help by its trial is none."""
    useless = unhelpful(records)
    claims = [(record, {one.key for one in comparisons([record])}) for record in records]
    found = [
        _lesson(one, [record for record, keys in claims if one.key in keys and record is not one.record])
        for one in comparisons(records)
        if one.key not in useless
    ]
    return sorted(found, key=lambda lesson: (-lesson.gap, lesson.key))


def unhelpful(records: Sequence[Mapping[str, Any]]) -> set[str]:
    """The keys of lessons that had their minimum evidence and were not judged better."""
    return {
        one["key"]
        for record in records
        if record["body"].get("schema") == EVALUATION
        for one in record["body"].get("lessons", ())
        if one["enough"] and one["verdict"] != "better"
    }


def _lesson(one: Comparison, agreeing: Sequence[Mapping[str, Any]]) -> Lesson:
    """The lesson of a comparison; its own record comes first in the support, then those that say the same."""
    records = [one.record, *sorted(agreeing, key=lambda record: (str(record["key"]), record["version"]))]
    support = [{name: record[name] for name in ("store", "key", "version")} for record in records]
    if one.claim == BETTER:
        support.append(dict(one.record["body"]["candidate"]))
    earned = max(str(record["created_at"]) for record in records)
    return Lesson(
        one.key,
        text_of(one),
        tuple(support),
        one.record["body"]["runs_sha256"],
        earned,
        later(earned, RECHECK),
        one.score,
        one.gap,
        one.opposite,
    )


def later(moment: str, by: timedelta) -> str:
    """An RFC 3339 time later by so much, in UTC with milliseconds and `Z`."""
    moved = datetime.fromisoformat(moment).astimezone(UTC) + by
    return moved.strftime("%Y-%m-%dT%H:%M:%S.") + f"{moved.microsecond // 1000:03d}Z"


def text_of(one: Comparison) -> str:
    """One sentence with both sides' figures. Labels are quoted as JSON: they are workers' words, not ours."""
    where = opening(one.category)
    sides = f"{_side(one.group)}, the rest {_side(one.rest)}"
    what = f"{one.dimension} {_quoted(one.value)}"
    if one.claim == BETTER:
        version = one.record["body"]["candidate"]["version"]
        return (
            f"{where}, {one.dimension} by version {version} of {_quoted(one.value)}: {_side(one.group)}, "
            f"what stood before {_side(one.rest)} (effective attempts, {one.label})."
        )
    if one.claim in (MORE, LESS):
        warning = "" if one.claim == MORE else WARNING
        return f"{warning}{where}, {what} is {one.claim}: {sides} ({one.label})."
    reason = one.claim.removeprefix(f"{FAILS}: ")
    return f"{WARNING}{where}, {what} fails with {_quoted(reason)}: {sides} ({one.label})."


def _quoted(label: str) -> str:
    return json.dumps(label, ensure_ascii=False)


def _side(counts: tuple[float, float]) -> str:
    low, high = interval(counts)
    return f"{round(counts[0])} of {round(counts[1])} ({low:.0%} to {high:.0%})"


class LessonProposer:
    """The port. `records` are the nouns read, `standing` the entries of the memory as its noun holds them.

    `lessons` are all that the records carry, `fitting` those that the memory has room for.
    """

    def __init__(
        self, records: Sequence[Mapping[str, Any]], standing: Sequence[Mapping[str, Any]] = ()
    ) -> None:
        self.records, self.standing = records, standing
        self.lessons = lessons(records)
        self._useless = unhelpful(records)
        self._carried = {lesson.key for lesson in self.lessons}
        self._contradicted = {lesson.opposite: lesson.key for lesson in self.lessons if lesson.opposite}
        self._faults = [self._fault(entry) for entry in standing]
        self.fitting = self._that_fit()

    def summary(self) -> str:
        """What there is to learn from, blank when there is nothing."""
        return "\n".join(sorted(f"{record['key']} version {record['version']}" for record in self.records))

    def told(self) -> str:
        """The evidence in words for other proposers: what stands, what the figures carry, and the room for
        it. Blank when there is no evidence.
        """
        if not self.records:
            return ""
        lines = [
            f"# Standing in {TARGET}, of {BUDGETS[TARGET]} code points",
            *(f"- {entry['text']}" for entry in self.standing),
        ]
        lines += ["# Carried by the figures", *(f"- {one.text} [{one.key}]" for one in self.lessons)]
        return "\n".join([*lines, "# Read", self.summary()])

    def __call__(self, summary: str) -> list[Proposal]:
        """Removals in the memory's order, then the lessons that fit beside what stays, then those that do
        not.
        """
        room = {lesson.key for lesson in self.fitting}
        removals = []
        for entry, fault in zip(self.standing, self._faults, strict=True):
            if fault is None and entry["key"] in self._carried - room:
                fault = "makes room for lessons with wider gaps"
            removals += [] if fault is None else [_removal(entry, fault)]
        crowded = [lesson for lesson in self.lessons if lesson.key not in room]
        return [*removals, *(_addition(lesson) for lesson in (*self.fitting, *crowded))]

    def _that_fit(self) -> list[Lesson]:
        """The lessons, widest gap first, that the memory holds beside entries that stay whatever is
        learned.
        """
        used = sum(
            len(entry["text"]) + len(JOINER)
            for entry, fault in zip(self.standing, self._faults, strict=True)
            if fault is None and entry["key"] not in self._carried
        )
        fitting = []
        for lesson in self.lessons:
            if used + len(lesson.text) <= BUDGETS[TARGET]:
                used += len(lesson.text) + len(JOINER)
                fitting.append(lesson)
        return fitting

    def _fault(self, entry: Mapping[str, Any]) -> str | None:
        """Why an entry can no longer stand, None when it can, or was not earned from records at all."""
        if not entry["support"]:
            return None
        key = entry["key"]
        if key in self._useless:
            return "its trial by draws had its minimum evidence and found no help"
        if key in self._contradicted:
            return f"contradicted by better evidence: lesson {self._contradicted[key]}"
        if key in self._carried or self._still_stands(entry):
            return None
        read = {(record["store"], record["key"]) for record in self.records}
        if any((one["store"], one["key"]) in read for one in entry["support"]):
            return "its support no longer holds"
        newest = max((str(record["created_at"]) for record in self.records), default="")
        return "its recheck is overdue and nothing confirms it" if newest > entry["recheck_at"] else None

    def _still_stands(self, entry: Mapping[str, Any]) -> bool:
        """Whether it says that weights did better which the same evaluation still has standing."""
        return any(
            record["body"].get("schema") == EVALUATION
            and record["body"]["standing"] in entry["support"]
            and any(
                (one["store"], one["key"]) == (record["store"], record["key"]) for one in entry["support"]
            )
            for record in self.records
        )


def _removal(entry: Mapping[str, Any], why: str) -> Proposal:
    op = {"action": "remove", "match": entry["text"]}
    return {"target": TARGET, "op": op, "score": 1.0, "rationale": why}


def _addition(lesson: Lesson) -> Proposal:
    op = {"action": "add", "text": lesson.text, "key": lesson.key}
    supports = ", ".join(f"{one['key']} version {one['version']}" for one in lesson.support)
    return {"target": TARGET, "op": op, "score": lesson.score, "rationale": f"earned from {supports}"}
