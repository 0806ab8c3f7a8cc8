"""The Beta posterior of an arm, and the weights that posteriors give: the arithmetic of routing weights.

Promises (contract, section 10): columns in, columns out, in a fixed order; weights of a category sum to 1
within 1e-12 and none is under ε/arms of what a baseline leaves. Evaluation draws its policies by the same
function. Leaves out which attempts count.
"""

from collections.abc import Mapping

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import betainc, betainccinv, betaincinv, xlog1py, xlogy

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

PRIOR_SCORE = 0.5
"""The score of an arm without enough evidence, or unknown: the uniform prior's mean."""

EPSILON = 0.1
MIN_EVIDENCE = 20


def posterior(
    arms: pl.DataFrame,
    epsilon: float = EPSILON,
    min_evidence: int = MIN_EVIDENCE,
    baseline: str | None = None,
    share: float = 0.0,
) -> pl.DataFrame:
    """`arms` (`category, arm, accepted, attempts`; a category's rows together) with the posterior's columns
    added.

    These are `failed, alpha, beta, mean, interval_low, interval_high` (central 95%), `score` and `weight`.
    Beta(1 + accepted, 1 + failed) is the uniform prior's posterior. `share` is reserved for the arm
    `baseline`.
    """
    accepted, attempts = arms["accepted"].to_numpy(), arms["attempts"].to_numpy()
    alpha, beta = 1 + accepted, 1 + attempts - accepted
    mean = alpha / (alpha + beta)
    score = np.where(attempts >= min_evidence, mean, PRIOR_SCORE)
    low, high = central_interval(alpha, beta)
    reserved = None if baseline is None else (arms["arm"] == baseline).to_numpy()
    weight = shares(score, _starts(arms["category"]), epsilon, reserved, share)
    whole = {"failed": attempts - accepted, "alpha": alpha, "beta": beta}
    real = {"mean": mean, "interval_low": low, "interval_high": high, "score": score, "weight": weight}
    return arms.with_columns(
        *(pl.Series(name, values, dtype=pl.Int64) for name, values in whole.items()),
        *(pl.Series(name, values, dtype=pl.Float64) for name, values in real.items()),
    )


def central_interval(alpha: Integers, beta: Integers, mass: float = 0.95) -> tuple[Floats, Floats]:
    """The central `mass` of Beta(alpha, beta), a column at a time; equal pairs are worked out once."""
    if not len(alpha):
        return np.zeros(0), np.zeros(0)
    tail = (1 - mass) / 2
    width = int(beta.max()) + 1
    pairs, place = np.unique(alpha * width + beta, return_inverse=True)
    a, b = (pairs // width).astype(np.float64), (pairs % width).astype(np.float64)
    return betaincinv(a, b, tail)[place], betaincinv(a, b, 1 - tail)[place]


def shares(
    score: Floats,
    starts: Integers,
    epsilon: float | Floats,
    reserved: NDArray[np.bool_] | None = None,
    share: float | Floats = 0.0,
) -> Floats:
    """Weights from scores: ε/arms + (1 − ε) × score/Σscores within each run of rows that `starts` begins.

    `reserved` marks the baseline's rows: weight' = share·[arm = baseline] + (1 − share)·weight. `epsilon` and
    `share` are numbers, or one value a row. Scores are above 0.
    """
    if not len(score):
        return np.zeros(0)
    sizes = np.diff(np.append(starts, len(score)))
    total = np.repeat(np.add.reduceat(score, starts), sizes)
    weight: Floats = epsilon / np.repeat(sizes, sizes) + (1 - epsilon) * (score / total)
    return weight if reserved is None else share * reserved + (1 - share) * weight


def _starts(category: pl.Series) -> Integers:
    """Where each run of equal values begins; null equals null."""
    changed = category.ne_missing(category.shift(1)).to_numpy().copy()
    changed[:1] = True
    return np.flatnonzero(changed)


def weights(
    arms: Mapping[str, Mapping[str, int]], epsilon: float = EPSILON, min_evidence: int = MIN_EVIDENCE
) -> dict[str, float]:
    """The weights of one category's arms, `{arm: {accepted, failed}}`, by arm.

    Raises ValueError for counts that cannot be (negative, or not whole).
    """
    for arm, counts in arms.items():
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts.values()):
            raise ValueError(f"impossible counts of arm {arm!r}: {dict(counts)}")
    rows = [
        ("", arm, counts["accepted"], counts["accepted"] + counts["failed"]) for arm, counts in arms.items()
    ]
    schema = {"category": pl.String, "arm": pl.String, "accepted": pl.Int64, "attempts": pl.Int64}
    done = posterior(pl.DataFrame(rows, schema=schema, orient="row"), epsilon, min_evidence)
    return dict(zip(done["arm"], done["weight"], strict=True))


def probability_above(group: tuple[int | float, int | float], rest: tuple[int | float, int | float]) -> float:
    """P(group > rest) for two `(accepted, attempts)` under Beta(1 + accepted, 1 + failed) posteriors.

    ∫ f·F over the narrower of the two densities, by Gauss and Legendre, divided by ∫ f of the same nodes:
    exact to 1e-12 for small counts, and the density's constant, which large counts lose digits of, cancels.
    """
    one, other = ((1.0 + k, 1.0 + n - k) for k, n in (group, rest))
    if min(*one, *other) < 1:
        raise ValueError(f"impossible counts: {group[0]} of {group[1]} and {rest[0]} of {rest[1]}")
    if _variance(*other) < _variance(*one):
        return 1.0 - _below(other, one)
    return _below(one, other)


def _variance(a: float, b: float) -> float:
    return a * b / ((a + b) ** 2 * (a + b + 1))


def _below(narrow: tuple[float, float], wide: tuple[float, float]) -> float:
    """P(wide < narrow)."""
    low, high = betaincinv(*narrow, _TAIL), betainccinv(*narrow, _TAIL)
    x = low + (high - low) * (_NODES + 1) / 2
    log_density = xlogy(narrow[0] - 1, x) + xlog1py(narrow[1] - 1, -x)
    density = _NODE_WEIGHTS * np.exp(log_density - log_density.max())
    found = float(np.sum(density * betainc(*wide, x)) / np.sum(density))
    return min(max(found, 0.0), 1.0)


_TAIL = 1e-17
_NODES, _NODE_WEIGHTS = np.polynomial.legendre.leggauss(512)
