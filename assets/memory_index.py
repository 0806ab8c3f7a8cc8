"""The asset `memory_index`: a queue's past runs, to be recalled by likeness, published as nouns.

Read the lake, learn, check, publish, until the lake's cursor is reached; then hold the whole index against
the lake's rows. Leaves out the index itself (`learners.memory`) and recall (`tessera.advice`).
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg
import polars as pl

from assets import memory_entries, plots, runs, specs
from assets.lake import Lake
from assets.observations import markdown
from assets.partitions import queues
from assets.publish import CheckFailed, publish
from assets.runs import Prepared
from assets.views import View
from learners.contract import Evidence, name_of
from learners.memory import LEARNER
from learners.memory_checks import Coverage
from tessera.canonical import digest
from tessera.client import Client

NAME = name_of(LEARNER)
KEY = dg.AssetKey("memory_index")
COVERAGE = "every_row_has_one_entry"
_MOST_ROUNDS = 100_000

Results = Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]


@dataclass(slots=True)
class Indexed:
    """Where one scope's index stands after a materialization, and what it took."""

    prepared: Prepared
    record: Mapping[str, Any]
    rounds: int = 0
    added: int = 0
    fits: Coverage = field(default_factory=lambda: Coverage((), (), ()))

    @property
    def body(self) -> Mapping[str, Any]:
        """The head's body."""
        body: Mapping[str, Any] = self.record["body"]
        return body


# a multi-asset of one: only its output and checks may be absent, and a queue without an entry has neither
@dg.multi_asset(
    name="memory_index",
    specs=[
        dg.AssetSpec(
            KEY,
            deps=[dg.AssetKey("observations"), dg.AssetKey("fingerprints")],
            skippable=True,
            group_name="learning",
            kinds={"numpy", "deltalake"},
            code_version=f"v{LEARNER.spec['version']}",
            description="What became of past runs, by equality and by likeness, published as nouns.",
        )
    ],
    check_specs=[
        *(
            dg.AssetCheckSpec(check.name, asset=KEY, description=check.description, blocking=True)
            for check in LEARNER.checks
        ),
        dg.AssetCheckSpec(
            COVERAGE,
            asset=KEY,
            description="each counted row of the lake up to the cursor has one entry in the whole index",
            blocking=True,
        ),
    ],
    partitions_def=queues,
    can_subset=True,
)
def memory_index(
    context: dg.AssetExecutionContext, store: dg.ResourceParam[Client], lake: dg.ResourceParam[Lake]
) -> Results:
    """One index for each config entry of the queue that is active or shadow."""
    queue = context.partition_key
    lake.check_view(queue, View.of(store.whoami()))
    version = lake.version("observations")
    wanted = {key.name for key in context.selected_asset_check_keys}
    publishing = KEY in context.selected_asset_keys
    try:
        indexed = index_queue(store, lake, queue, publishing=publishing)
    except CheckFailed as failure:
        yield from (_result(one.name, one.rows) for one in failure.results if one.name in wanted)
        raise dg.Failure(str(failure)) from failure
    if not indexed:
        context.log.info(f"nothing to index for queue {queue}: no config entry of {NAME}, or no runs")
        return
    faults = [fault for one in indexed for fault in one.fits.faults()]
    yield from (_result(check.name, ()) for check in LEARNER.checks if check.name in wanted)
    if COVERAGE in wanted:
        yield _result(COVERAGE, faults, [run_id for one in indexed for run_id in one.fits.orphaned])
    if not publishing:
        return
    if faults:
        raise dg.Failure(
            f"{NAME}: {len(faults)} rows of {queue} do not fit the index: {'; '.join(faults[:5])}. The index "
            "stands as it is; switch the entry's surface off and on, a run after each, to have it start anew."
        )
    yield dg.MaterializeResult(
        asset_key=KEY,
        data_version=dg.DataVersion(_data_version(indexed)),
        metadata=_metadata(indexed, version),
    )


def index_queue(store: Client, lake: Lake, queue: str, *, publishing: bool = True) -> list[Indexed]:
    """Bring each configured index of a queue up to the lake, and the lake's entries in step with it.

    Scopes that have neither an index nor a row are left out. Without ``publishing`` the indexes stay as they
    are, and only the checks are made.
    """
    entries = specs.entries_of(store, queue)
    mine = [entry for entry in entries if entry["spec"] == NAME]
    found = [index_scope(store, lake, entry, entries, publishing=publishing) for entry in mine]
    indexed = [one for one in found if one is not None]
    heads = {one.record["key"]: int(one.record["version"]) for one in indexed}
    if not memory_entries.in_step(lake, heads):
        memory_entries.read_anew(store, lake, queue, list(heads))
    for one in indexed:
        run = one.prepared.run
        one.fits = memory_entries.covered(lake, run.scope, one.record["key"], one.body["cursor"], run.surface)
    return indexed


