"""Judges a soak by what was measured: counts first, then whether lag or memory grows. Pure.

A slope is fitted to the means of equal blocks of the steady part, so that the ups and downs between two runs
of the workspace are not taken for independent points; its interval is Student's, 95%.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import stats

BLOCKS = 8
WARMING = 0.25
"""The share of a run that is left out of slopes: processes start, caches fill."""
GROWING_SHARE = 0.01
"""Lag grows when the low end of its slope is above this share of the offered rate."""
GROWING_MEMORY = 1 << 20
"""Memory grows when the low end of its slope is above so many bytes a minute."""


@dataclass(frozen=True, slots=True)
class Slope:
    """A change per second with its 95% interval; None where there are too few points to tell."""

    value: float
    low: float
    high: float

    def scaled(self, factor: float) -> "Slope":
        """In another unit."""
        return Slope(self.value * factor, self.low * factor, self.high * factor)


def slope(points: Sequence[tuple[float, float]], blocks: int = BLOCKS) -> Slope | None:
    """The slope of values over seconds, from block means; None when a block would be empty."""
    if len(points) < 2 * blocks:
        return None
    values = np.array(sorted(points), dtype=float)
    means = np.array([part.mean(axis=0) for part in np.array_split(values, blocks)])
    fitted = stats.linregress(means[:, 0], means[:, 1])
    margin = float(stats.t.ppf(0.975, blocks - 2) * fitted.stderr)
    return Slope(float(fitted.slope), float(fitted.slope) - margin, float(fitted.slope) + margin)


def steady(points: Iterable[tuple[float, float]], begin: float, end: float) -> list[tuple[float, float]]:
    """The points of the part that is judged."""
    first = begin + WARMING * (end - begin)
    return [(at, value) for at, value in points if first <= at <= end]


@dataclass(frozen=True, slots=True)
class Counts:
    """What was acknowledged, beside what the store and the lake hold of the same time.

    ``lost`` are acknowledged runs that the store does not have, and runs of the store that the lake does not
    have; ``doubled`` rows of the lake beyond one a run, rows of no run, and runs acknowledged twice.
    ``unanswered`` are runs that the store kept although their worker got no answer: neither of the two.
    """

    acknowledged: int
    store: int
    lake_rows: int
    lake_runs: int
    lost: int
    doubled: int
    unanswered: int

    @property
    def exact(self) -> bool:
        """Whether nothing is lost and nothing doubled."""
        return self.lost == 0 and self.doubled == 0


def count(acknowledged: Iterable[str], store: Iterable[str], lake: Sequence[str]) -> Counts:
    """Compare run ids: those acknowledged, those in the store, those in the lake's rows."""
    told, kept, pulled = list(acknowledged), set(store), set(lake)
    lost = {run for run in told if run not in kept} | (kept - pulled)
    doubled = len(lake) - len(pulled) + len(pulled - kept) + len(told) - len(set(told))
    return Counts(len(told), len(kept), len(lake), len(pulled), len(lost), doubled, len(kept - set(told)))


def lag_grows(found: Slope | None, per_second: float) -> bool | None:
    """Whether the lag grows; None where it cannot be told."""
    return None if found is None else found.low > GROWING_SHARE * per_second


def memory_grows(found: Slope | None) -> bool | None:
    """Whether memory grows; None where it cannot be told."""
    return None if found is None else found.low * 60 > GROWING_MEMORY


def percentiles(values: Sequence[float]) -> dict[str, float | None]:
    """Median, 99th percentile and largest; null without values."""
    if not values:
        return {"p50": None, "p99": None, "max": None}
    found: list[Any] = np.percentile(np.array(values), [50, 99, 100]).tolist()
    return dict(zip(("p50", "p99", "max"), found, strict=True))
