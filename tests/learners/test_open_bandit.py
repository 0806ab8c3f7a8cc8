"""Estimates on logs that others published: the Open Bandit sample of the package `obp`, and its estimators.

Uniform choice is valued from the logs of Thompson sampling and compared with what uniform choice itself
earned. Runs where `obp` is installed, which the lock does not do: it asks for gigabytes of packages that
nothing here needs. `pip install --no-deps obp` is enough.
"""

import csv
import importlib
import importlib.util
import logging
import sys
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np
import pytest

from learners.off_policy import Draws, Floats, Integers, estimates, mean_interval, predictions, terms

FIGURES = logging.getLogger(__name__)
EVIDENCE = 100
"""The least effective sample size that a verdict is given on."""
CAMPAIGNS = ("all", "men", "women")
ESTIMATORS = {
    "ips": "InverseProbabilityWeighting",
    "snips": "SelfNormalizedInverseProbabilityWeighting",
    "dr": "DoublyRobust",
}


class Logs(NamedTuple):
    """One policy's log of a campaign: item and position shown, whether it was clicked, its probability."""

    item: Integers
    position: Integers
    click: Floats
    propensity: Floats


@pytest.fixture(scope="module")
def package() -> Path:
    """The folder of the installed package."""
    found = importlib.util.find_spec("obp")
    if found is None or found.origin is None:
        pytest.skip("the package obp, whose logs are read here, is not installed: pip install --no-deps obp")
    return Path(found.origin).parent


@pytest.fixture
def theirs(package: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """The package's own estimators; what they import and arrays do not need is stood in for where absent."""
    named: dict[str, dict[str, Any]] = {
        "torch": {"Tensor": type("Tensor", (), {})},
        "pandas": {"DataFrame": type("DataFrame", (), {})},
        "sklearn": {},
        "sklearn.utils": {"check_random_state": np.random.RandomState, "check_scalar": _check_scalar},
    }
    missing = {name for name in ("torch", "pandas", "sklearn") if importlib.util.find_spec(name) is None}
    for name, holds in named.items():
        if name.partition(".")[0] in missing:
            absent = ModuleType(name)
            absent.__dict__.update(holds)
            monkeypatch.setitem(sys.modules, name, absent)
    folder = ModuleType("obp.ope")  # without its __init__, which imports everything that trains a model
    folder.__path__ = [str(package / "ope")]
    monkeypatch.setitem(sys.modules, "obp.ope", folder)
    return importlib.import_module("obp.ope.estimators")


def _check_scalar(x: float, *_: object, **__: object) -> float:
    return x


def logs(package: Path, policy: str, campaign: str) -> Logs:
    """The log of a policy, in its order."""
    path = package / "dataset" / "obd" / policy / campaign / f"{campaign}.csv"
    with path.open(encoding="utf-8", newline="") as file:
        rows = sorted(csv.DictReader(file), key=lambda row: row["timestamp"])
    return Logs(
        np.array([int(row["item_id"]) for row in rows]),
        np.array([int(row["position"]) for row in rows]),
        np.array([float(row["click"]) for row in rows]),
        np.array([float(row["propensity_score"]) for row in rows]),
    )


def draws_of(log: Logs, items: int) -> Draws:
    """A log as draws that offered every item; the log says the probability of the item drawn alone."""
    rows = len(log.item)
    starts = np.arange(rows) * items
    return Draws(
        starts,
        np.tile(np.arange(items), rows),
        np.full(rows * items, 1 / items),
        starts + log.item,
        log.propensity,
        log.position,
        log.click,
    )


@pytest.mark.parametrize("campaign", CAMPAIGNS)
def test_our_estimates_are_theirs_and_near_what_the_policy_earned_where_the_logs_say_enough(
    package: Path, theirs: ModuleType, campaign: str
) -> None:
    own, other = logs(package, "random", campaign), logs(package, "bts", campaign)
    items = int(max(own.item.max(), other.item.max())) + 1
    draws = draws_of(other, items)
    uniform = np.full(len(draws.arm), 1 / items)
    predicted = predictions(draws)
    mine = terms(draws, uniform, predicted)

    made = {name: value["candidate"] for name, value in estimates(mine, mine).items()}

    enough = mine.effective_sample_size >= EVIDENCE
    assert enough == (campaign != "women")  # one row outweighs all others there: no verdict
    on_policy = mean_interval(own.click)
    rows = len(other.item)
    asked = {
        "reward": other.click,
        "action": other.item,
        "pscore": other.propensity,
        "action_dist": np.full((rows, items, 1), 1 / items),
        "position": np.zeros(rows, dtype=int),
    }
    for name, called in ESTIMATORS.items():
        more = {"estimated_rewards_by_reg_model": predicted.reshape(rows, items, 1)} if name == "dr" else {}
        figure = getattr(theirs, called)().estimate_policy_value(**asked, **more)
        FIGURES.info("%s %s: ours %s, obp %.6f, on-policy %s", campaign, name, made[name], figure, on_policy)
        assert made[name]["estimate"] == pytest.approx(figure, abs=1e-12)
        error = np.hypot(
            (made[name]["high"] - made[name]["low"]) / 2, (on_policy["high"] - on_policy["low"]) / 2
        )
        assert not enough or abs(made[name]["estimate"] - on_policy["estimate"]) <= 1.5 * error
