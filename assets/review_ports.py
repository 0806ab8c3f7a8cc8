"""Which proposer and which gate a step of review and learn uses: those of here, and those of other packages.

Promises that only what is named is loaded, and that a name in the config never becomes a command: a package
offers a proposer or a gate by an entry point, installed by whoever runs the learner. Leaves out the step.
"""

from collections.abc import Mapping
from importlib.metadata import entry_points
from typing import Any, cast

from assets import apart
from assets.human_gate import HumanGate
from learners.contract import Learner, LearnerError
from learners.lessons import EVIDENCE, SCORE, Lessons
from learners.review import Gate, Proposal, Proposer, Verdict, score_threshold_gate
from learners.strangers import ask_port
from tessera.client import Client

PROPOSERS, GATES = "tessera.proposers", "tessera.gates"
HUMAN = "human"
SECONDS = 60.0
"""How long a port of another package may take for one answer."""


def proposer(name: str) -> Proposer | None:
    """The proposer of a name; None for the one of the evidence."""
    return None if name == EVIDENCE else cast(Proposer, _loaded(PROPOSERS, name, (EVIDENCE,)))


def gate(
    name: str,
    client: Client,
    queue: str,
    options: Mapping[str, Any],
    *,
    surface: Mapping[str, Any] | None = None,
    ask: bool = True,
) -> Gate | None:
    """The gate of a name; None for the one that looks at the score alone.

    Any other gate is asked only about what passes the option ``threshold``, where that is given.
    """
    if name == SCORE:
        return None
    last: Gate
    if name == HUMAN:
        last = HumanGate(client, queue, surface=surface, ask=ask)
    else:
        last = cast(Gate, _loaded(GATES, name, (SCORE, HUMAN)))
    if "threshold" not in options:
        return last
    first = score_threshold_gate(options["threshold"])

    def both(proposal: Proposal) -> Verdict:
        verdict = first(proposal)
        return last(proposal) if verdict.approved else verdict

    return both


def bound(learner: Learner, client: Client, entry: Mapping[str, Any], *, ask: bool) -> Learner:
    """The learner with the ports that its entry's options name; any but the lessons learner as it is."""
    if not isinstance(learner, Lessons):
        return learner
    options, surface = entry["options"], entry.get("surface")
    return Lessons(
        proposer(options.get("proposer", EVIDENCE)),
        gate(options.get("gate", SCORE), client, entry["queue"], options, surface=surface, ask=ask),
    )


def _loaded(group: str, name: str, ours: tuple[str, ...]) -> object:
    points = [point for point in entry_points(group=group) if point.name == name]
    what = group.partition(".")[2].removesuffix("s")
    if not points:
        known = ", ".join([*ours, *sorted({point.name for point in entry_points(group=group)})])
        raise LearnerError(f"no {what} {name!r} is installed; there are: {known}")
    if len(points) > 1:
        places = ", ".join(sorted(point.value for point in points))
        raise LearnerError(f"the {what} {name!r} is offered more than once: {places}; uninstall all but one")
    if not callable(points[0].load()):
        raise LearnerError(f"the {what} {name!r} at {points[0].value} cannot be called")

    def port(asked: Any) -> Any:
        try:
            return apart.call(ask_port, group, name, asked, seconds=SECONDS)
        except apart.TimeOver:
            raise LearnerError(
                f"the {what} {name!r} took longer than {SECONDS:g} seconds and was stopped"
            ) from None

    return port
