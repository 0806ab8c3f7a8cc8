"""Which arm of a dimension an attempt counts for, and what pins a window of attempts.

Promises one answer for every learner: the arm that the server drew, else the one that brief or report
names, else null (contract, section 10). Leaves out what the counts mean.
"""

import hashlib

import polars as pl

from tessera.canonical import utf16_key


def runs_sha256(run_ids: pl.Series) -> str:
    """SHA-256 over the run ids in capture order, joined by U+000A."""
    return hashlib.sha256("\n".join(run_ids.to_list()).encode()).hexdigest()


def reported(dimension: str) -> pl.Expr:
    """What the brief or the report names for a dimension, null when nothing does; a declared null model is
    ``""``.
    """
    if dimension == "model":
        declared = pl.col("model_reported") & pl.col("model").is_null()
        return pl.when(declared).then(pl.lit("")).otherwise(pl.col("model"))
    return pl.col(dimension)


def draws_of(observations: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """The draws of one dimension: `row` (index into the observations) and the draw's fields."""
    drawn = (
        observations.lazy()
        .select(pl.int_range(pl.len(), dtype=pl.Int64).alias("row"), "draws")
        .filter(pl.col("draws").list.len() > 0)
        .explode("draws")
        .unnest("draws")
        .filter(pl.col("dimension") == dimension)
        .unique("row", keep="first", maintain_order=True)
    )
    return drawn.collect()


def counted(observations: pl.DataFrame, dimension: str, by: str = "category") -> pl.DataFrame:
    """One row an attempt: `category`, `arm` (drawn, else reported, else null), `accepted`, `randomized`."""
    drawn = draws_of(observations, dimension).select("row", pl.col("arm").alias("drawn"))
    attempts = observations.select(
        pl.int_range(pl.len(), dtype=pl.Int64).alias("row"),
        pl.col("kind" if by == "category" else "template").alias("category"),
        reported(dimension).alias("reported"),
        (pl.col("result") == "accepted").alias("accepted"),
    ).join(drawn, on="row", how="left", maintain_order="left")
    return attempts.select(
        "category",
        pl.coalesce("drawn", "reported").alias("arm"),
        "accepted",
        pl.col("drawn").is_not_null().alias("randomized"),
    )


def text_order(texts: pl.Series) -> pl.Series:
    """A series that sorts as `texts` do by UTF-16 code units; UTF-8 differs only beyond U+FFFF."""
    if not texts.str.contains(r"[\x{10000}-\x{10FFFF}]").any():
        return texts
    distinct = sorted(texts.unique().drop_nulls().to_list(), key=utf16_key)
    return texts.replace_strict(distinct, range(len(distinct)), default=None, return_dtype=pl.Int64)
