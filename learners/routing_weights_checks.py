"""What must hold of routing weights before they are published.

Promises pure tests that name each category and arm at fault, and take no figure on trust. Leaves out what
follows from a failure: the publishing place writes nothing.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from learners.attempts import counted
from learners.contract import Check, Outcome
from learners.statistics import runs_sha256

SUM_TOLERANCE = 1e-12
_ROUNDING = 1e-15


def _categories(outcome: Outcome) -> Iterator[tuple[str, Mapping[str, Any], Mapping[str, Any]]]:
    for noun in outcome.nouns:
        for category in noun.body["categories"]:
            yield f"{noun.key} category {category['category']!r}", noun.body, category


def weights_sum_to_one(outcome: Outcome) -> Sequence[str]:
    """The weights of each category that has arms sum to 1 within 1e-12."""
    faults = []
    for where, _, category in _categories(outcome):
        total = math.fsum(arm["weight"] for arm in category["arms"])
        if category["arms"] and not abs(total - 1) <= SUM_TOLERANCE:
            faults.append(f"{where}: weights sum to {total!r}")
    return faults


def floor_is_kept(outcome: Outcome) -> Sequence[str]:
    """No weight is under ε/arms of what the baseline leaves, and the baseline's is not under its share."""
    faults = []
    for where, body, category in _categories(outcome):
        reserve = body["baseline"] or {"arm": None, "share": 0.0}
        floor = (1 - reserve["share"]) * body["epsilon"] / max(1, len(category["arms"]))
        for arm in category["arms"]:
            least = floor + (reserve["share"] if arm["arm"] == reserve["arm"] else 0.0)
            if not arm["weight"] >= least - _ROUNDING:
                faults.append(f"{where} arm {arm['arm']!r}: weight {arm['weight']!r} is under {least!r}")
    return faults


def posteriors_follow_counts(outcome: Outcome) -> Sequence[str]:
    """Each posterior is Beta(1 + accepted, 1 + failed), its interval holds its mean, and counts are
    possible.
    """
    faults = []
    for where, _, category in _categories(outcome):
        for arm in category["arms"]:
            accepted, failed = arm["accepted"], arm["failed"]
            holds = (
                accepted >= 0
                and failed >= 0
                and 0 <= arm["randomized"] <= arm["attempts"] == accepted + failed
                and (arm["alpha"], arm["beta"]) == (1 + accepted, 1 + failed)
                and 0 <= arm["interval_low"] <= arm["mean"] <= arm["interval_high"] <= 1
            )
            if not holds:
                faults.append(
                    f"{where} arm {arm['arm']!r}: {accepted} accepted, {failed} failed: {dict(arm)}"
                )
    return faults


def counts_are_of_the_pinned_runs(outcome: Outcome) -> Sequence[str]:
    """Digest and count of the runs, and the counts of every category, recomputed from the evidence."""
    rows = outcome.run.counted(outcome.evidence)
    faults = []
    for noun in outcome.nouns:
        sha256 = runs_sha256(rows)
        if (noun.body["runs_sha256"], noun.body["window"]["count"]) != (sha256, rows.height):
            faults.append(
                f"{noun.key}: pins {noun.body['runs_sha256']}, recomputed {sha256} of {rows.height} runs"
            )
        attempts = counted(rows, noun.body["dimension"], outcome.run.options.get("by", "category"))
        recounted = dict(attempts.group_by("category").len().iter_rows())
        for category in noun.body["categories"]:
            silent = category["unreported"]
            stated = silent["accepted"] + silent["failed"] + sum(arm["attempts"] for arm in category["arms"])
            if recounted.pop(category["category"], 0) != stated:
                faults.append(
                    f"{noun.key} category {category['category']!r}: {stated} attempts are not its runs'"
                )
        faults += [f"{noun.key} category {category!r}: is missing" for category in recounted]
    return faults


CHECKS = (
    Check("weights_sum_to_one", "the weights of a category sum to 1 within 1e-12", weights_sum_to_one),
    Check("floor_is_kept", "no weight is under ε/arms of what the baseline leaves", floor_is_kept),
    Check("posteriors_follow_counts", "posteriors are those of the counts", posteriors_follow_counts),
    Check("counts_are_of_the_pinned_runs", "counts recomputed from the runs", counts_are_of_the_pinned_runs),
)
