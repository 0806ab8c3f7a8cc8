"""Which arm of a dimension an attempt counts for.

Promises one answer for every learner: the arm that the server drew, else the one that brief or report
names, else null (contract, section 10). Leaves out what the counts mean.
"""

import polars as pl

SOURCES: dict[str, tuple[str, ...]] = {
    **{name: (name,) for name in ("template", "phrasing", "shim", "method", "harness")},
    "model": ("model", "model_reported"),
}
"""The columns of `schemas.observations` that say what was reported for a dimension."""


def reported(dimension: str) -> pl.Expr:
    """What brief or report names for a dimension, null when nothing does; a model declared null is ``""``."""
    if dimension == "model":
        declared = pl.col("model_reported") & pl.col("model").is_null()
        return pl.when(declared).then(pl.lit("")).otherwise(pl.col("model"))
    return pl.col(dimension)


def draws_of(observations: pl.DataFrame, dimension: str) -> pl.DataFrame:
    """The draws of one dimension: `row` (index into the observations) and the draw's fields."""
    return (
        observations.lazy()
        .select(pl.int_range(pl.len(), dtype=pl.Int64).alias("row"), "draws")
        .filter(pl.col("draws").list.len() > 0)
        .explode("draws")
        .unnest("draws")
        .filter(pl.col("dimension") == dimension)
        .unique("row", keep="first", maintain_order=True)
        .collect()
    )


def counted(observations: pl.DataFrame, dimension: str, by: str = "category") -> pl.DataFrame:
    """One row an attempt: `category`, `arm` (drawn, else reported, else null), `accepted`, `randomized`.

    `by` is `category` (the kind) or `template`, the family of the task.
    """
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
