"""Where learners are found: one line for each of ours, and the entry points of other packages.

Promises that only what is asked for is loaded, and that a learner is what its name says. Leaves out running
them. A package adds a learner by an entry point in the group ``tessera.learners`` whose name is the spec key.
"""

from collections.abc import Mapping
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, cast

from learners.contract import Learner, LearnerError, Scope, name_of
from schemas.specs import spec_faults
from tessera.errors import Fault, listed

GROUP = "tessera.learners"

BUILT_IN = {
    "memory:minhash-lsh:v1": "learners.memory:LEARNER",
    "path_statistics:wilson-grouping:v1": "learners.path_statistics:LEARNER",
    "routing_weights:beta-bandit:v1": "learners.routing_weights:LEARNER",
    "evaluation:off-policy:v1": "learners.evaluation:LEARNER",
    "lessons:review-and-learn:v1": "learners.lessons:LEARNER",
}


class UnknownLearner(LearnerError):  # noqa: N818 - the sentence reads as what it is
    """No learner of that name is installed."""


def names() -> list[str]:
    """The spec keys that can be loaded, ours first; nothing is loaded to say so."""
    return [*BUILT_IN, *sorted({point.name for point in _points()} - set(BUILT_IN))]


def load(name: str) -> Learner:
    """The learner of a spec key. Raises ``UnknownLearner``, or ``LearnerError`` when it is not that one."""
    if name in BUILT_IN:
        module, _, attribute = BUILT_IN[name].partition(":")
        return cast(Learner, getattr(import_module(module), attribute))
    points = [point for point in _points() if point.name == name]
    if not points:
        known = ", ".join(names())
        raise UnknownLearner(f"no learner {name!r} is installed; there are: {known}")
    if len(points) > 1:
        places = ", ".join(sorted(point.value for point in points))
        raise LearnerError(f"learner {name!r} is offered more than once: {places}; uninstall all but one")
    learner = cast(Learner, points[0].load())
    faults = spec_faults(learner.spec, "spec")
    if faults:
        raise LearnerError(f"learner {name!r} at {points[0].value} has a spec that is none: {listed(faults)}")
    if name_of(learner) != name:
        raise LearnerError(f"learner {name!r} at {points[0].value} calls itself {name_of(learner)!r}")
    return learner


def entry_faults(entries: Mapping[int, Mapping[str, Any]], root: str = "body.entries") -> list[Fault]:
    """What is wrong with well-shaped config entries, by their place in the noun: options refused, or two that
    cannot stand side by side.

    Two entries may not write one noun, and two active specs of one facet may not share a scope; one spec may
    stand there several times with options that give other keys. Entries that are off may say anything.
    """
    faults: list[Fault] = []
    keys: dict[tuple[str, str], int] = {}
    facets: dict[tuple[str, str, str | None], tuple[int, str]] = {}
    for position, entry in entries.items():
        if entry["mode"] == "off":
            continue
        path = f"{root}[{position}]"
        try:
            learner = load(entry["spec"])
        except UnknownLearner as error:
            faults.append(Fault(f"{path}.spec", f"cannot run: {error}"))
            continue
        refused = learner.option_faults(entry["options"], f"{path}.options")
        faults += refused
        if refused:
            continue
        if "surface" in entry and learner.spec["consumers"]["visibility"] == "private":
            faults.append(Fault(f"{path}.surface", "is not for this spec: its outputs are private"))
        scope = Scope(entry["queue"], entry.get("kind"))
        key = learner.state_key(scope, entry["options"])
        if key in keys:
            faults.append(Fault(path, f"writes the same noun as {root}[{keys[key]}]: {key[1]}"))
        keys.setdefault(key, position)
        if entry["mode"] == "active":
            facet = (learner.spec["learner"], scope.queue, scope.kind)
            first, name = facets.setdefault(facet, (position, entry["spec"]))
            if name != entry["spec"]:
                faults.append(
                    Fault(path, f"is a second active spec of {facet[0]} on its scope, beside {root}[{first}]")
                )
    return faults


def _points() -> tuple[EntryPoint, ...]:
    return tuple(entry_points(group=GROUP))
