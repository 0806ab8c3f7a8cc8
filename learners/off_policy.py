"""What a policy would have achieved on draws that another policy threw: three estimates, and a sequence to
stop by.

Promises the formulas of the contract's section 10 on arrays: IPS, SNIPS and DR with intervals, differences
row by row, and an asymptotic confidence sequence (Waudby-Smith, Arbour, Sinha, Kennedy and Ramdas, 2024)
that may be looked at after every run. Reading only propensities that the server observed, they are unbiased
whatever workers did with the arm. Leaves out which rows and which policies: those are `learners.policies`
and `learners.evaluation`.
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from learners.wilson import Z95

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

ERROR = 0.05
"""The chance, over a noun's whole life, that any of its verdicts is wrong."""


@dataclass(frozen=True, slots=True)
class Draws:
    """Rows in capture order and, one after another, the arms that each row offered.

    `starts` (one a row) is where a row's arms begin in `arm` and `weight` (one an arm offered; codes from
    0, and the probability it was drawn with). `drawn` (one a row) is the place of the arm drawn,
    `propensity` the server's own word for its probability, `group` the code of the row's category, `reward`
    1 when accepted, else 0.
    """

    starts: Integers
    arm: Integers
    weight: Floats
    drawn: Integers
    propensity: Floats
    group: Integers
    reward: Floats

    def __len__(self) -> int:
        return len(self.starts)

    @property
    def sizes(self) -> Integers:
        """How many arms each row offered."""
        return np.diff(np.append(self.starts, len(self.arm)))

    @property
    def row(self) -> Integers:
        """The row of each arm offered."""
        return np.repeat(np.arange(len(self)), self.sizes)

    def keep(self, rows: NDArray[np.bool_]) -> "Draws":
        """Only the marked rows."""
        sizes = self.sizes
        arms = np.repeat(rows, sizes)
        starts = np.concatenate([[0], np.cumsum(sizes[rows])[:-1]]).astype(np.int64)[: int(rows.sum())]
        within = (self.drawn - self.starts)[rows]
        return Draws(
            starts,
            self.arm[arms],
            self.weight[arms],
            starts + within,
            self.propensity[rows],
            self.group[rows],
            self.reward[rows],
        )


def supported(draws: Draws, *masses: Floats) -> NDArray[np.bool_]:
    """The rows where each policy has an arm to take, and none gives mass to an arm offered with weight 0.

    Masses are one value an arm offered.
    """
    good = np.ones(len(draws), dtype=bool)
    if len(draws):
        for mass in masses:
            good &= np.add.reduceat(mass, draws.starts) > 0
            good &= ~np.logical_or.reduceat((mass > 0) & (draws.weight == 0), draws.starts)
    return good


def predictions(draws: Draws) -> Floats:
    """q of each arm offered: (1 + accepted)/(2 + attempts) of that category and arm in the rows captured
    earlier.
    """
    codes = int(draws.arm.max()) + 1 if len(draws.arm) else 1
    count = len(draws)
    # each (category, arm) pair gets a stretch of numbers as long as there are rows, in capture order
    pair = (draws.group[draws.row] * codes + draws.arm) * count
    drawn = pair[draws.drawn] + np.arange(count)
    order = np.argsort(drawn, kind="stable")
    before = np.concatenate([[0.0], np.cumsum(draws.reward[order])])
    ranked = drawn[order]
    start, here = np.searchsorted(ranked, pair), np.searchsorted(ranked, pair + draws.row)
    predicted: Floats = (1 + before[here] - before[start]) / (2 + here - start)
    return predicted


@dataclass(frozen=True, slots=True)
class Terms:
    """One policy's value on each row: `weight` is w = π(arm)/p, `ips` w·r, `dr` the doubly robust term."""

    weight: Floats
    reward: Floats
    dr: Floats

    @property
    def ips(self) -> Floats:
        """w·r."""
        return self.weight * self.reward

    @property
    def effective_sample_size(self) -> float:
        """(Σw)²/Σw², 0 without weight."""
        square = float(np.sum(self.weight**2))
        return float(np.sum(self.weight)) ** 2 / square if square else 0.0


def terms(draws: Draws, mass: Floats, predicted: Floats) -> Terms:
    """A policy's terms; `mass` is π and `predicted` q, one value an arm offered."""
    weight = mass[draws.drawn] / draws.propensity
    model = np.add.reduceat(mass * predicted, draws.starts) if len(draws) else np.zeros(0)
    dr: Floats = model + weight * (draws.reward - predicted[draws.drawn])
    return Terms(weight, draws.reward, dr)


