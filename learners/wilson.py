"""The Wilson score interval for one pair of counts and for a column of them.

Promises that both forms give the same doubles: the scalar form is ``tessera.statistics.wilson_interval``, and
the column form does the same operations in the same order. Impossible counts are an error in both.
"""

import polars as pl

from tessera.statistics import Z95, wilson_interval

__all__ = ["Z95", "wilson", "wilson_columns"]

wilson = wilson_interval


def wilson_columns(
    frame: pl.DataFrame, accepted: str = "accepted", attempts: str = "attempts"
) -> pl.DataFrame:
    """``frame`` with ``acceptance_rate, wilson_low, wilson_high`` (Float64, null without attempts) added.

    Raises ValueError naming the first counts that cannot be: negative, unknown, or more accepted
    than attempts.
    """
    frame = frame.with_columns(pl.col(accepted, attempts).cast(pl.Int64))
    k, n = pl.col(accepted), pl.col(attempts)
    possible = ((k >= 0) & (k <= n)).fill_null(value=False)
    impossible = frame.filter(~possible)
    if impossible.height:
        row = impossible.row(0, named=True)
        raise ValueError(f"impossible counts: {row[accepted]} accepted of {row[attempts]} attempts")
    known = pl.when(n > 0)
    return frame.with_columns(
        known.then(k / n).alias("acceptance_rate"),
        known.then(pl.when(k == 0).then(0.0).otherwise(_end(k, n, -1.0).clip(0.0, 1.0))).alias("wilson_low"),
        known.then(pl.when(k == n).then(1.0).otherwise(_end(k, n, 1.0).clip(0.0, 1.0))).alias("wilson_high"),
    )


def _end(accepted: pl.Expr, attempts: pl.Expr, side: float) -> pl.Expr:
    k, n = accepted.cast(pl.Float64), attempts.cast(pl.Float64)
    square = Z95 * Z95
    middle = k + square / 2.0
    spread = Z95 * (k * (n - k) / n + square / 4.0).sqrt()
    return (middle + side * spread) / (n + square)
