"""The asset `fingerprints`: each run's exact fingerprint and MinHash signature, as rows of the lake.

Promises that only rows behind the table's own cursor are read, and that rows and cursor are one commit. When
the queue's rows in the lake are not those that the table was made of (a rebuild, another view), it is made
anew. Leaves out the values themselves: those are `learners.fingerprints`.
"""

import uuid
from dataclasses import asdict, dataclass

import dagster as dg
import numpy as np
import polars as pl

from assets import data_files, plots, windows
from assets.fingerprint_parts import READ, TABLE, Task, compute, fingerprinted
from assets.lake import Lake, count_rows, view_of
from assets.observations import markdown
from assets.partitions import queues
from assets.snapshots import Snapshot
from assets.upkeep import tidy
from assets.views import LakeConflictError, LakeError
from assets.windows import Cut
from learners.contract import Scope
from schemas.fingerprints import SCHEMA, Fingerprints
from tessera.fingerprints import SCHEME

BATCH_ROWS = 50_000
_COMPARED = 300


@dataclass(frozen=True, slots=True)
class Refreshed:
    """What one refresh did: rows added, whether the table was made anew, and where it stands."""

    rows_added: int
    rows: int
    cursor: int
    made_anew: bool
    version: int | None


def refresh(lake: Lake, queue: str) -> Refreshed:
    """Bring a queue's fingerprints up to the lake's cursor.

    Raises LakeConflictError when another refresh of the queue was faster; nothing is lost.
    """
    observed, store_id = lake.open("observations"), lake.store_id()
    if observed is None or store_id is None:
        return Refreshed(0, 0, 0, False, None)
    upto, view = observed.transaction_version(queue) or 0, observed.transaction_version(view_of(queue)) or 0
    table = lake.ensure(TABLE, SCHEMA, store_id)
    cursor, held = table.transaction_version(queue) or 0, count_rows(table, queue)
    later = _later(lake, observed, queue, cursor)
    same_view = table.transaction_version(view_of(queue)) in (None, view)
    anew = cursor > upto or not same_view or count_rows(observed, queue) - later != held
    marks = {view_of(queue): view}
    if anew:
        lake.replace(table, queue, pl.DataFrame(schema=SCHEMA), {queue: 0, **marks})
        cursor, held, later = 0, 0, count_rows(observed, queue)
    cut = windows.cut(lake, observed, Scope(queue), after=cursor) if later > lake.spread.rows else None
    added = 0
    if cut is not None:
        added, cursor = _in_parts(lake, table, cut, {queue: upto, **marks}), upto
    while cursor < upto:
        rows = lake.observations(queue, after=cursor, upto=upto, first=BATCH_ROWS, columns=READ)
        reached = upto if rows.height < BATCH_ROWS else int(rows["cursor"][-1])
        if (table.transaction_version(queue) or 0) != cursor:
            raise LakeConflictError(f"another run went on with the fingerprints of {queue}: run it again")
        lake.append(table, Fingerprints.validate(fingerprinted(rows)), {queue: reached, **marks})
        added, cursor = added + rows.height, reached
    return Refreshed(added, held + added, cursor, anew, int(table.version()))


def _later(lake: Lake, observed: Snapshot, queue: str, cursor: int) -> int:
    """How many rows a queue has behind a cursor, counted a part of them at a time."""
    behind = observed.lazy().filter(pl.col("queue") == queue, pl.col("cursor") > cursor)
    with lake.trouble("count observations"):
        return int(behind.select(pl.len()).collect(engine="streaming").item())


def _in_parts(lake: Lake, table: Snapshot, cut: Cut, transactions: dict[str, int]) -> int:
    """Fingerprint the rows of a cut, each part into a file of its own, and commit them all at once."""
    queue, stem = cut.scope.queue, f"parts-{uuid.uuid4().hex}"
    tasks = [Task(cut, part, f"{stem}-{number}") for number, part in enumerate(cut.slices)]
    try:
        files = list(lake.spread.map(compute, tasks))
    except BaseException as ended:  # a person, too: no commit will name what was written
        try:
            data_files.remove(lake, TABLE, queue, [task.name for task in tasks])
        except LakeError as left:
            ended.add_note(
                f"files are left; `workspace compact` removes them when they are a day old ({left})"
            )
        raise
    data_files.commit(lake, table, queue, files, transactions)
    return sum(file.rows for file in files)


@dg.asset(
    deps=[dg.AssetKey("observations")],
    partitions_def=queues,
    code_version=SCHEME,
    group_name="lake",
    kinds={"deltalake", "numpy"},
    description="The exact fingerprint and the MinHash signature of each run, one row each.",
)
def fingerprints(
    context: dg.AssetExecutionContext, lake: dg.ResourceParam[Lake]
) -> dg.MaterializeResult[None]:
    """Fingerprint what is new, and keep the queue's files few."""
    queue = context.partition_key
    done = refresh(lake, queue)
    tidy(lake, TABLE, queue)
    return dg.MaterializeResult(
        data_version=dg.DataVersion(f"{lake.store_id()}:{queue}:{done.cursor}:{done.rows}:{SCHEME}"),
        metadata={
            **{name: value for name, value in asdict(done).items() if name in ("rows_added", "rows")},
            "cursor": str(done.cursor),
            "made_anew": done.made_anew,
            "lake_version": -1 if done.version is None else done.version,
            "lake": lake.uri(TABLE),
            "newest": dg.MetadataValue.md(_newest(lake, queue)),
            **({"likeness": dg.MetadataValue.md(_likeness(lake, queue))} if done.rows_added else {}),
        },
    )


def likenesses(signatures: pl.Series) -> list[int]:
    """How many pairs of signatures are alike by 0 to 0.1, 0.1 to 0.2, … 0.9 to 1, both ends of the last."""
    rows = np.frombuffer(b"".join(signatures), dtype=">u4").reshape(-1, 32)
    counts = np.zeros(10, dtype=np.int64)
    for place in range(1, len(rows)):
        shares = (rows[:place] == rows[place]).mean(axis=1)
        counts += np.histogram(shares, bins=10, range=(0, 1))[0]
    return [int(count) for count in counts]


def _likeness(lake: Lake, queue: str) -> str:
    """How alike the newest runs are, pair by pair."""
    newest = lake.scan(TABLE).filter(pl.col("queue") == queue).top_k(_COMPARED, by="cursor")
    signatures = lake.collect(newest.select("minhash").drop_nulls())["minhash"]
    if len(signatures) < 2:
        return "fewer than two runs have a signature"
    bars = [(f"{tenth / 10:.1f}–{tenth / 10 + 0.1:.1f}", n) for tenth, n in enumerate(likenesses(signatures))]
    picture = plots.bars(bars, "similarity", "pairs")
    return plots.inline(picture, f"similarity of the newest {len(signatures)} runs, pair by pair")


def _newest(lake: Lake, queue: str) -> str:
    table = lake.open(TABLE)
    if table is None:
        return "no rows"
    rows = (
        table.lazy().filter(pl.col("queue") == queue).select("cursor", "run_id", "kind", "features", "exact")
    )
    return markdown(lake.collect(rows.top_k(10, by="cursor")))
