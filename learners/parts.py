"""Statistics of one queue computed in parts: what a part comes to, and how parts become one.

Promises that merging is associative and takes parts in any order, and that the figures of merged parts are
those of ``learners.statistics`` over all rows at once, medians and distinct counts included: a part keeps how
often each group has each value, so nothing is estimated. Leaves out where parts are read and kept.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import polars as pl

from learners import statistics
from learners.wilson import wilson_columns

TALLIES = {
    **{column: column for column in statistics.MEASURES.values()},
    "cost": "cost_amount",
    "task": "task_id",
    "outcome": "worker_outcome",
    "reason": "failure_text",
    "problem": "went_wrong",
}
"""Name of a tally → the column whose values it counts."""

_WITHIN = {"cost": "cost_currency"}
_TEXTS = ("reason", "problem")


@dataclass(frozen=True, slots=True)
class Partial:
    """What some rows come to.

    ``groups``: ``group`` (from 0), the text columns grouped by, and counts; ``examples``: ``group, cursor,
    run_id`` of each group's newest rows; ``tallies``: by name ``group, value, count`` (of costs also
    ``cost_currency``), each pair of group and value once, sorted by value.
    """

    groups: pl.DataFrame
    examples: pl.DataFrame
    tallies: Mapping[str, pl.DataFrame]

    def totals(self, name: str) -> pl.DataFrame:
        """How many known values each group has in a tally: its keys but ``value``, and ``known``."""
        return self.tallies[name].group_by(keys_of(name)[:-1]).agg(pl.col("count").sum().alias("known"))

    def ranges(self, name: str) -> Iterable[pl.DataFrame]:
        """A tally, a range of values after the other, ascending, each pair of group and value once or more.

        Here it is one range; there is always one.
        """
        return (self.tallies[name],)


class Whole(Protocol):
    """Merged parts, wherever their tallies are kept; a ``Partial`` is one, its members as there."""

    @property
    def groups(self) -> pl.DataFrame: ...
    @property
    def examples(self) -> pl.DataFrame: ...
    def totals(self, name: str) -> pl.DataFrame: ...
    def ranges(self, name: str) -> Iterable[pl.DataFrame]: ...


def keys_of(name: str) -> list[str]:
    """The columns of a tally that are its key, the value last."""
    return ["group", *([_WITHIN[name]] if name in _WITHIN else []), "value"]


def partial(frame: pl.DataFrame, by: Sequence[str], extra: Sequence[pl.Expr], examples: int) -> Partial:
    """What ``frame`` (from ``statistics.measured``) comes to by the groups of ``by``, none being one group.

    ``extra`` are further counts, expressions that give Int64; ``examples`` is how many newest rows to keep.
    """
    kept = (
        frame.with_columns(pl.col(by).cast(pl.String)) if by else frame.with_columns(pl.lit("").alias("all"))
    )
    keys = list(by) or ["all"]
    counts = [
        pl.len().cast(pl.Int64).alias("attempts"),
        pl.col("accepted").sum().cast(pl.Int64),
        pl.col("retry").sum().cast(pl.Int64).alias("retried"),
    ]
    groups = kept.group_by(keys).agg(*counts, *extra).sort(keys).with_row_index("group")
    kept = kept.join(groups.select("group", *keys), on=keys, nulls_equal=True, maintain_order="left")
    return Partial(
        groups,
        _newest(kept.select("group", "cursor", "run_id"), examples),
        {name: _tally(kept, name) for name in TALLIES},
    )


def _tally(kept: pl.DataFrame, name: str) -> pl.DataFrame:
    keys, column = keys_of(name), TALLIES[name]
    values = kept.select(*keys[:-1], pl.col(column).alias("value"))
    if name == "problem":
        values = values.filter(pl.col("value").list.len() > 0).explode("value")
    values = values.drop_nulls()
    if values.schema["value"] == pl.Float64():
        values = values.with_columns(pl.col("value") + 0.0)  # -0.0 and 0.0 are one value, and this is it
    counted = values.group_by(keys).agg(pl.len().cast(pl.Int64).alias("count"))
    if name in _TEXTS:  # equal raw texts are counted before they are normalized
        return summed([counted.with_columns(statistics.failure_reasons(pl.col("value")))], name)
    return counted.sort("value", *keys[:-1])


def _newest(rows: pl.DataFrame, most: int) -> pl.DataFrame:
    return rows.sort("cursor", descending=True).group_by("group", maintain_order=True).head(most)


def summed(tallies: Sequence[pl.DataFrame], name: str) -> pl.DataFrame:
    """Tallies over the same numbers of groups as one."""
    keys = keys_of(name)
    together = pl.concat(tallies).group_by(keys).agg(pl.col("count").sum())
    return together.sort("value", *keys[:-1])


class Groups:
    """The groups of parts that come one after the other, numbered as they are first met."""

    def __init__(self, examples: int) -> None:
        self._most = examples
        self.groups, self.examples = pl.DataFrame(), pl.DataFrame()

    def add(self, part: Partial) -> pl.Series:
        """Take a part's groups in; returns the number here of each of its groups, by its number there."""
        if self.groups.is_empty():
            self.groups, self.examples = part.groups, part.examples
            return part.groups["group"]
        keys = [name for name, dtype in part.groups.schema.items() if dtype == pl.String()]
        known = self.groups.select(*keys, pl.col("group").alias("number"))
        found = part.groups.join(known, on=keys, how="left", nulls_equal=True, maintain_order="left")
        new = pl.col("number").is_null()
        met = pl.lit(self.groups.height - 1, pl.UInt32) + new.cum_sum().cast(pl.UInt32)
        found = found.with_columns(pl.when(new).then(met).otherwise("number").alias("number"))
        numbers = found["number"].alias("group")
        together = pl.concat([self.groups, part.groups.with_columns(numbers)])
        counts = [name for name in together.columns if name not in ("group", *keys)]
        self.groups = together.group_by("group", *keys).agg(pl.col(counts).sum()).sort("group")
        moved = renumbered(part.examples, numbers)
        self.examples = _newest(pl.concat([self.examples, moved]), self._most)
        return numbers


