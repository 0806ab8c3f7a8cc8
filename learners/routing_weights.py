"""Routing weights: a Beta posterior for each arm of a dimension, and the share of work that it should get.

Promises (contract, section 10): weights sum to 1 within 1e-12, none under ε/arms of what the baseline
leaves, and an arm under the minimum evidence keeps the uniform prior's score, so a new arm never starves.
All arithmetic is on columns, in a fixed order: the same rows give the same bytes. Leaves out choosing
(`tessera.advice`) and whether the weights would do better (`learners.evaluation`). Weights advise and grant
nothing.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray
from scipy.special import betaincinv

from learners.attempts import counted, runs_sha256, text_order
from schemas.routing_weights import DIMENSIONS, options_faults
from tessera.errors import Invalid

PRIOR_SCORE = 0.5
OBSERVATIONAL = (
    "not every attempt followed a draw: arms saw different inputs, workers and times, "
    "so differences are associations, not causal effects"
)
RANDOMIZED = "every attempt followed a draw by the server, so arms differ by chance alone"
NO_ATTEMPTS = "no attempts in the window"
MAX_ARM_BYTES = 128


@dataclass(frozen=True, slots=True)
class Baseline:
    """The arm that a share (0 to 1) of the work is reserved for."""

    arm: str
    share: float


@dataclass(frozen=True, slots=True)
class Options:
    """The learner's options, complete. `by` is `category` or `template`; `last` counts observations."""

    dimension: str
    by: str = "category"
    epsilon: float = 0.1
    min_evidence: int = 20
    last: int = 1_000_000
    known_arms: tuple[str, ...] = ()
    baseline: Baseline | None = None

    @classmethod
    def of(cls, raw: Any) -> "Options":
        """Options from a JSON value. Raises Invalid (422) naming each fault by its path under `options`."""
        faults = options_faults(raw)
        if faults:
            raise Invalid("the options of routing_weights:beta-bandit:v1 cannot be used", errors=faults)
        given = dict(raw)
        if "baseline" in given:
            given["baseline"] = Baseline(given["baseline"]["arm"], float(given["baseline"]["share"]))
        if "known_arms" in given:
            given["known_arms"] = tuple(given["known_arms"])
        for whole in {"min_evidence", "last"} & given.keys():
            given[whole] = int(given[whole])
        return cls(**given)

    @property
    def arms(self) -> list[str]:
        """Arms that every category knows, seen or not."""
        return list(dict.fromkeys([*self.known_arms, *([self.baseline.arm] if self.baseline else [])]))


def learn(
    observations: pl.DataFrame, options: Options, *, after: str = "0", cursor: str | None = None
) -> dict[str, Any]:
    """The noun's own fields, from the window's observations (columns of `schemas.observations`, capture
    order).

    `after` is the cursor before the window; `cursor` that of the last observation read, if one lies behind
    those given (a private one left out). No observations give a valid noun without categories.
    """
    attempts = counted(observations, options.dimension, options.by)
    categories = arm_table(attempts, options)
    read_to = cursor or (str(observations["cursor"][-1]) if observations.height else after)
    label, reason = label_of(attempts)
    return {
        "cursor": read_to,
        "dimension": options.dimension,
        "window": {"after": after, "upto": read_to, "count": observations.height},
        "runs_sha256": runs_sha256(observations["run_id"]),
        "label": label,
        "label_reason": reason,
        "epsilon": options.epsilon,
        "min_evidence": options.min_evidence,
        "baseline": {"arm": options.baseline.arm, "share": options.baseline.share}
        if options.baseline
        else None,
        "categories": _categories(attempts, categories),
    }


def label_of(attempts: pl.DataFrame) -> tuple[str, str]:
    """The label and its reason: `randomized` only when every attempt followed a draw of the dimension."""
    if not attempts.height:
        return "observational", NO_ATTEMPTS
    return ("randomized", RANDOMIZED) if attempts["randomized"].all() else ("observational", OBSERVATIONAL)


