"""The asset `lag`: how far each queue's lake is behind the store, now and over the last while.

Promises figures of one look at the store and at one version of the lake, and a history that stays small: each
materialization carries the ones before it. Leaves out catching up.
"""

import time
from collections.abc import Mapping, Sequence
from typing import Any

import dagster as dg

from assets import plots
from assets.lake import Lake
from assets.markdown import table
from assets.partitions import scopes
from tessera.client import Client
from tessera.errors import TesseraError

KEY = dg.AssetKey("lag")
POINTS_KEPT = 200
CAP = 10_000  # the most that the store counts

Lags = Mapping[str, int | None]


@dg.asset(
    key=KEY,
    group_name="lake",
    kinds={"polars"},
    description="How many readable runs of each queue the lake has not pulled yet.",
)
def lag(
    context: dg.AssetExecutionContext, store: dg.ResourceParam[Client], lake: dg.ResourceParam[Lake]
) -> dg.MaterializeResult[None]:
    """Look at every queue now."""
    found = {queue: behind(store, lake, queue) for queue in scopes(store.queues())}
    return dg.MaterializeResult(metadata=metadata(found, points(context.instance), time.time()))


def behind(client: Client, lake: Lake, queue: str) -> int | None:
    """How many runs the lake lacks of a queue, counted up to 10,000; None when it cannot be known."""
    try:
        return int(client.pending(queue, after=str(lake.cursor(queue)), cap=CAP)["count"])
    except TesseraError:
        return None


def points(instance: dg.DagsterInstance) -> list[dict[str, Any]]:
    """What was seen before, oldest first: ``{at, lags}`` each, of the newest materialization."""
    records = instance.fetch_materializations(KEY, limit=1).records
    made = records[0].asset_materialization if records else None
    held = None if made is None else made.metadata.get("history")
    return list(held.value["points"]) if isinstance(held, dg.JsonMetadataValue) else []  # type: ignore[index,call-overload]


def metadata(found: Lags, before: Sequence[Mapping[str, Any]], now: float) -> dict[str, Any]:
    """What a person wants to see: figures, a table, and the lag of each queue over time."""
    seen = [*before, {"at": round(now), "lags": dict(found)}][-POINTS_KEPT:]
    known = [count for count in found.values() if count is not None]
    rows = [
        [queue, "unknown" if count is None else f"{count:,}{'+' if count >= CAP else ''}"]
        for queue, count in sorted(found.items(), key=lambda one: -(one[1] if one[1] is not None else CAP))
    ]
    return {
        "queues": len(found),
        "runs_behind": sum(known),
        "most_behind": max(known, default=0),
        "table": dg.MetadataValue.md(table(("queue", "runs behind"), rows[:30])),
        "plot": dg.MetadataValue.md(plots.inline(plots.lines(_series(seen), "runs behind"), "lag over time")),
        "history": dg.MetadataValue.json({"points": seen}),
    }


def _series(seen: Sequence[Mapping[str, Any]]) -> list[tuple[float, str, float]]:
    return [
        (float(point["at"]), queue, float(count))
        for point in seen
        for queue, count in point["lags"].items()
        if count is not None
    ]