def renumbered(frame: pl.DataFrame, numbers: pl.Series) -> pl.DataFrame:
    """``frame`` with each ``group`` replaced by its number in ``numbers``."""
    return frame.with_columns(numbers.gather(frame["group"]).alias("group"))


def merge(partials: Sequence[Partial], examples: int) -> Partial:
    """Partials of disjoint rows, in any order, as one: to the bit that of all their rows."""
    met = Groups(examples)
    numbers = [met.add(part) for part in partials]
    keys = [name for name, dtype in met.groups.schema.items() if dtype == pl.String()]
    order = met.groups.sort(keys)
    places = pl.Series("group", order["group"].arg_sort(), dtype=pl.UInt32)
    groups = order.drop("group").with_row_index("group")
    tallies = {
        name: summed(
            [
                renumbered(part.tallies[name], places.gather(ours))
                for part, ours in zip(partials, numbers, strict=True)
            ],
            name,
        )
        for name in TALLIES
    }
    return Partial(groups, _newest(renumbered(met.examples, places), examples), tallies)


def figures(whole: Whole) -> list[dict[str, Any]]:
    """What ``statistics.grouped`` says of every group, with ``example_run_ids``, the newest first."""
    core = wilson_columns(whole.groups)
    for name, column in statistics.MEASURES.items():
        core = core.join(_medians(whole, column).rename({"value": name}), on="group", how="left")
    core = core.join(_distinct(whole, "task").rename({"value": "distinct_tasks"}), on="group", how="left")
    ordered = whole.examples.sort("group", "cursor", descending=[False, True])
    newest = ordered.group_by("group", maintain_order=True).agg(pl.col("run_id").alias("example_run_ids"))
    core = core.join(newest, on="group", how="left", maintain_order="left")
    outcomes = summed(list(whole.ranges("outcome")), "outcome")
    return statistics.rows(
        core,
        median_cost=statistics.mappings(_medians(whole, "cost"), "cost_currency", "value"),
        worker_outcomes=statistics.mappings(outcomes, "value", "count"),
        failure_reasons=_ranked(whole, "reason"),
        problems=_ranked(whole, "problem"),
    )


def _medians(whole: Whole, name: str) -> pl.DataFrame:
    """The exact median of each group: the mean of the middle two, found by counting up to them."""
    within, known = keys_of(name)[:-1], pl.col("known")
    middle = whole.totals(name).with_columns(
        ((known - 1) // 2).alias("low"), (known // 2).alias("high"), pl.lit(0, pl.Int64).alias("before")
    )
    found = [middle.clear().select(*within, pl.lit(0.0).alias("value"))]
    for piece in whole.ranges(name):
        ordered = piece.sort(*within, "value")
        here = ordered.group_by(within, maintain_order=True).agg(pl.col("count").sum().alias("here"))
        placed = here.join(middle, on=within, maintain_order="left")
        upto, starts = ordered["count"].cum_sum().to_numpy(), placed["here"].cum_sum() - placed["here"]
        for end in ("low", "high"):
            rank = placed[end] - placed["before"]  # counted from the group's first value in this piece
            inside = (rank >= 0) & (rank < placed["here"])
            at = np.searchsorted(upto, (starts + rank).filter(inside).to_numpy(), side="right")
            value = ordered["value"].gather(at).cast(pl.Float64)
            found.append(placed.filter(inside).select(*within).with_columns(value))
        middle = middle.join(here, on=within, how="left").select(
            *within, "low", "high", pl.col("before") + pl.col("here").fill_null(0)
        )
    return pl.concat(found).group_by(within).agg((pl.col("value").sum() / 2).alias("value"))


def _distinct(whole: Whole, name: str) -> pl.DataFrame:
    counts = [
        piece.group_by("group").agg(pl.col("value").n_unique().cast(pl.Int64)) for piece in whole.ranges(name)
    ]
    return pl.concat(counts).group_by("group").agg(pl.col("value").sum())


def _ranked(whole: Whole, name: str) -> dict[int, list[dict[str, Any]]]:
    best: pl.DataFrame | None = None
    for piece in whole.ranges(name):
        texts = piece.group_by("group", "value").agg(pl.col("count").sum()).rename({"value": "text"})
        best = statistics.most_frequent(texts if best is None else pl.concat([best, texts]))
    return {} if best is None else statistics.listed(best)