def arm_table(attempts: pl.DataFrame, options: Options) -> pl.DataFrame:
    """One row a category and arm, with counts, posterior, score and weight: the columns of the noun's arms.

    `attempts` has `category`, `arm`, `accepted` and `randomized` (Booleans). Sorted by UTF-16 code units,
    null first. Raises ValueError for an arm label that no door lets in.
    """
    arms = (
        attempts.lazy()
        .filter(pl.col("arm").is_not_null())
        .group_by("category", "arm")
        .agg(
            pl.col("accepted").sum().cast(pl.Int64),
            pl.len().cast(pl.Int64).alias("attempts"),
            pl.col("randomized").sum().cast(pl.Int64),
        )
        .collect()
    )
    _refuse_long(arms["arm"])
    if options.arms:
        arms = _with_known(arms, attempts["category"].unique(), options.arms)
    arms = arms.sort(text_order(arms["category"]), text_order(arms["arm"]), nulls_last=False)
    return posterior(arms, options)


def posterior(arms: pl.DataFrame, options: Options) -> pl.DataFrame:
    """`arms` (`category`, `arm`, `accepted`, `attempts`; a category's rows together) with the posterior
    columns.

    Adds `failed, alpha, beta, mean, interval_low, interval_high` (central 95%), `score` and `weight`.
    Beta(1 + accepted, 1 + failed) is the uniform prior's posterior.
    """
    accepted, attempts = arms["accepted"].to_numpy(), arms["attempts"].to_numpy()
    alpha, beta = 1 + accepted, 1 + attempts - accepted
    mean = alpha / (alpha + beta)
    score = np.where(attempts >= options.min_evidence, mean, PRIOR_SCORE)
    low, high = central_interval(alpha, beta)
    return arms.with_columns(
        failed=pl.Series(attempts - accepted, dtype=pl.Int64),
        alpha=pl.Series(alpha, dtype=pl.Int64),
        beta=pl.Series(beta, dtype=pl.Int64),
        mean=pl.Series(mean, dtype=pl.Float64),
        interval_low=pl.Series(low, dtype=pl.Float64),
        interval_high=pl.Series(high, dtype=pl.Float64),
        score=pl.Series(score, dtype=pl.Float64),
        weight=pl.Series(
            shares(score, starts_of(arms["category"]), options.epsilon, *_reserve(arms["arm"], options)),
            dtype=pl.Float64,
        ),
    )


