"""What code of other packages is asked for, found by name: a learner's outcome, a port's answer.

Promises functions of plain values, so that they can be called in another process, and loads little. Leaves
out that process.
"""

from collections.abc import Iterator, Mapping
from importlib.metadata import entry_points
from typing import Any

from learners.contract import CheckResult, Evidence, Noun, Run, judgment
from learners.registry import load


def learn_by_name(
    name: str, spec: Mapping[str, Any], run: Run, seen: Evidence
) -> tuple[tuple[Noun, ...], int, str | None, list[CheckResult]]:
    """The nouns that a learner makes of a run, how often it called a model, and how they were judged."""
    learner = load(name)
    outcome = learner.learn(run, seen)
    return (tuple(outcome.nouns), outcome.model_calls, *judgment(learner, outcome, spec))


def ask_port(group: str, name: str, asked: Any) -> Any:
    """What the port of a name answers; what it yields is a list."""
    (point,) = (point for point in entry_points(group=group) if point.name == name)
    answer = point.load()(asked)
    return list(answer) if isinstance(answer, Iterator) else answer
