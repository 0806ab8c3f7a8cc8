"""Outcome statistics over columns: what ``tessera.statistics`` says of one set of attempts, of every group at
once.

Promises the same figures to the bit, whatever the order of the rows, the number of threads or the hash seed.
One pass for counts and medians, and one over the known values alone for each of costs, outcomes, reasons and
problems. Leaves out what a group means: the columns to group by are the caller's.
"""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl

from learners.wilson import wilson_columns
from tessera.canonical import utf16_key
from tessera.statistics import MOST_FREQUENT, REASON_POINTS

COLUMNS = (
    "result",
    "retry",
    "task_id",
    "worker_outcome",
    "failure_text",
    "went_wrong",
    "claimed_at",
    "submitted_at",
    "input_tokens",
    "output_tokens",
    "total_tokens",
    "reported_duration_seconds",
    "cost_amount",
    "cost_currency",
)
"""The columns of ``schemas.observations`` that these statistics read."""

MEASURES = {
    "median_server_duration_seconds": "server_duration_seconds",
    "median_total_tokens": "tokens",
    "median_reported_duration_seconds": "reported_duration_seconds",
}
"""Name of the median → the measured column."""

_MICROSECONDS = 1_000_000
_HASHED_AT_ONCE = 100_000
_UPPER = [chr(code) for code in range(ord("A"), ord("Z") + 1)]


def failure_reasons(text: pl.Expr) -> pl.Expr:
    """``tessera.statistics.failure_reason`` of a text column."""
    reason = text.str.replace_many(_UPPER, [letter.lower() for letter in _UPPER])
    reason = reason.str.replace_all("[0-9a-f]{8,}", "#").str.replace_all("[0-9]+", "#")
    reason = reason.str.replace_all(r"[\t-\r ]+", " ").str.strip_chars(" ")
    return reason.str.slice(0, REASON_POINTS).str.strip_chars(" ")


def measured(frame: pl.DataFrame) -> pl.DataFrame:
    """``frame`` (columns of ``schemas.observations``) with ``accepted``, ``server_duration_seconds`` and
    ``tokens`` (reported total, else input + output) added, each null where unknown; NaN counts as unknown.
    """
    held = (pl.col("submitted_at") - pl.col("claimed_at")).dt.total_microseconds()
    # a column of divisors: polars multiplies by the reciprocal of a constant one, which is not exact
    second = held * 0 + _MICROSECONDS
    return frame.with_columns(
        (pl.col("result") == "accepted").alias("accepted"),
        (held / second).alias("server_duration_seconds"),
        pl.coalesce("total_tokens", pl.col("input_tokens") + pl.col("output_tokens")).alias("tokens"),
        pl.col("reported_duration_seconds", "cost_amount").fill_nan(None),
    )


def exact_median(column: str) -> pl.Expr:
    """The median of a column's known values: the mean of the middle two.

    Not polars' own median, which interpolates and so may be a bit away from the mean.
    """
    return pl.col(column).quantile(0.5, "midpoint")


def counts_and_medians(
    frame: pl.DataFrame,
    by: Sequence[str],
    measures: Mapping[str, str] = MEASURES,
    extra: Sequence[pl.Expr] = (),
) -> pl.DataFrame:
    """One row a group: ``by``, ``attempts``, ``accepted``, the Wilson columns, each median, and ``extra``.

    ``frame`` holds ``accepted`` (Boolean), ``by`` and the measured columns. Groups come in no order.
    """
    medians = [exact_median(column).alias(name) for name, column in measures.items()]
    counts = [pl.len().cast(pl.Int64).alias("attempts"), pl.col("accepted").sum().cast(pl.Int64)]
    return wilson_columns(frame.group_by(by).agg(*counts, *medians, *extra))


def grouped(frame: pl.DataFrame, by: Sequence[str], extra: Sequence[pl.Expr] = ()) -> list[dict[str, Any]]:
    """The statistics of every group of ``by`` (text columns, null a group of its own), one mapping a group.

    ``frame`` comes from ``measured``; ``extra`` are further aggregations. Each mapping holds the group's
    values of ``by``, the keys of ``tessera.statistics.summary``, and ``extra``. Groups come in no order.
    """
    kept = (
        frame.with_columns(pl.col(by).cast(pl.String)) if by else frame.with_columns(pl.lit("").alias("all"))
    )
    keys = list(by) or ["all"]
    tallies = [
        pl.col("task_id").n_unique().cast(pl.Int64).alias("distinct_tasks"),
        pl.col("retry").sum().cast(pl.Int64).alias("retried"),
    ]
    core = counts_and_medians(kept, keys, extra=[*tallies, *extra]).with_row_index("group")
    costs = _known(kept, [*keys, "cost_currency"], "cost_amount").agg(
        exact_median("cost_amount").alias("value")
    )
    outcomes = _known(kept, [*keys, "worker_outcome"]).agg(pl.len().alias("value"))
    problems = kept.select(*keys, "went_wrong").filter(pl.col("went_wrong").list.len() > 0)
    nested: dict[str, dict[int, Any]] = {
        "median_cost": mappings(_placed(core, costs, keys), "cost_currency", "value"),
        "worker_outcomes": mappings(_placed(core, outcomes, keys), "worker_outcome", "value"),
        "failure_reasons": _texts(core, kept, keys, "failure_text"),
        "problems": _texts(core, problems.explode("went_wrong"), keys, "went_wrong"),
    }
    core = core if by else core.drop("all")
    return rows(core, **nested)


