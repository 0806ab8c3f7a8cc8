"""The asset `path_scorecard`: how often each path of a queue was accepted, published as a noun.

Read the lake, learn, check, publish, and say in the metadata what was published. Leaves out the figures
themselves: those are `learners.path_statistics`.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import dagster as dg
import polars as pl

from assets import plots, runs
from assets.lake import Lake
from assets.partitions import queues
from assets.publish import CheckFailed, Publication, Verified, publish
from assets.views import View
from learners.contract import CheckResult, name_of
from learners.path_statistics import LEARNER
from schemas import path_scorecard as schema
from tessera.canonical import digest
from tessera.client import Client

NAME = name_of(LEARNER)
KEY = dg.AssetKey("path_scorecard")
_TABLE_GROUPS = 30

Results = Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]


# a multi-asset of one: only its output and checks may be absent, and a queue without an entry has neither
@dg.multi_asset(
    name="path_scorecard",
    specs=[
        dg.AssetSpec(
            KEY,
            deps=[dg.AssetKey("observations")],
            skippable=True,
            group_name="learning",
            kinds={"polars", "deltalake"},
            code_version=f"v{LEARNER.spec['version']}",
            description="How often each path was accepted, with its Wilson interval, costs and times.",
        )
    ],
    check_specs=[
        dg.AssetCheckSpec(check.name, asset=KEY, description=check.description, blocking=True)
        for check in LEARNER.checks
    ],
    partitions_def=queues,
    can_subset=True,
)
def path_scorecard(
    context: dg.AssetExecutionContext, store: dg.ResourceParam[Client], lake: dg.ResourceParam[Lake]
) -> Results:
    """One noun for each config entry of the queue that is active or shadow."""
    queue = context.partition_key
    prepared = runs.of_queue(store, NAME, queue)
    if not prepared:
        context.log.info(f"no config entry of {NAME} for queue {queue}: nothing to learn, nothing published")
        return
    lake.check_view(queue, View.of(store.whoami()))
    version = lake.version("observations")
    outcomes = [one.learn(one.read(lake)) for one in prepared]
    wanted = {key.name for key in context.selected_asset_check_keys}
    try:
        passed = [one.verify(outcome) for one, outcome in zip(prepared, outcomes, strict=True)]
    except CheckFailed as failure:
        yield from (_result(result) for result in failure.results if result.name in wanted)
        raise dg.Failure(str(failure)) from failure
    yield from (_result(result) for result in passed[0].checks if result.name in wanted)
    if KEY not in context.selected_asset_keys:
        return
    published = [publish(store, one) for one in passed]
    lake.write_table("scorecards", queue, _rows(queue, passed, published))
    yield dg.MaterializeResult(
        asset_key=KEY,
        data_version=dg.DataVersion(_data_version(published)),
        metadata=_metadata(passed, published, version),
    )


def _result(result: CheckResult) -> dg.AssetCheckResult:
    rows = [row[:500] for row in result.rows[:20]]
    return dg.AssetCheckResult(
        asset_key=KEY,
        check_name=result.name,
        passed=result.passed,
        metadata={"rows": dg.MetadataValue.json(rows), "count": len(result.rows)},
    )


def _rows(queue: str, passed: Sequence[Verified], published: Sequence[Publication]) -> pl.DataFrame:
    """The groups that now stand in the store; those of a superseded run are another's to write."""
    frames = [schema.table()]
    for one, publication in zip(passed, published, strict=True):
        if publication.status != "superseded":
            (noun,), (record,) = one.outcome.nouns, publication.records
            frames.append(schema.rows(queue, record["version"], record["sha256"], noun.key, noun.body))
    return pl.concat(frames)


def _data_version(published: Sequence[Publication]) -> str:
    """The digest of the one state noun, or the digest of several by key."""
    digests = {record["key"]: str(record["sha256"]) for one in published for record in one.records}
    return next(iter(digests.values())) if len(digests) == 1 else digest(digests)


def _metadata(
    passed: Sequence[Verified], published: Sequence[Publication], lake_version: int | None
) -> dict[str, Any]:
    bodies = [one.outcome.nouns[0].body for one in passed]
    records = [
        {
            **publication.records[0],
            "status": publication.status,
            "cursor": body["cursor"],
            "runs": body["window"]["count"],
            "groups": len(body["groups"]),
            "mode": one.outcome.run.mode,
        }
        for one, body, publication in zip(passed, bodies, published, strict=True)
    ]
    first = records[0]
    return {
        "record": f"{first['store']}/{first['key']}",
        "record_version": first["version"],
        "sha256": first["sha256"],
        "status": first["status"],
        "cursor": first["cursor"],
        "runs": first["runs"],
        "accepted": sum(group["accepted"] for group in bodies[0]["groups"]),
        "groups": first["groups"],
        "records": dg.MetadataValue.json(records),
        "lake_version": dg.MetadataValue.null() if lake_version is None else lake_version,
        "table": dg.MetadataValue.md("\n\n".join(map(_table, bodies))),
        "plot": dg.MetadataValue.md("\n\n".join(map(_plot, bodies))),
    }


def _title(body: Mapping[str, Any]) -> str:
    by = ", ".join(body["dimensions"]) or "overall"
    return f"{body['scope']['queue']} by {by}" if body["dimensions"] else f"{body['scope']['queue']} overall"


def _table(body: Mapping[str, Any]) -> str:
    """The groups with most attempts as a markdown table; unknown figures are left empty."""
    names = body["dimensions"]
    heads = [*names, "attempts", "accepted", "rate", "95% interval"]
    lines = [f"**{_title(body)}**", "", _line(heads), _line(["---"] * len(heads))]
    for group in body["groups"][:_TABLE_GROUPS]:
        values = ["–" if group["dimensions"][name] is None else group["dimensions"][name] for name in names]
        low, high = _figure(group["wilson_low"]), _figure(group["wilson_high"])
        interval = f"{low} – {high}" if low else ""
        rate = _figure(group["acceptance_rate"])
        lines.append(_line([*values, str(group["attempts"]), str(group["accepted"]), rate, interval]))
    more = len(body["groups"]) - _TABLE_GROUPS
    return "\n".join([*lines, *(["", f"and {more} more groups in the noun"] if more > 0 else [])])


def _plot(body: Mapping[str, Any]) -> str:
    return plots.inline(plots.intervals(body["groups"], _title(body)), f"acceptance, {_title(body)}")


def _figure(value: float | None) -> str:
    return "" if value is None else f"{value:.3f}"


def _line(cells: Sequence[str]) -> str:
    """One row; what a cell holds is stored text and stays inside its cell."""
    shown = (" ".join(cell.split())[:80].replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
    return f"| {' | '.join(cell.replace('<', '&lt;') for cell in shown)} |"
