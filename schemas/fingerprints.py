"""The lake's `fingerprints` table: one row an observation, with its exact fingerprint and its signature.

Promises the values of ``tessera.fingerprints`` and the scheme that they were made by. Leaves out making them:
that is `learners.fingerprints`.
"""

import pandera.polars as pa
import polars as pl

SCHEMA: dict[str, pl.DataType] = {
    "queue": pl.String(),
    "cursor": pl.Int64(),
    "run_id": pl.String(),
    "kind": pl.String(),
    "private": pl.Boolean(),
    "scheme": pl.String(),
    "exact": pl.String(),
    "minhash": pl.Binary(),
    "features": pl.Int64(),
    "use_policy": pl.String(),
}
"""``minhash`` is 32 big-endian unsigned 32-bit values, null without evidence; ``features`` counts those
beside the category; ``exact`` is hex, null without an input digest.
"""


def _has_128_bytes(data: pa.PolarsData) -> pl.LazyFrame:
    return data.lazyframe.select((pl.col("minhash").bin.size() == 128).fill_null(True))


Fingerprints = pa.DataFrameSchema(
    {name: pa.Column(dtype, nullable=name in ("exact", "minhash")) for name, dtype in SCHEMA.items()},
    checks=[pa.Check(_has_128_bytes, name="minhash", error="a signature has 128 bytes")],
    strict=True,
    ordered=True,
    name="fingerprints",
)