def rows(core: pl.DataFrame, **nested: Mapping[int, Any]) -> list[dict[str, Any]]:
    """Each row of ``core`` but its ``group`` as a mapping, with what nests of that group."""
    found = core.drop("group").to_dicts()
    for group, row in zip(core["group"], found, strict=True):
        for name, values in nested.items():
            row[name] = values.get(group, {} if name in ("median_cost", "worker_outcomes") else [])
    return found


def _known(frame: pl.DataFrame, by: list[str], *others: str) -> Any:
    """The rows whose last key and ``others`` are known, grouped."""
    known = pl.all_horizontal(pl.col(by[-1], *others).is_not_null())
    return frame.select(*by, *others).filter(known).group_by(by)


def _placed(core: pl.DataFrame, values: pl.DataFrame, keys: list[str]) -> pl.DataFrame:
    return core.select("group", *keys).join(values, on=keys, nulls_equal=True)


def mappings(placed: pl.DataFrame, key: str, value: str) -> dict[int, dict[str, Any]]:
    """The pairs of ``key`` and ``value`` of each ``group``."""
    found: dict[int, dict[str, Any]] = {}
    for group, name, held in placed.select("group", key, value).iter_rows():
        found.setdefault(group, {})[name] = held
    return found


def _texts(
    core: pl.DataFrame, frame: pl.DataFrame, keys: list[str], text: str
) -> dict[int, list[dict[str, Any]]]:
    """Each group's most frequent normalized texts; equal raw texts are counted before they are normalized."""
    raw = _known(frame, [*keys, text]).agg(pl.len().cast(pl.Int64).alias("count"))
    reasons = raw.with_columns(failure_reasons(pl.col(text)).alias("text"))
    counts = reasons.group_by([*keys, "text"]).agg(pl.col("count").sum())
    return listed(most_frequent(_placed(core, counts, keys).select("group", "text", "count")))


def most_frequent(counts: pl.DataFrame) -> pl.DataFrame:
    """Of ``group, text, count`` each group's rows with the highest counts, in their order."""
    ordered = counts.with_columns(text_order(counts["text"]).alias("order"))
    ranked = ordered.sort("group", "count", "order", descending=[False, True, False])
    return ranked.group_by("group", maintain_order=True).head(MOST_FREQUENT).select("group", "text", "count")


def listed(ranked: pl.DataFrame) -> dict[int, list[dict[str, Any]]]:
    """The ``text`` and ``count`` of each ``group``, in the rows' order."""
    found: dict[int, list[dict[str, Any]]] = {}
    for group, reason, count in ranked.select("group", "text", "count").iter_rows():
        found.setdefault(group, []).append({"text": reason, "count": count})
    return found


def text_order(texts: pl.Series) -> pl.Series:
    """A series that sorts as ``texts`` do by UTF-16 code units.

    UTF-8 sorts by code point, which differs only where a text holds a character beyond U+FFFF.
    """
    if not texts.str.contains(r"[\x{10000}-\x{10FFFF}]").any():
        return texts
    distinct = sorted(texts.unique().drop_nulls().to_list(), key=utf16_key)
    return texts.replace_strict(distinct, range(len(distinct)), default=None, return_dtype=pl.Int64)


class Pinned:
    """Runs pinned by a digest, taken in capture order: SHA-256 over their ids joined by U+000A."""

    def __init__(self) -> None:
        self.count = 0
        self._hashed = hashlib.sha256()

    def add(self, count: int, ids: bytes) -> None:
        """The next runs: how many, and their ids joined by U+000A."""
        if count:
            self._hashed.update(b"\n" + ids if self.count else ids)
            self.count += count

    def add_rows(self, frame: pl.DataFrame) -> None:
        """The next runs: rows with a ``run_id``, in capture order."""
        for start in range(0, frame.height, _HASHED_AT_ONCE):
            part = frame["run_id"].slice(start, _HASHED_AT_ONCE)
            self.add(len(part), run_ids(part))

    def sha256(self) -> str:
        """The digest in hex; of nothing when there are no runs."""
        return self._hashed.hexdigest()


def run_ids(ids: pl.Series) -> bytes:
    """Run ids joined by U+000A."""
    return "\n".join(ids.to_list()).encode()


def runs_sha256(frame: pl.DataFrame) -> str:
    """The digest of all runs of ``frame``, whose rows may come in any order."""
    pinned = Pinned()
    pinned.add_rows(frame if frame["cursor"].is_sorted() else frame.sort("cursor"))
    return pinned.sha256()
