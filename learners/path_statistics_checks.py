"""What must hold of a scorecard before it is published.

Promises pure tests that name each group at fault. They recompute what they can from the evidence and take no
figure on trust. Leaves out what follows from a failure: the publishing place writes nothing.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from learners.contract import Check, Outcome
from learners.statistics import Pinned
from tessera.canonical import dumps

_PARTS = ("accepted", "distinct_tasks", "retried", "imported", "blocked", "randomized")


def _groups(outcome: Outcome) -> Iterator[tuple[str, Mapping[str, Any]]]:
    for noun in outcome.nouns:
        for group in noun.body["groups"]:
            yield f"{noun.key} {dumps(group['dimensions']).decode()}", group


def intervals_hold_rates(outcome: Outcome) -> Sequence[str]:
    """0 ≤ low ≤ rate ≤ high ≤ 1, and all three unknown exactly where there were no attempts."""
    faults = []
    for where, group in _groups(outcome):
        low, rate, high = group["wilson_low"], group["acceptance_rate"], group["wilson_high"]
        unknown = [value is None for value in (low, rate, high)]
        if any(unknown):
            holds = all(unknown) and group["attempts"] == 0
        else:
            holds = group["attempts"] > 0 and 0 <= low <= rate <= high <= 1
        if not holds:
            faults.append(f"{where}: low {low}, rate {rate}, high {high} of {group['attempts']} attempts")
    return faults


def counts_add_up(outcome: Outcome) -> Sequence[str]:
    """Each part of a group is within its attempts, and the attempts of all groups are the window's count."""
    faults = [
        f"{where}: {part} {group[part]} of {group['attempts']} attempts"
        for where, group in _groups(outcome)
        for part in _PARTS
        if not 0 <= group[part] <= group["attempts"]
    ]
    for noun in outcome.nouns:
        attempts = sum(group["attempts"] for group in noun.body["groups"])
        if attempts != noun.body["window"]["count"]:
            faults.append(f"{noun.key}: groups hold {attempts} of {noun.body['window']['count']} runs")
    return faults


def groups_are_unique(outcome: Outcome) -> Sequence[str]:
    """No two groups of a scorecard have the same dimensions."""
    seen: set[str] = set()
    faults = []
    for where, _ in _groups(outcome):
        if where in seen:
            faults.append(f"{where}: stands twice")
        seen.add(where)
    return faults


def runs_are_pinned(outcome: Outcome) -> Sequence[str]:
    """The digest of the runs and their count, recomputed from the evidence."""
    pinned = Pinned()
    for rows in outcome.evidence.pieces(("cursor", "run_id", "private")):
        pinned.add_rows(outcome.run.countable(rows))
    sha256, count = pinned.sha256(), pinned.count
    faults = []
    for noun in outcome.nouns:
        if noun.body["runs_sha256"] != sha256:
            faults.append(f"{noun.key}: runs_sha256 {noun.body['runs_sha256']}, recomputed {sha256}")
        if noun.body["window"]["count"] != count:
            faults.append(f"{noun.key}: window counts {noun.body['window']['count']} of {count} runs")
    return faults


CHECKS = (
    Check(
        "intervals_hold_rates",
        "low ≤ rate ≤ high within 0..1; unknown only without attempts",
        intervals_hold_rates,
    ),
    Check(
        "counts_add_up", "parts are within attempts, and attempts add up to the window's count", counts_add_up
    ),
    Check("groups_are_unique", "no two groups have the same dimensions", groups_are_unique),
    Check("runs_are_pinned", "the digest of the runs read is the one the scorecard pins", runs_are_pinned),
)
