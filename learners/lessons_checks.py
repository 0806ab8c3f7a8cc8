"""What must hold of a memory before it is published.

Promises pure tests that name each entry at fault. Leaves out what follows from a failure: the publishing
place writes nothing.
"""

from collections import Counter
from collections.abc import Sequence

from learners.comparisons import comparisons
from learners.contract import Check, Outcome
from learners.review import BUDGETS, budget_used


def budgets_are_kept(outcome: Outcome) -> Sequence[str]:
    """The entries of each target, joined, are within its code points."""
    faults = []
    for noun in outcome.nouns:
        used = budget_used(entry["text"] for entry in noun.body["entries"])
        if used > BUDGETS[noun.body["target"]]:
            faults.append(f"{noun.key}: {used} code points of {BUDGETS[noun.body['target']]}")
    return faults


def nothing_stands_twice(outcome: Outcome) -> Sequence[str]:
    """No text and no key stands twice in a target."""
    faults = []
    for noun in outcome.nouns:
        for name in ("text", "key"):
            counts = Counter(entry[name] for entry in noun.body["entries"] if entry[name] is not None)
            faults += [
                f"{noun.key}: {name} {value!r} stands {n} times" for value, n in counts.items() if n > 1
            ]
    return faults


def nothing_contradicts(outcome: Outcome) -> Sequence[str]:
    """No two lessons of the evidence that contradict each other stand together."""
    opposites = {one.key: one.opposite for one in comparisons(outcome.run.records)}
    faults = []
    for noun in outcome.nouns:
        keys = {entry["key"] for entry in noun.body["entries"]} - {None}  # one from somebody has no key
        faults += [
            f"{noun.key}: lesson {key} and lesson {opposites[key]} contradict"
            for key in sorted(keys & opposites.keys())
            if opposites[key] in keys
        ]
    return faults


def support_is_whole(outcome: Outcome) -> Sequence[str]:
    """An entry with support says which runs, when it was earned and when it is to be rechecked, later than
    that.
    """
    faults = []
    for noun in outcome.nouns:
        for entry in noun.body["entries"]:
            said = [entry["runs_sha256"], entry["earned_at"], entry["recheck_at"]]
            if entry["support"]:
                holds = None not in (entry["key"], *said) and entry["earned_at"] < entry["recheck_at"]
            else:
                holds = said == [None, None, None]
            if not holds:
                faults.append(f"{noun.key}: support of {entry['text'][:60]!r} is not whole")
    return faults


CHECKS = (
    Check("budgets_are_kept", "entries are within the budget of code points", budgets_are_kept),
    Check("nothing_stands_twice", "no text and no key stands twice", nothing_stands_twice),
    Check("nothing_contradicts", "no two standing lessons contradict", nothing_contradicts),
    Check("support_is_whole", "each earned lesson can be followed back to its runs", support_is_whole),
)