def central_interval(
    alpha: NDArray[np.int64], beta: NDArray[np.int64], mass: float = 0.95
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The central `mass` of Beta(alpha, beta), a column at a time; equal pairs are worked out once."""
    tail = (1 - mass) / 2
    if not len(alpha):
        return np.zeros(0), np.zeros(0)
    width = int(beta.max()) + 1
    pairs, place = np.unique(alpha * width + beta, return_inverse=True)
    a, b = (pairs // width).astype(np.float64), (pairs % width).astype(np.float64)
    return betaincinv(a, b, tail)[place], betaincinv(a, b, 1 - tail)[place]


def shares(
    score: NDArray[np.float64],
    starts: NDArray[np.int64],
    epsilon: float | NDArray[np.float64],
    reserved: NDArray[np.bool_] | None = None,
    share: float | NDArray[np.float64] = 0.0,
) -> NDArray[np.float64]:
    """Weights from scores: ε/arms + (1 − ε) × score/Σscores within each run of rows that `starts` begins.

    `reserved` marks the baseline's rows: weight' = share·[arm = baseline] + (1 − share)·weight. `epsilon` and
    `share` are numbers or one value a row. Scores are above 0.
    """
    if not len(score):
        return np.zeros(0)
    sizes = np.diff(np.append(starts, len(score)))
    total = np.repeat(np.add.reduceat(score, starts), sizes)
    weight: NDArray[np.float64] = epsilon / np.repeat(sizes, sizes) + (1 - epsilon) * (score / total)
    return weight if reserved is None else share * reserved + (1 - share) * weight


def starts_of(category: pl.Series) -> NDArray[np.int64]:
    """Where each run of equal values begins; null equals null."""
    if not len(category):
        return np.zeros(0, dtype=np.int64)
    changed = category.ne_missing(category.shift(1)).to_numpy().copy()
    changed[0] = True
    return np.flatnonzero(changed)


def _reserve(arms: pl.Series, options: Options) -> tuple[NDArray[np.bool_] | None, float]:
    if options.baseline is None:
        return None, 0.0
    return (arms == options.baseline.arm).to_numpy(), options.baseline.share


def _with_known(arms: pl.DataFrame, categories: pl.Series, known: list[str]) -> pl.DataFrame:
    """`arms` with a row of zeros for each category and known arm that was never seen."""
    every = pl.DataFrame({"category": categories}).join(pl.DataFrame({"arm": known}), how="cross")
    unseen = every.join(arms, on=["category", "arm"], how="anti", nulls_equal=True)
    zeros = [pl.lit(0, dtype=pl.Int64).alias(name) for name in ("accepted", "attempts", "randomized")]
    return pl.concat([arms, unseen.with_columns(zeros)])


def _refuse_long(arms: pl.Series) -> None:
    too_long = arms.filter(arms.str.len_bytes() > MAX_ARM_BYTES)
    if len(too_long):
        raise ValueError(
            f"an arm's label of {len(too_long[0].encode())} bytes, {too_long[0][:40]!r}…; "
            f"it may have at most {MAX_ARM_BYTES}"
        )


_ARM_FIELDS = (
    "arm", "accepted", "failed", "attempts", "randomized", "alpha", "beta",
    "mean", "interval_low", "interval_high", "score", "weight",
)  # fmt: skip


def _categories(attempts: pl.DataFrame, arms: pl.DataFrame) -> list[dict[str, Any]]:
    """The noun's categories, sorted, null first; one where no arm was reported has none."""
    unreported = (
        attempts.group_by("category")
        .agg(
            (pl.col("arm").is_null() & pl.col("accepted")).sum().cast(pl.Int64).alias("accepted"),
            (pl.col("arm").is_null() & ~pl.col("accepted")).sum().cast(pl.Int64).alias("failed"),
        )
        .pipe(lambda frame: frame.sort(text_order(frame["category"]), nulls_last=False))
    )
    by_category: dict[str | None, list[dict[str, Any]]] = {}
    names = arms["category"].to_list()
    for category, arm in zip(names, arms.select(_ARM_FIELDS).to_dicts(), strict=True):
        by_category.setdefault(category, []).append(arm)
    return [
        {
            "category": category,
            "arms": by_category.get(category, []),
            "unreported": {"accepted": accepted, "failed": failed},
        }
        for category, accepted, failed in unreported.select("category", "accepted", "failed").iter_rows()
    ]


def weights(
    arms: Mapping[str, Mapping[str, int]], epsilon: float = 0.1, min_evidence: int = 20
) -> dict[str, float]:
    """The weights of one category's arms from `{arm: {accepted, failed}}`, by arm.

    Raises ValueError for counts that cannot be (negative, or not whole).
    """
    for arm, counts in arms.items():
        if any(isinstance(n, bool) or not isinstance(n, int) or n < 0 for n in counts.values()):
            raise ValueError(f"impossible counts of arm {arm!r}: {dict(counts)}")
    frame = pl.DataFrame(
        {
            "category": [""] * len(arms),
            "arm": list(arms),
            "accepted": [counts["accepted"] for counts in arms.values()],
            "attempts": [counts["accepted"] + counts["failed"] for counts in arms.values()],
        },
        schema={"category": pl.String, "arm": pl.String, "accepted": pl.Int64, "attempts": pl.Int64},
    )
    options = Options(DIMENSIONS[0], epsilon=epsilon, min_evidence=min_evidence)
    done = posterior(frame, options)
    return dict(zip(done["arm"], done["weight"], strict=True))
