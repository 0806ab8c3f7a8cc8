"""Routing weights: 10,000 categories of 8 arms, from attempts to posterior, score and weight.

MABWiser has no learner of many categories at once: it is fitted category by category, as its users do. Each
side gets the attempts in the form it likes best, made before the clock starts: columns of
dictionary-encoded labels, and one pair of arrays a category. Both must find the same success rates.
"""

import numpy as np
import polars as pl
from mabwiser.mab import MAB, LearningPolicy

from bench.table import Line, median_seconds, rates
from learners.posterior import posterior
from learners.routing_weights import Options, arm_table

ARMS = [f"arm-{number}" for number in range(8)]
OPTIONS = Options("shim")
ATTEMPTS = 8


def lines(*, quick: bool) -> list[Line]:
    """Two lines: from attempts, and from counts alone."""
    categories = 1_000 if quick else 10_000
    runs = 3 if quick else 7
    attempts = sample(categories)
    counted = arm_table(attempts, OPTIONS).select("category", "arm", "accepted", "attempts")
    cut = cut_up(attempts)
    ours = median_seconds(lambda: arm_table(attempts, OPTIONS), runs)
    from_counts = median_seconds(lambda: posterior(counted), runs)
    few = cut[: max(1, len(cut) // 10)]
    theirs = median_seconds(lambda: fitted(few), 1) * len(cut) / len(few)
    agree(counted, few)
    work = f"weights, {categories:,} categories × {len(ARMS)} arms"
    peers = {"MABWiser": (theirs, "≥ 50 ×")}
    return [
        *rates(work, categories, ours, peers, "counting and sorting", "categories/s"),
        *rates(f"{work}, from counts", categories, from_counts, peers, "the Beta quantiles", "categories/s"),
    ]


def sample(categories: int) -> pl.DataFrame:
    """Seeded attempts, every arm of every category tried at least once, in no order."""
    dice = np.random.default_rng(11)
    category = np.repeat(np.arange(categories), len(ARMS) * ATTEMPTS)
    arm = np.tile(np.repeat(np.arange(len(ARMS)), ATTEMPTS), categories)
    names = [f"verb.kind-{number:05d}" for number in range(categories)]
    frame = pl.DataFrame(
        {
            "category": pl.Series(names, dtype=pl.Categorical).gather(category),
            "arm": pl.Series(ARMS, dtype=pl.Categorical).gather(arm),
            "accepted": dice.random(len(arm)) < 0.6,
            "randomized": np.zeros(len(arm), dtype=bool),
        }
    )
    return frame.sample(fraction=1.0, shuffle=True, seed=11)


Cut = tuple[str, np.ndarray, np.ndarray]


def cut_up(attempts: pl.DataFrame) -> list[Cut]:
    """Each category's decisions and rewards, as MABWiser takes them."""
    parts = attempts.partition_by("category", as_dict=True)
    return sorted(
        (str(name[0]), part["arm"].to_numpy(), part["accepted"].cast(pl.Int64).to_numpy())
        for name, part in parts.items()
    )


def fitted(cut: list[Cut]) -> list[dict[str, float]]:
    """One bandit a category, and what it expects of each arm."""
    found = []
    for _, decisions, rewards in cut:
        bandit = MAB(ARMS, LearningPolicy.EpsilonGreedy(epsilon=0.0))
        bandit.fit(decisions, rewards)
        found.append(bandit.predict_expectations())
    return found


def agree(counted: pl.DataFrame, cut: list[Cut]) -> None:
    """Raise AssertionError unless both found the same success rates."""
    rate = {(row[0], row[1]): row[2] / row[3] for row in counted.iter_rows()}
    for (category, _, _), expected in zip(cut, fitted(cut), strict=True):
        assert all(abs(rate[category, arm] - expected[arm]) < 1e-12 for arm in ARMS)
