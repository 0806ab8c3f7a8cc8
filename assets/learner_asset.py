"""The one shape of every learner's asset: it is the worker of its learner's verbs.

Read what the config asks for, enqueue or find the due run, claim it, do it, and materialize what then stands
in the store; a failed check or run is yielded, submitted and raised, and nothing is materialized. A learner's
module says only what is its own: its table, its figures, its plot. Leaves out the runs (`assets.scope_runs`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import dagster as dg

from assets import scope_runs
from assets.lake import Lake
from assets.partitions import queues
from assets.scope_runs import Each, Stand
from learners.contract import Check, CheckResult, Learner, name_of
from tessera.canonical import digest
from tessera.client import Client

Results = Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]
Stands = Sequence[Stand]

_ROWS_SHOWN, _ROW_CHARACTERS = 20, 500


@dataclass(frozen=True, slots=True)
class WholeCheck:
    """A check of what stands in the store and the lake after the runs; ``find`` returns the rows at fault."""

    name: str
    description: str
    find: Callable[[Client, Lake, str, Stands], Sequence[str]]


@dataclass(frozen=True, slots=True)
class Shown:
    """What is a learner's own about its asset.

    ``figures`` are the counts of one entry, ``table`` and ``plot`` markdown over all entries, as is
    ``over_versions``, which may read earlier versions; ``keep`` writes the lake's table; ``each`` is called
    after each run that published.
    """

    name: str
    learner: Learner
    description: str
    figures: Callable[[Stand], Mapping[str, Any]]
    table: Callable[[Stands], str]
    plot: Callable[[Stands], str]
    keep: Callable[[Client, Lake, str, Stands], None] | None = None
    over_versions: Callable[[Client, Stands], str] | None = None
    each: Each | None = None
    more: Callable[[Lake, str, Stands], Mapping[str, Any]] | None = None
    whole: Sequence[WholeCheck] = ()
    deps: Sequence[str] = ("observations",)
    kinds: frozenset[str] = field(default=frozenset({"polars", "deltalake"}))

    @property
    def key(self) -> dg.AssetKey:
        """The asset's key."""
        return dg.AssetKey(self.name)


def learner_asset(shown: Shown) -> dg.AssetsDefinition:
    """The asset of a learner, partitioned by queue."""
    checks: list[Check | WholeCheck] = [*shown.learner.checks, *shown.whole]

    # a multi-asset of one: only its output and checks may be absent, and a queue without an entry has neither
    @dg.multi_asset(
        name=shown.name,
        specs=[
            dg.AssetSpec(
                shown.key,
                deps=[dg.AssetKey(name) for name in shown.deps],
                skippable=True,
                group_name="learning",
                kinds=set(shown.kinds),
                code_version=f"v{shown.learner.spec['version']}",
                description=shown.description,
            )
        ],
        check_specs=[
            dg.AssetCheckSpec(check.name, asset=shown.key, description=check.description, blocking=True)
            for check in checks
        ],
        partitions_def=queues,
        can_subset=True,
    )
    def learned(
        context: dg.AssetExecutionContext, store: dg.ResourceParam[Client], lake: dg.ResourceParam[Lake]
    ) -> Results:
        if shown.key not in context.selected_asset_keys:
            raise dg.Failure(f"the checks of {shown.name} are of what a run publishes: materialize it")
        yield from _materialize(context, store, lake, shown)

    return learned