def mean_interval(values: Floats, low: float = 0.0, high: float = 1.0) -> dict[str, float | None]:
    """mean ± z·s/√n, the ends within `low` and `high`; unknown ends under two values, unknown mean without
    any.
    """
    count = len(values)
    return _interval(float(np.mean(values)) if count else None, values, low, high)


def _interval(estimate: float | None, values: Floats, low: float, high: float) -> dict[str, float | None]:
    if estimate is None or len(values) < 2:
        return {"estimate": estimate, "low": None, "high": None}
    half = Z95 * float(np.std(values, ddof=1)) / math.sqrt(len(values))
    return {
        "estimate": estimate,
        "low": min(max(estimate - half, low), high),
        "high": min(max(estimate + half, low), high),
    }


def _self_normalized(one: Terms) -> tuple[float | None, Floats]:
    """Σwr/Σw and, by the delta method, each row's influence on it."""
    total = float(np.sum(one.weight))
    if not total:
        return None, np.zeros(len(one.weight))
    estimate = float(np.sum(one.ips)) / total
    influence: Floats = one.weight * (one.reward - estimate) * (len(one.weight) / total)
    return estimate, influence


def estimates(candidate: Terms, baseline: Terms) -> dict[str, Any]:
    """IPS, SNIPS and DR of both policies and of their difference, each `{estimate, low, high}`."""
    mine, my_pull = _self_normalized(candidate)
    other, other_pull = _self_normalized(baseline)
    gap = None if mine is None or other is None else mine - other
    return {
        "ips": _three(candidate.ips, baseline.ips),
        "snips": {
            "candidate": _interval(mine, my_pull, 0.0, 1.0),
            "baseline": _interval(other, other_pull, 0.0, 1.0),
            "difference": _interval(gap, my_pull - other_pull, -1.0, 1.0),
        },
        "dr": _three(candidate.dr, baseline.dr),
    }


def _three(candidate: Floats, baseline: Floats) -> dict[str, Any]:
    return {
        "candidate": mean_interval(candidate),
        "baseline": mean_interval(baseline),
        "difference": mean_interval(candidate - baseline, -1.0),
    }


def alpha_of(number: int) -> float:
    """The error of a noun's k-th candidate, 0.05/(k(k + 1)): over all k they sum to 0.05."""
    return ERROR / (number * (number + 1))


def half_width(deviation: Any, count: Any, alpha: float, evidence: int) -> Any:
    """Half the width of the confidence sequence after `count` rows of sample standard deviation `deviation`.

    s·√(2(nρ² + 1)/(n²ρ²) · ln(√(nρ² + 1)/α)), tightest near n = `evidence`. Numbers or arrays; n is at
    least 1.
    """
    rho = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / evidence
    spread = count * rho + 1
    return deviation * np.sqrt(2 * spread / (count**2 * rho) * np.log(np.sqrt(spread) / alpha))


def sequence(differences: Floats, alpha: float, evidence: int) -> dict[str, float | None]:
    """The confidence sequence for the mean difference after these rows, within −1..1; unknown under two
    rows.
    """
    count = len(differences)
    if count < 2:
        return {"low": None, "high": None}
    middle = float(np.mean(differences))
    half = float(half_width(float(np.std(differences, ddof=1)), count, alpha, evidence))
    return {"low": min(max(middle - half, -1.0), 1.0), "high": min(max(middle + half, -1.0), 1.0)}


def verdict(bounds: dict[str, float | None], rows: int, effective: tuple[float, float], evidence: int) -> str:
    """`better` or `worse` when the sequence leaves 0 out on enough evidence, else `keep_baseline`."""
    low, high = bounds["low"], bounds["high"]
    if low is None or high is None or rows < evidence or min(effective) < evidence:
        return "keep_baseline"
    return "better" if low > 0 else "worse" if high < 0 else "keep_baseline"


def compared(
    draws: Draws, candidate: Floats, baseline: Floats, alpha: float, evidence: int
) -> dict[str, Any]:
    """Everything that supported rows say of two policies (π, one value an arm offered): the noun's
    figures.
    """
    predicted = predictions(draws)
    one, other = terms(draws, candidate, predicted), terms(draws, baseline, predicted)
    effective = (one.effective_sample_size, other.effective_sample_size)
    bounds = sequence(one.dr - other.dr, alpha, evidence)
    largest = [float(np.max(side.weight)) if len(draws) else None for side in (one, other)]
    return {
        "effective_sample_size": {"candidate": effective[0], "baseline": effective[1]},
        "largest_weight": {"candidate": largest[0], "baseline": largest[1]},
        "estimates": estimates(one, other),
        "sequence": bounds,
        "verdict": verdict(bounds, len(draws), effective, evidence),
    }
