"""The asset `observations`: a queue's runs as rows of the lake, up to the store's newest.

Promises that what it shows (rows, cursor, lag, lake version) is what the lake holds after the pull. Leaves
out the pull itself: see `assets.pull`, which needs no Dagster.
"""

import dagster as dg
import polars as pl

from assets import plots
from assets.lake import LAKE_SCHEMA, Lake
from assets.partitions import queues
from assets.pull import PullResult, pull
from assets.upkeep import tidy
from learners.statistics import failure_reasons
from tessera.client import Client

_SHOWN = ["cursor", "run_id", "kind", "result", "method", "model", "submitted_at"]
_REASONS_OF = 1_000  # of the newest runs, whatever the queue holds
_CELL = 60  # characters of a cell; an event log is no place for a report


@dg.asset(
    partitions_def=queues,
    code_version=LAKE_SCHEMA,
    group_name="lake",
    kinds={"deltalake", "polars"},
    description="Every run of a queue that the key may read, one row each, in capture order.",
)
def observations(
    context: dg.AssetExecutionContext, store: dg.ResourceParam[Client], lake: dg.ResourceParam[Lake]
) -> dg.MaterializeResult[None]:
    """Pull what is new, keep the queue's files few, and show where the lake stands."""
    result = pull(store, lake, context.partition_key)
    files = tidy(lake, "observations", context.partition_key)
    return dg.MaterializeResult(
        metadata={**metadata(store, lake, result), "files": dg.MetadataValue.int(files)},
        data_version=dg.DataVersion(data_version(lake, result)),
    )


def data_version(lake: Lake, result: PullResult) -> str:
    """Moves when rows of the queue did, so that what is made from them shows as out of date."""
    return f"{lake.store_id()}:{result.queue}:{result.cursor}:{lake.count('quarantine', result.queue)}"


def metadata(store: Client, lake: Lake, result: PullResult) -> dict[str, dg.MetadataValue]:
    """What a person wants to see of a pull."""
    behind = store.pending(result.queue, after=str(result.cursor))
    newest = lake.observations(result.queue, last=10, columns=_SHOWN).reverse()
    reasons = failures(lake, result.queue) if result.rows else []
    drawn = plots.inline(plots.ranked(reasons, "failed runs"), "why runs failed") if reasons else None
    return {
        **({} if drawn is None else {"failure_reasons": dg.MetadataValue.md(drawn)}),
        "rows_added": dg.MetadataValue.int(result.rows),
        "quarantined": dg.MetadataValue.int(result.quarantined),
        "rows": dg.MetadataValue.int(lake.count("observations", result.queue)),
        "cursor": dg.MetadataValue.text(str(result.cursor)),
        "lag": dg.MetadataValue.int(behind["count"]),
        "lake_version": dg.MetadataValue.int(-1 if result.version is None else result.version),
        "lake": dg.MetadataValue.text(lake.uri("observations")),
        "seconds": dg.MetadataValue.float(round(result.seconds, 3)),
        "newest_runs": dg.MetadataValue.md(markdown(newest)),
    }


def failures(lake: Lake, queue: str) -> list[tuple[str, int]]:
    """Why the failed among a queue's newest runs failed, most frequent first: the reason and how many."""
    rows = lake.observations(queue, last=_REASONS_OF, columns=["result", "failure_text"])
    failed = rows.filter(pl.col("result") == "failed")
    reasons = failed.select(
        failure_reasons(pl.col("failure_text")).fill_null("no reason given").alias("reason")
    )
    counted = reasons.group_by("reason").len("runs").sort(["runs", "reason"], descending=[True, False])
    return list(counted.iter_rows())


def markdown(table: pl.DataFrame) -> str:
    """A small table for metadata: null as a dash, no cell over 60 characters, nothing that breaks a row."""
    if table.is_empty():
        return "no rows"
    lines = ["| " + " | ".join(table.columns) + " |", "|" + " --- |" * table.width]
    lines += ["| " + " | ".join(_cell(value) for value in values) + " |" for values in table.iter_rows()]
    return "\n".join(lines)


def _cell(value: object) -> str:
    if value is None or value != value:  # a NaN is as unknown as null
        return "–"
    text = " ".join(str(value).split()).replace("\\", "\\\\").replace("|", "\\|").replace("<", "&lt;")
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"
