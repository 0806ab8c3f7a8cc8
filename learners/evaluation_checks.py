"""What must hold of an evaluation before it is published.

Promises pure tests that name each noun at fault. A verdict that the figures do not carry, or a candidate
judged on runs it was learned from, stops the publication. Leaves out what follows from a failure.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from learners.candidates import body_of
from learners.contract import Check, Outcome
from learners.off_policy import alpha_of
from schemas.evaluation import ESTIMATORS, SIDES


def _estimates(body: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any], float]]:
    for estimator in ESTIMATORS:
        for side in SIDES:
            yield (
                f"{estimator} {side}",
                body["estimates"][estimator][side],
                -1.0 if side == "difference" else 0.0,
            )


def intervals_are_in_bounds(outcome: Outcome) -> Sequence[str]:
    """Ends in order and within 0..1, −1..1 for a difference; all unknown exactly where there are no rows."""
    faults = []
    for noun in outcome.nouns:
        for name, found, least in _estimates(noun.body):
            low, high = found["low"], found["high"]
            if (low is None) != (high is None) or (low is not None and not least <= low <= high <= 1):
                faults.append(f"{noun.key} {name}: {low!r} to {high!r}")
            if not noun.body["rows"] and found["estimate"] is not None:
                faults.append(f"{noun.key} {name}: an estimate of no rows")
    return faults


def verdicts_follow_figures(outcome: Outcome) -> Sequence[str]:
    """`better` and `worse` only where the sequence leaves 0 out on enough evidence; the standing follows."""
    faults = []
    for noun in outcome.nouns:
        body = noun.body
        low, high, least = body["sequence"]["low"], body["sequence"]["high"], body["minimum_evidence"]
        enough = body["rows"] >= least and min(body["effective_sample_size"].values()) >= least
        carried = "keep_baseline"
        if enough and low is not None:
            carried = "better" if low > 0 else "worse" if high < 0 else carried
        if body["verdict"] != carried:
            faults.append(f"{noun.key}: verdict {body['verdict']}, but the figures say {carried}")
        if body["standing"] != (body["candidate"] if carried == "better" else body["baseline"]):
            faults.append(f"{noun.key}: {body['standing']} stands after {carried}")
    return faults


def candidates_are_judged_on_later_runs(outcome: Outcome) -> Sequence[str]:
    """No row lies in the windows that candidate and baseline were learned from."""
    faults = []
    for noun in outcome.nouns:
        if "lesson" in noun.body:
            continue
        for cited in (noun.body["candidate"], noun.body["baseline"]):
            if cited is None:
                continue
            learned = body_of(outcome.run, cited)["window"]["upto"]
            if int(noun.body["window"]["after"]) < int(learned):
                faults.append(
                    f"{noun.key}: rows after {noun.body['window']['after']}, learned up to {learned}"
                )
    return faults


def numbers_never_go_back(outcome: Outcome) -> Sequence[str]:
    """A candidate's number is the one before or the next, its error is that number's, and n₀ never
    changes.
    """
    faults = []
    state = outcome.run.state["body"] if outcome.run.state else None
    for noun in outcome.nouns:
        number = noun.body["number"]
        if noun.body["alpha"] != (alpha_of(number) if number else None):
            faults.append(f"{noun.key}: error {noun.body['alpha']!r} is not that of candidate {number}")
        if state is None or "lesson" in noun.body:
            continue
        if not state["number"] <= number <= state["number"] + 1:
            faults.append(f"{noun.key}: candidate {number} after candidate {state['number']}")
        if noun.body["minimum_evidence"] != state["minimum_evidence"]:
            faults.append(f"{noun.key}: minimum evidence {noun.body['minimum_evidence']} has changed")
    return faults


CHECKS = (
    Check("intervals_are_in_bounds", "intervals in order and in bounds", intervals_are_in_bounds),
    Check("verdicts_follow_figures", "verdict and standing follow the figures", verdicts_follow_figures),
    Check(
        "candidates_are_judged_on_later_runs",
        "no row lies in a window that was learned from",
        candidates_are_judged_on_later_runs,
    ),
    Check("numbers_never_go_back", "number, error and minimum evidence are kept", numbers_never_go_back),
)
