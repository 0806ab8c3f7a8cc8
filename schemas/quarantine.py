"""The lake's `quarantine` table: one row an item that is no observation, with every fault named by its path.

Promises that rows of `observations` and of this table together count what the store sent. Leaves out mending:
`workspace rebuild` reads the items again.
"""

import hashlib
from collections.abc import Sequence

import pandera.polars as pa
import polars as pl

from schemas.pages import Misfit
from tessera.observations import TRAINING_CORPUS

ITEM_BYTES = 65536

SCHEMA: dict[str, pl.DataType] = {
    "queue": pl.String(),
    "cursor": pl.Int64(),
    "run_id": pl.String(),
    "reason": pl.String(),
    "faults": pl.List(pl.Struct({"path": pl.String(), "message": pl.String()})),
    "item": pl.String(),
    "item_sha256": pl.String(),
    "use_policy": pl.String(),
}

Quarantine = pa.DataFrameSchema(
    {name: pa.Column(dtype, nullable=name in ("cursor", "run_id")) for name, dtype in SCHEMA.items()},
    strict=True,
    ordered=True,
    name="quarantine",
)


def frame(queue: str, misfits: Sequence[Misfit]) -> pl.DataFrame:
    """The misfits as a frame with the columns of `SCHEMA`; an item is cut at 64 KiB, digested whole."""
    return pl.DataFrame([_row(queue, misfit) for misfit in misfits], schema=SCHEMA, orient="row")


def _row(queue: str, misfit: Misfit) -> tuple[object, ...]:
    whole = misfit.item.encode(errors="replace")
    faults = [{"path": fault.path, "message": fault.message} for fault in misfit.faults]
    return (
        queue,
        misfit.cursor,
        misfit.run_id,
        "; ".join(f"{fault.path}: {fault.message}" for fault in misfit.faults),
        faults,
        whole[:ITEM_BYTES].decode(errors="ignore"),
        hashlib.sha256(whole).hexdigest(),
        TRAINING_CORPUS,
    )
