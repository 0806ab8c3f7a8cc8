"""Which weights version is on trial, what it is compared with, and where an evaluation finds them.

Promises (contract, section 10) that a candidate stays until its verdict or 10 n₀ rows, then makes room for
the newest version of the scope's active spec; that what was last judged better stands until another is; and
that a candidate's number, and with it its share of the error, never goes back. Leaves out the judging.
"""

from collections.abc import Mapping
from typing import Any

import polars as pl

from learners.attempts import draws_of
from learners.contract import LearnerError, Run
from learners.registry import load
from schemas.evaluation import LESSON
from schemas.specs import spec_parts
from tessera.advice.lesson_words import judgeable

PATIENCE = 10
"""A candidate's most rows, in multiples of the minimum evidence."""

MOST_UNREAD = 256
"""How many lessons are judged at most where none can be read, so that it is not known which there are."""

LESSONS_FACET = "lessons"
WEIGHTS_FACET = "routing_weights"

Cited = dict[str, Any]


def previous(run: Run) -> Mapping[str, Any] | None:
    """The noun's previous version, unless the run starts anew."""
    return None if run.state is None or run.restart else run.state["body"]


def nouns_of(run: Run) -> list[tuple[str, str]]:
    """Store and key of the nouns whose newest version may be judged: the active spec's, or one shadow's."""
    dimension, shadow = run.options["dimension"], run.options.get("strategy")
    facet = LESSONS_FACET if dimension == LESSON else WEIGHTS_FACET
    found = []
    for entry in run.entries:
        parts = spec_parts(entry["spec"])
        if parts is None or parts[0] != facet or entry["mode"] != ("shadow" if shadow else "active"):
            continue
        if (entry["queue"], entry.get("kind")) != (run.scope.queue, run.scope.kind):
            continue
        if shadow not in (None, parts[1]):
            continue
        if facet == WEIGHTS_FACET and entry["options"].get("dimension") != dimension:
            continue
        found.append(load(entry["spec"]).state_key(run.scope, entry["options"]))
    return found


def newest(run: Run) -> Cited | None:
    """The newest version, among the records read, of the noun that may be judged; None while there is
    none.
    """
    records = _judged(run)
    if not records:
        return None
    return _cited(max(records, key=_version))


def standing(run: Run) -> Cited | None:
    """The version last judged better, which is the baseline; None is uniform choice."""
    state = previous(run)
    return dict(state["standing"]) if state and state["standing"] else None


def next_candidate(run: Run, minimum: int) -> tuple[Cited | None, int]:
    """The candidate of this run and its number k; a version that goes on, or comes back as newest, keeps
    its k.
    """
    state = previous(run)
    number = int(run.state["body"]["number"]) if run.state else 0
    current = dict(state["candidate"]) if state and state["candidate"] else None
    if state and current and current != state["standing"]:
        undecided = state["verdict"] == "keep_baseline" and state["rows"] < PATIENCE * minimum
        if undecided:
            return current, number
    latest = newest(run)
    return latest, number + (latest is not None and latest != current)


def body_of(run: Run, cited: Mapping[str, Any]) -> Mapping[str, Any]:
    """The body of a cited version. Raises LearnerError naming the record and the remedy when it was not
    read.
    """
    for record in run.records:
        if all(record[name] == cited[name] for name in ("store", "key", "version")):
            body: Mapping[str, Any] = record["body"]
            return body
    raise LearnerError(
        f"{cited['store']}/{cited['key']} version {cited['version']} cannot be read, but is compared here: "
        "run with the key that wrote it, with an admin's, or give its entry a surface"
    )


def lessons_to_judge(run: Run, observations: pl.DataFrame, standing: set[str] | None) -> list[str]:
    """The keys of lessons that draws have offered to hold back, of those that stand or were judged before.

    A worker may offer anything: what never was a lesson is left out. Where it cannot be read which stand,
    these are the keys that most draws offered.
    """
    arms = draws_of(observations, LESSON).select("arms").explode("arms")
    if not arms.height:
        return []
    counts = arms["arms"].struct.field("arm").value_counts()
    offered = {arm: count for arm, count in counts.iter_rows() if judgeable(arm)}
    if standing is None:
        return sorted(sorted(offered, key=lambda arm: (-offered[arm], arm))[:MOST_UNREAD])
    state = previous(run) or {}
    return sorted(offered.keys() & (standing | {one["key"] for one in state.get("lessons", ())}))


def standing_lessons(run: Run) -> set[str] | None:
    """The keys of the lessons that stand, None where their noun cannot be read."""
    memories = _judged(run)
    return {entry["key"] for record in memories for entry in record["body"]["entries"]} if memories else None


def lessons_noun(run: Run, lesson: str) -> Cited | None:
    """The newest lessons noun that holds a lesson, as a citation."""
    holding = [
        record
        for record in _judged(run)
        if any(entry["key"] == lesson for entry in record["body"]["entries"])
    ]
    if not holding:
        return None
    return _cited(max(holding, key=_version))


def _judged(run: Run) -> list[Mapping[str, Any]]:
    """The versions, among the records read, of nouns that may be judged."""
    names = set(nouns_of(run))
    return [record for record in run.records if (record["store"], record["key"]) in names]


def _version(record: Mapping[str, Any]) -> int:
    return int(record["version"])


def _cited(record: Mapping[str, Any]) -> Cited:
    return {name: record[name] for name in ("store", "key", "version")}
