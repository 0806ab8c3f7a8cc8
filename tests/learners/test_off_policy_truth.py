"""Policies of known value, simulated: do the intervals cover it, and does looking all the time stay honest?

Every figure here is the share of many seeded simulations; the bounds leave room for the share's own error.
``--log-cli-level=INFO`` shows them.
"""

import logging
from collections.abc import Sequence

import numpy as np
import pytest
from numpy.typing import NDArray

from learners.off_policy import Draws, alpha_of, compared, half_width, predictions, terms

Floats = NDArray[np.float64]

FIGURES = logging.getLogger(__name__)
EVIDENCE = 100
ROWS = 10 * EVIDENCE
ACCEPTED = np.array([[0.2, 0.5, 0.7, 0.4], [0.6, 0.3, 0.5, 0.8], [0.9, 0.4, 0.6, 0.1]])
"""The probability that a run is accepted, by category and arm."""

UNIFORM = np.full((3, 4), 0.25)


def weights(scores: Floats, epsilon: float = 0.1) -> Floats:
    return epsilon / scores.shape[1] + (1 - epsilon) * scores / scores.sum(axis=1, keepdims=True)


FIRST = weights(np.array([[1, 0.02, 0.02, 0.02]] * 3))
GOOD, BAD = weights(ACCEPTED**3), weights((1 - ACCEPTED) ** 3)


def simulated(
    seed: Sequence[int], rows: int, accepted: Floats, logged: Floats, complying: float = 1.0
) -> tuple[Draws, NDArray[np.int64]]:
    """Rows of draws by `logged`; a worker that does not comply takes an arm at random instead of the one
    drawn.
    """
    rng = np.random.default_rng(list(seed))
    groups, arms = accepted.shape
    group = rng.integers(0, groups, rows)
    taken = (rng.random(rows)[:, None] > np.cumsum(logged, axis=1)[group]).sum(axis=1).clip(max=arms - 1)
    used = np.where(rng.random(rows) < complying, taken, rng.integers(0, arms, rows))
    reward = (rng.random(rows) < accepted[group, used]).astype(np.float64)
    starts = np.arange(rows) * arms
    draws = Draws(
        starts, np.tile(np.arange(arms), rows), logged[group].reshape(-1), starts + taken,
        logged[group, taken], group, reward,
    )  # fmt: skip
    return draws, group


def first_verdict(
    draws: Draws, group: NDArray[np.int64], candidate: Floats, baseline: Floats, number: int = 1
) -> tuple[str, int]:
    """The first verdict of someone who looks after every run, and after how many runs it came."""
    predicted = predictions(draws)
    one, other = (terms(draws, policy[group].reshape(-1), predicted) for policy in (candidate, baseline))
    count, gap = np.arange(1, len(draws) + 1), one.dr - other.dr
    mean = np.cumsum(gap) / count
    variance = (np.cumsum(gap**2) - count * mean**2) / np.maximum(count - 1, 1)
    half = half_width(np.sqrt(np.maximum(variance, 0)), count, alpha_of(number), EVIDENCE)
    enough = count >= EVIDENCE
    for side in (one, other):
        enough &= np.cumsum(side.weight) ** 2 >= EVIDENCE * np.cumsum(side.weight**2)
    decided = enough & (np.abs(mean) > half)
    if not decided.any():
        return "keep_baseline", len(draws)
    at = int(np.argmax(decided))
    return ("better" if mean[at] > 0 else "worse"), at + 1


@pytest.mark.parametrize(
    "logged", [UNIFORM, weights(np.array([[0.5, 0.9, 0.3, 0.2]] * 3))], ids=["even", "uneven"]
)
def test_the_intervals_cover_the_known_values(logged: Floats) -> None:
    seeds, rows = 600, 500
    truth = {"candidate": (GOOD * ACCEPTED).sum(axis=1).mean(), "baseline": ACCEPTED.mean()}
    truth["difference"] = truth["candidate"] - truth["baseline"]
    covered: dict[tuple[str, str], int] = {}
    for seed in range(seeds):
        draws, group = simulated([1, seed], rows, ACCEPTED, logged)
        found = compared(draws, GOOD[group].reshape(-1), UNIFORM[group].reshape(-1), 0.025, EVIDENCE)[
            "estimates"
        ]
        for name, sides in found.items():
            for side, value in truth.items():
                covered.setdefault((name, side), 0)
                covered[name, side] += sides[side]["low"] <= value <= sides[side]["high"]
    shares = {key: count / seeds for key, count in covered.items()}
    FIGURES.info("coverage of 95%% intervals: %s", shares)
    assert min(shares.values()) >= 0.92
    assert max(shares.values()) <= 0.98


@pytest.mark.parametrize(
    ("name", "accepted", "candidate"),
    [
        ("half are accepted", np.full((3, 4), 0.5), FIRST),
        ("few are accepted", np.full((3, 4), 0.03), FIRST),
        ("nearly all are accepted", np.full((3, 4), 0.95), FIRST),
        (
            "arms differ and policies do not",
            np.array([[0.2, 0.8, 0.5, 0.5], [0.8, 0.2, 0.5, 0.5], [0.5] * 4]),
            FIRST,
        ),
        ("eight arms and heavy weights", np.full((3, 8), 0.1), weights(np.array([[1.0] + [0.002] * 7] * 3))),
    ],
)
def test_looking_after_every_run_stays_under_the_error(
    name: str, accepted: Floats, candidate: Floats
) -> None:
    seeds, even = 400, np.full(accepted.shape, 1 / accepted.shape[1])
    wrong = 0
    for seed in range(seeds):
        draws, group = simulated([2, seed], ROWS, accepted, even)
        wrong += first_verdict(draws, group, candidate, even)[0] != "keep_baseline"
    FIGURES.info(f"false verdicts, {name}: {wrong / seeds}")
    assert wrong / seeds <= 0.025


def test_a_life_of_many_candidates_stays_under_five_percent() -> None:
    lives, wrong = 200, 0
    for life in range(lives):
        for number in range(1, 7):
            draws, group = simulated([3, life, number], ROWS, np.full((3, 4), 0.5), UNIFORM)
            if first_verdict(draws, group, FIRST, UNIFORM, number)[0] != "keep_baseline":
                wrong += 1
                break
    FIGURES.info(f"lives of six candidates with a false verdict: {wrong / lives}")
    assert wrong / lives <= 0.05


@pytest.mark.parametrize(("candidate", "wanted"), [(GOOD, "better"), (BAD, "worse")], ids=["gain", "loss"])
def test_a_real_difference_is_found(candidate: Floats, wanted: str) -> None:
    seeds = 200
    found = [
        first_verdict(*simulated([4, seed], ROWS, ACCEPTED, UNIFORM), candidate, UNIFORM)
        for seed in range(seeds)
    ]
    share = sum(name == wanted for name, _ in found) / seeds
    FIGURES.info(f"{wanted}: {share} found, after {np.median([at for _, at in found])} runs in the median")
    assert share >= 0.95


def test_draws_that_nobody_follows_have_no_effect_to_find() -> None:
    seeds = 300
    found = [
        first_verdict(*simulated([5, seed], ROWS, ACCEPTED, UNIFORM, complying=0.0), GOOD, UNIFORM)[0]
        for seed in range(seeds)
    ]
    share = sum(name != "keep_baseline" for name in found) / seeds
    FIGURES.info(f"false verdicts where workers ignore the draw: {share}")
    assert share <= 0.025
