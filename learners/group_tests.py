"""Each group of a scorecard tested against the rest of its category, with the multiplicity paid for.

Promises two-sided exact tests (Fisher) and their p-values adjusted by Holm over all that were made, so that
the chance of even one false difference stays under the level however the tests depend on each other. Which
groups are tested is decided by their attempts alone, never by their outcomes. Leaves out causes: the runs of
two groups saw different inputs.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from scipy.stats import fisher_exact

from learners.path_statistics import SMALL
from learners.wilson import wilson

LEVEL = 0.05


@dataclass(frozen=True, slots=True)
class GroupTest:
    """A group (by its position) against the rest of its category; `p` and `adjusted` are null when untested.

    `low` and `high` bound the difference of the two rates, group minus rest, by themselves at 95%.
    """

    position: int
    accepted: int
    attempts: int
    rest_accepted: int
    rest_attempts: int
    difference: float | None
    low: float | None
    high: float | None
    p: float | None
    adjusted: float | None

    @property
    def differs(self) -> bool:
        """Whether the difference holds after the adjustment."""
        return self.adjusted is not None and self.adjusted < LEVEL


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's adjusted p-values, in the order given (S. Holm, Scand. J. Statist. 6, 1979)."""
    adjusted = [0.0] * len(p_values)
    highest = 0.0
    for rank, place in enumerate(sorted(range(len(p_values)), key=lambda at: p_values[at])):
        highest = max(highest, min(1.0, (len(p_values) - rank) * p_values[place]))
        adjusted[place] = highest
    return adjusted


def difference(group: tuple[int, int], rest: tuple[int, int]) -> tuple[float, float, float]:
    """The difference of two rates and its 95% interval, from (accepted, attempts) of at least one attempt.

    The interval is Newcombe's tenth method (Statist. Med. 17, 1998): it comes from both Wilson intervals and
    stays within -1..1 for small samples.
    """
    (one, one_low, one_high), (two, two_low, two_high) = _rate(*group), _rate(*rest)
    gap = one - two
    below = ((one - one_low) ** 2 + (two_high - two) ** 2) ** 0.5
    above = ((one_high - one) ** 2 + (two - two_low) ** 2) ** 0.5
    return gap, gap - below, gap + above


def group_tests(groups: Sequence[Mapping[str, Any]]) -> list[GroupTest]:
    """One result a group, in their order; `groups` are those of a scorecard's noun.

    Small groups, and those whose category has no other, or only a small rest, are not tested.
    """
    total: dict[Any, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for group in groups:
        accepted, attempts = total[_category(group)]
        total[_category(group)] = accepted + group["accepted"], attempts + group["attempts"]
    sides = []
    for group in groups:
        mine = (group["accepted"], group["attempts"])
        whole = total[_category(group)]
        sides.append((mine, (whole[0] - mine[0], whole[1] - mine[1])))
    tested = [place for place, pair in enumerate(sides) if min(pair[0][1], pair[1][1]) >= SMALL]
    p_values = [_p(*sides[place]) for place in tested]
    found = dict(zip(tested, zip(p_values, holm(p_values), strict=True), strict=True))
    return [
        GroupTest(
            place,
            *mine,
            *rest,
            *(difference(mine, rest) if mine[1] and rest[1] else (None, None, None)),
            *found.get(place, (None, None)),
        )
        for place, (mine, rest) in enumerate(sides)
    ]


def _category(group: Mapping[str, Any]) -> Any:
    return group["dimensions"].get("category")


def _rate(accepted: int, attempts: int) -> tuple[float, float, float]:
    low, high = wilson(accepted, attempts)
    if low is None or high is None:
        raise ValueError("no rate without attempts")
    return accepted / attempts, low, high


def _p(group: tuple[int, int], rest: tuple[int, int]) -> float:
    table = [[accepted, attempts - accepted] for accepted, attempts in (group, rest)]
    return float(fisher_exact(table)[1])
