"""The policies that an evaluation compares, and the rows it compares them on.

Promises π over the arms a row offered exactly as choosing draws: from a weights noun's scores, 0.5 for an
arm it does not know, uniform without a noun or category (contract, section 10). A row is a task's first
submitted run with a draw of the dimension. Leaves out the estimates.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import polars as pl
from numpy.typing import NDArray

from learners.attempts import draws_of, reported
from learners.contract import LearnerError
from learners.off_policy import Draws, Floats, Integers
from learners.posterior import PRIOR_SCORE, shares


@dataclass(frozen=True, slots=True)
class Rows:
    """The rows of an evaluation, and what their codes stand for.

    `frame` has one row each: `cursor, run_id, kind, template, arm, followed`. `arms` are the labels of the
    codes in `draws.arm`; `draws.group` counts by the categories of `by`.
    """

    frame: pl.DataFrame
    draws: Draws
    arms: tuple[str, ...]

    def keep(self, rows: NDArray[np.bool_]) -> "Rows":
        """Only the marked rows."""
        return Rows(self.frame.filter(pl.Series(rows, dtype=pl.Boolean)), self.draws.keep(rows), self.arms)


def rows_of(
    observations: pl.DataFrame,
    dimension: str,
    *,
    after: int = 0,
    by: str = "category",
    offering: str | None = None,
) -> Rows:
    """The rows of a dimension captured after the cursor `after`, in capture order.

    `offering` keeps only draws that offered that arm. Raises LearnerError for a draw that no server throws.
    """
    if dimension == "lesson":
        followed = pl.lit(None, dtype=pl.Boolean)
    else:
        followed = reported(dimension).eq_missing(pl.col("arm"))
    first = (pl.col("fence") - 1 == pl.col("lapsed")) & (pl.col("cursor") > after)
    live = observations.filter(first)
    drawn = draws_of(live, dimension)
    if offering is not None:
        drawn = drawn.filter(
            pl.col("arms").list.eval(pl.element().struct.field("arm") == offering).list.any()
        )
    facts = live.with_row_index("row").with_columns(pl.col("row").cast(pl.Int64))
    frame = drawn.select("row", "arm", "propensity", "arms").join(facts, on="row", maintain_order="left")
    frame = frame.with_columns(
        (pl.col("result") == "accepted").cast(pl.Float64).alias("reward"), followed.alias("followed")
    )
    labels, draws = _draws(frame, "kind" if by == "category" else "template")
    kept = frame.select("cursor", "run_id", "kind", "template", "arm", "followed")
    return Rows(kept, draws, labels)


def _draws(frame: pl.DataFrame, grouping: str) -> tuple[tuple[str, ...], Draws]:
    sizes = frame["arms"].list.len().to_numpy().astype(np.int64)
    offered = frame.select("arms").explode("arms").unnest("arms") if frame.height else _NO_ARMS
    if frame.height and (sizes == 0).any():
        raise _impossible(frame, int(np.flatnonzero(sizes == 0)[0]))
    labels = tuple(sorted(set(offered["arm"].to_list())))
    code = {label: position for position, label in enumerate(labels)}
    arm = np.array([code[label] for label in offered["arm"].to_list()], dtype=np.int64)
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: frame.height]
    taken = np.array([code.get(label, -1) for label in frame["arm"].to_list()], dtype=np.int64)
    row = np.repeat(np.arange(frame.height), sizes)
    hits = np.flatnonzero(arm == taken[row])
    weight = offered["weight"].to_numpy().astype(np.float64)
    possible = np.bincount(row[hits], minlength=frame.height) == 1
    possible &= frame.select((pl.col("propensity") > 0).fill_null(value=False)).to_series().to_numpy()
    if not possible.all():
        raise _impossible(frame, int(np.flatnonzero(~possible)[0]))
    group = frame[grouping].fill_null("").rank("dense").to_numpy().astype(np.int64)
    propensity, reward = frame["propensity"].to_numpy(), frame["reward"].to_numpy()
    return labels, Draws(starts, arm, weight, hits, propensity, group, reward)


_NO_ARMS = pl.DataFrame(schema={"arm": pl.String, "weight": pl.Float64})


def _impossible(frame: pl.DataFrame, row: int) -> LearnerError:
    run, arm = frame["run_id"][row], frame["arm"][row]
    return LearnerError(
        f"run {run} has a draw that no server throws: arm {arm!r} must be offered once, with a propensity "
        "above 0; rebuild the lake"
    )


def mass(rows: Rows, weights: Mapping[str, Any] | None) -> Floats:
    """π of each arm offered, by a weights noun's body; uniform (None) gives each arm of a row the same."""
    draws = rows.draws
    if weights is None:
        even: Floats = 1 / draws.sizes
        return np.repeat(even, draws.sizes)
    column = "template" if weights["options"].get("by") == "template" else "kind"
    place = {category["category"]: i for i, category in enumerate(weights["categories"])}
    category = np.array([place.get(name, -1) for name in rows.frame[column].to_list()], dtype=np.int64)
    known = category >= 0
    reserve = weights["baseline"] or {"arm": None, "share": 0.0}
    reserved = all_mass_to(rows, reserve["arm"]) > 0
    offers = np.logical_or.reduceat(reserved, draws.starts) if len(draws) else np.zeros(0, dtype=bool)
    row = draws.row
    share = np.where(offers & known, reserve["share"], 0.0)[row]
    epsilon = np.where(known, weights["epsilon"], 1.0)[row]
    return shares(_scores(rows, weights, category[row]), draws.starts, epsilon, reserved, share)


def _scores(rows: Rows, weights: Mapping[str, Any], category: Integers) -> Floats:
    """The noun's score of each arm offered, 0.5 where it knows none; `category` is a place, or −1."""
    code = {label: position for position, label in enumerate(rows.arms)}
    scores = {
        position * len(code) + code[arm["arm"]]: arm["score"]
        for position, one in enumerate(weights["categories"])
        for arm in one["arms"]
        if arm["arm"] in code
    }
    if not scores:
        return np.full(len(category), PRIOR_SCORE)
    keys = np.array(sorted(scores), dtype=np.int64)
    values = np.array([scores[key] for key in keys.tolist()], dtype=np.float64)
    wanted = category * len(code) + rows.draws.arm
    found = np.searchsorted(keys, wanted).clip(max=len(keys) - 1)
    known = (category >= 0) & (keys[found] == wanted)
    score: Floats = np.where(known, values[found], PRIOR_SCORE)
    return score


def all_mass_to(rows: Rows, arm: str | None) -> Floats:
    """π that always takes one arm where it is offered."""
    label = rows.arms.index(arm) if arm in rows.arms else -1
    taken: Floats = (rows.draws.arm == label).astype(np.float64)
    return taken
