"""Scorecards: attempts, accepted, the Wilson interval and two medians by four dimensions, 2,000 groups.

Each peer gets the rows in the form it likes best, made before the clock starts; all must find the same.
"""

import duckdb
import numpy as np
import pandas as pd
import polars as pl

from bench.table import Line, median_seconds, rates
from learners.statistics import counts_and_medians

BY = ["category", "template", "method", "model"]
SIZES = (10, 5, 8, 5)  # 2,000 groups
MEASURES = {"median_seconds": "seconds", "median_tokens": "tokens"}
Z = 1.959963984540054

SQL = f"""
select {", ".join(BY)}, count(*) as attempts, count_if(accepted) as accepted,
  (count_if(accepted) + {Z * Z / 2}) / (count(*) + {Z * Z}) as centre,
  {Z} / (count(*) + {Z * Z})
    * sqrt(count_if(accepted) * (count(*) - count_if(accepted)) / count(*) + {Z * Z / 4}) as half,
  median(seconds) as median_seconds, median(tokens) as median_tokens
from runs group by all
"""  # noqa: S608 - names are the constants above


def lines(*, quick: bool) -> list[Line]:
    """Two lines: beside duckdb and beside pandas."""
    rows = 1_000_000 if quick else 10_000_000
    runs = 3
    frame = sample(rows)
    ours = median_seconds(lambda: counts_and_medians(frame, BY, MEASURES), runs)
    database = duckdb.connect()
    database.register("given", frame.to_arrow())
    database.execute("create table runs as select * from given")
    in_duckdb = median_seconds(lambda: database.sql(SQL).pl(), runs)
    table = pd.DataFrame(
        {name: pd.Categorical(frame[name].to_numpy()) for name in BY}
        | {name: frame[name].to_numpy() for name in ("accepted", "seconds", "tokens")}
    )
    in_pandas = median_seconds(lambda: grouped_by_pandas(table), runs)
    agree(frame, database, table)
    work = f"scorecards, {rows // 1_000_000} M rows"
    peers = {"duckdb": (in_duckdb, "≥ 1.5 ×"), "pandas": (in_pandas, "≥ 3 ×")}
    return rates(work, rows, ours, peers, "the medians; counts alone are several times faster")


def sample(rows: int) -> pl.DataFrame:
    """`rows` seeded rows; the dimensions are dictionary-encoded, as the lake keeps them."""
    dice = np.random.default_rng(7)
    columns: dict[str, pl.Series] = {}
    for name, size in zip(BY, SIZES, strict=True):
        labels = pl.Series([f"{name}-{number}" for number in range(size)], dtype=pl.Categorical)
        columns[name] = labels.gather(pl.Series(dice.integers(size, size=rows, dtype=np.uint32)))
    columns["accepted"] = pl.Series(dice.random(rows) < 0.6)
    columns["seconds"] = pl.Series(dice.exponential(30.0, rows))
    columns["tokens"] = pl.Series(dice.integers(100, 50_000, size=rows))
    return pl.DataFrame(columns)


def grouped_by_pandas(table: pd.DataFrame) -> pd.DataFrame:
    """The same figures as pandas has them."""
    groups = table.groupby(BY, observed=True, sort=False)
    found = groups.agg(
        attempts=("accepted", "size"),
        accepted=("accepted", "sum"),
        median_seconds=("seconds", "median"),
        median_tokens=("tokens", "median"),
    )
    total = found["attempts"] + Z * Z
    found["centre"] = (found["accepted"] + Z * Z / 2) / total
    spread = found["accepted"] * (found["attempts"] - found["accepted"]) / found["attempts"] + Z * Z / 4
    found["half"] = Z / total * np.sqrt(spread)
    return found.reset_index()


def agree(frame: pl.DataFrame, database: duckdb.DuckDBPyConnection, table: pd.DataFrame) -> None:
    """Raise AssertionError unless all three found the same groups."""
    ours = _sorted(counts_and_medians(frame, BY, MEASURES))
    for theirs in (database.sql(SQL).pl(), pl.from_pandas(grouped_by_pandas(table))):
        found = _sorted(theirs.with_columns((pl.col("centre") - pl.col("half")).alias("wilson_low")))
        assert ours.height == found.height
        assert np.allclose(ours.to_numpy(), found.select(ours.columns).to_numpy(), rtol=1e-9)


def _sorted(found: pl.DataFrame) -> pl.DataFrame:
    figures = ["attempts", "accepted", "wilson_low", *MEASURES]
    ordered = found.with_columns(pl.col(BY).cast(pl.String)).sort(BY)
    return ordered.select(pl.col(figures).cast(pl.Float64))