def _materialize(context: dg.AssetExecutionContext, store: Client, lake: Lake, shown: Shown) -> Results:
    queue, name = context.partition_key, name_of(shown.learner)
    version = lake.version("observations")
    stands = scope_runs.of_queue(store, lake, queue, lambda spec: spec == name, shown.each)
    if not stands:
        context.log.info(f"no config entry of {name} for queue {queue}: nothing to learn, nothing published")
        return
    standing = [stand for stand in stands if stand.record is not None]
    if shown.keep is not None and standing:
        shown.keep(store, lake, queue, standing)
    results = [*_results(shown, stands), *_whole(shown, store, lake, queue, standing)]
    wanted = {key.name for key in context.selected_asset_check_keys}
    yield from (check_result(shown.key, result) for result in results if result.name in wanted)
    faults = [*scope_runs.faults(stands), *_told(shown, results)]
    if faults:
        raise dg.Failure("\n".join(faults)) from next((one.fault for one in stands if one.fault), None)
    if not standing:
        context.log.info(f"{name} has nothing to learn from on queue {queue} yet")
        return
    yield dg.MaterializeResult(
        asset_key=shown.key,
        data_version=dg.DataVersion(data_version(standing)),
        metadata={
            **metadata(standing, version, shown.figures, shown.table, shown.plot),
            "noun": dg.MetadataValue.url(_address(store, standing[0].standing)),
            **(
                {"over_versions": dg.MetadataValue.md(shown.over_versions(store, standing))}
                if shown.over_versions is not None
                else {}
            ),
            **({} if shown.more is None else shown.more(lake, queue, standing)),
        },
    )


def _address(store: Client, record: Mapping[str, Any]) -> str:
    """Where the store answers for this version of a noun."""
    return f"{store.url}/v1/records/{record['store']}/{quote(record['key'])}?version={record['version']}"


def _results(shown: Shown, stands: Stands) -> list[CheckResult]:
    """Each check over the runs of all entries; none of them for entries that had no run."""
    checked = [stand for stand in stands if stand.checks]
    return [
        CheckResult(
            check.name,
            tuple(
                row
                for stand in checked
                for result in stand.checks
                if result.name == check.name
                for row in result.rows
            ),
        )
        for check in (shown.learner.checks if checked else ())
    ]


def _whole(shown: Shown, store: Client, lake: Lake, queue: str, stands: Stands) -> list[CheckResult]:
    return [CheckResult(check.name, tuple(check.find(store, lake, queue, stands))) for check in shown.whole]


def _told(shown: Shown, results: Sequence[CheckResult]) -> list[str]:
    """Failed checks of the whole in words; those of a run are told by the run's own failure."""
    names = {check.name for check in shown.whole}
    return [f"{one.name}: {'; '.join(one.rows[:5])}" for one in results if one.name in names and one.rows]


def check_result(key: dg.AssetKey, result: CheckResult) -> dg.AssetCheckResult:
    """A check as Dagster takes it, with the first rows at fault."""
    rows = [row[:_ROW_CHARACTERS] for row in result.rows[:_ROWS_SHOWN]]
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=result.name,
        passed=result.passed,
        metadata={"rows": dg.MetadataValue.json(rows), "count": len(result.rows)},
    )


def data_version(stands: Stands) -> str:
    """The digest of the one state noun, or the digest of several by key."""
    digests = {stand.standing["key"]: str(stand.standing["sha256"]) for stand in stands}
    return next(iter(digests.values())) if len(digests) == 1 else digest(digests)


def metadata(
    stands: Stands,
    lake_version: int | None,
    figures: Callable[[Stand], Mapping[str, Any]],
    table: Callable[[Stands], str],
    plot: Callable[[Stands], str] | None = None,
) -> dict[str, Any]:
    """What a materialization says of the nouns that stand: of the first, and of each in ``records``."""
    records = [
        {
            **{name: stand.standing[name] for name in ("store", "key", "version", "sha256")},
            "status": stand.status,
            "cursor": stand.body["cursor"],
            "mode": stand.prepared.run.mode,
            "verbs": stand.task_ids,
            **figures(stand),
        }
        for stand in stands
    ]
    first = records[0]
    return {
        "record": f"{first['store']}/{first['key']}",
        "record_version": first["version"],
        "sha256": first["sha256"],
        "status": first["status"],
        "cursor": first["cursor"],
        **figures(stands[0]),
        "records": dg.MetadataValue.json(records),
        "lake_version": dg.MetadataValue.null() if lake_version is None else lake_version,
        "table": dg.MetadataValue.md(table(stands)),
        **({} if plot is None else {"plot": dg.MetadataValue.md(plot(stands))}),
    }