def index_scope(
    store: Client,
    lake: Lake,
    entry: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]] = (),
    *,
    publishing: bool = True,
) -> Indexed | None:
    """Run after run until nothing is new; None for a scope without an index and without a row."""
    rounds, added = 0, 0
    for _ in range(_MOST_ROUNDS):
        prepared = runs.prepare(store, entry, entries)
        state = prepared.run.state
        seen = runs.from_lake(lake)(prepared)
        if not _is_due(prepared, seen):
            return None if state is None else Indexed(prepared, state, rounds, added)
        passed = prepared.verify(prepared.learn(seen))
        if not publishing:
            return None if state is None else Indexed(prepared, state)
        done = publish(store, passed)
        if done.status == "superseded":
            continue
        rounds += 1
        added += prepared.run.counted(seen).height
        head = next(record for record in done.records if record["key"] == passed.outcome.nouns[-1].key)
        replaced = 0 if state is None else int(state["version"])
        if not prepared.run.restart:
            memory_entries.append(lake, prepared.run.scope.queue, passed.outcome.nouns, head, replaced)
        if seen.frame.height < LEARNER.spec["budget"]["observations"]:  # the lake has no more for now
            record = {**head, "body": passed.outcome.nouns[-1].body}
            return Indexed(prepared, record, rounds, added)
    raise dg.Failure(f"{NAME}: the index of {entry['queue']} was still behind after {_MOST_ROUNDS} runs")


def _is_due(prepared: Prepared, seen: Evidence) -> bool:
    """Whether a run would do anything: new rows, a changed surface, or another spec than the state's."""
    run = prepared.run
    if seen.frame.height or run.state is None:
        return bool(seen.frame.height)
    body = run.state["body"]
    return run.restart or body["spec"] != run.spec.body() or body["options"] != dict(run.options)


def _result(name: str, rows: Sequence[str], orphaned: Sequence[str] = ()) -> dg.AssetCheckResult:
    metadata: dict[str, Any] = {
        "rows": dg.MetadataValue.json([row[:500] for row in rows[:20]]),
        "count": len(rows),
    }
    if name == COVERAGE:
        metadata["entries_without_a_row"] = len(orphaned)
        metadata["without_a_row"] = dg.MetadataValue.json(list(orphaned[:20]))
    return dg.AssetCheckResult(asset_key=KEY, check_name=name, passed=not rows, metadata=metadata)


def _data_version(indexed: Sequence[Indexed]) -> str:
    """The digest of the one head, or the digest of several by key."""
    digests = {one.record["key"]: str(one.record["sha256"]) for one in indexed}
    return next(iter(digests.values())) if len(digests) == 1 else digest(digests)


def _metadata(indexed: Sequence[Indexed], lake_version: int | None) -> dict[str, Any]:
    records = [
        {
            **{name: one.record[name] for name in ("store", "key", "version", "sha256")},
            "cursor": one.body["cursor"],
            "entries": one.body["entries"],
            "added": one.added,
            "runs": one.rounds,
            "segments": len(one.body["segments"]),
            "manifests": len(one.body["manifests"]),
            "entries_without_a_row": len(one.fits.orphaned),
            "mode": one.prepared.run.mode,
        }
        for one in indexed
    ]
    first = records[0]
    return {
        "record": f"{first['store']}/{first['key']}",
        "record_version": first["version"],
        "sha256": first["sha256"],
        "cursor": first["cursor"],
        "entries": first["entries"],
        "entries_added": sum(one.added for one in indexed),
        "records": dg.MetadataValue.json(records),
        "lake_version": dg.MetadataValue.null() if lake_version is None else lake_version,
        "table": dg.MetadataValue.md(_table(records)),
        "plot": dg.MetadataValue.md(_plot(indexed)),
    }


def _table(records: Sequence[Mapping[str, Any]]) -> str:
    columns = ["key", "version", "mode", "cursor", "entries", "added", "segments", "manifests"]
    return markdown(
        pl.DataFrame([[str(one[name]) for name in columns] for one in records], columns, orient="row")
    )


def _plot(indexed: Sequence[Indexed]) -> str:
    """How many entries each of the newest pinned segments holds."""
    pins = [pin for one in indexed for pin in one.body["segments"]]
    bars = [(pin["key"].rpartition(":seg:")[2], pin["entries"]) for pin in pins[-40:]]
    return plots.inline(plots.bars(bars, "segment", "entries"), "entries of the newest segments")
