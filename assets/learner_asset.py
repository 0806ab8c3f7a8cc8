"""The one shape of every learner's asset: it is the worker of its learner's verbs.

Read what the config asks for, enqueue or find the due run, claim it, do it, and materialize what then stands
in the store; a failed check or run is yielded, submitted and raised, and nothing is materialized. A learner's
module says only what is its own: its table, its figures, its plot (`Shown`); `assets.learning` lists them.
Leaves out the runs (`assets.scope_runs`).
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any
from urllib.parse import quote

import dagster as dg

from assets import scope_runs
from assets.failures import failure
from assets.lake import Lake
from assets.partitions import queues
from assets.scope_runs import Each, Stand
from learners.contract import Check, CheckResult, Learner, name_of
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import TesseraError

Results = Iterator[dg.AssetCheckResult | dg.MaterializeResult[None]]
Stands = Sequence[Stand]

_ROWS_SHOWN, _ROW_CHARACTERS = 20, 500


@dataclass(frozen=True, slots=True)
class WholeCheck:
    """A check of what stands in the store and the lake after the runs; ``find`` returns the rows at fault.

    ``told`` is what else to say of it, ``remedy`` what to do when it fails.
    """

    name: str
    description: str
    find: Callable[[Client, Lake, str, Stands], Sequence[str]]
    told: Callable[[Stands], Mapping[str, Any]] | None = None
    remedy: str = ""


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

    @property
    def checks(self) -> list[Check | WholeCheck]:
        """Those of a run's outcome, then those of the whole."""
        return [*self.learner.checks, *self.whole]

    def learn(self, client: Client, lake: Lake, queue: str) -> list[Stand]:
        """Do what is due on a queue and bring the lake's table in step; no Dagster in it."""
        name = name_of(self.learner)
        stands = scope_runs.of_queue(client, lake, queue, lambda spec: spec == name, self.each)
        standing = [stand for stand in stands if stand.record is not None]
        if self.keep is not None and standing:
            self.keep(client, lake, queue, standing)
        return stands


def learner_assets(name: str, *learners: Shown) -> dg.AssetsDefinition:
    """The assets of some learners, partitioned by queue, each after those it depends on.

    They are one step, since Dagster would skip whatever depends on an asset that a queue has no entry for. In
    it each is on its own: one that fails stops only those that depend on it.
    """

    # only outputs and checks that may be absent are asked for: a queue without an entry has neither
    @dg.multi_asset(
        name=name,
        specs=[_spec(shown) for shown in learners],
        check_specs=[
            dg.AssetCheckSpec(check.name, asset=shown.key, description=check.description, blocking=True)
            for shown in learners
            for check in shown.checks
        ],
        partitions_def=queues,
        can_subset=True,
    )
    def learned(
        context: dg.AssetExecutionContext, store: dg.ResourceParam[Client], lake: dg.ResourceParam[Lake]
    ) -> Results:
        failed: dict[str, dg.Failure] = {}
        for shown in [shown for shown in learners if shown.key in context.selected_asset_keys]:
            stopped = [dep for dep in shown.deps if dep in failed]
            if stopped:
                context.log.warning(f"{shown.name} was left as it is, since {stopped[0]} failed")
                failed[shown.name] = failed[stopped[0]]
                continue
            try:
                yield from _materialize(context, store, lake, shown)
            except dg.Failure as stopped_by:
                failed[shown.name] = stopped_by
            except TesseraError as error:
                failed[shown.name] = failure(str(error), error)
        _raise(list(dict.fromkeys(failed.values())))

    return learned


def _spec(shown: Shown) -> dg.AssetSpec:
    return dg.AssetSpec(
        shown.key,
        deps=[dg.AssetKey(name) for name in shown.deps],
        skippable=True,
        group_name="learning",
        kinds=set(shown.kinds),
        code_version=f"v{shown.learner.spec['version']}",
        description=shown.description,
    )


def _raise(failures: Sequence[dg.Failure]) -> None:
    if len(failures) == 1:
        raise failures[0]
    if failures:
        raise failure("\n".join(str(one.description) for one in failures), failures[0])


def _materialize(context: dg.AssetExecutionContext, store: Client, lake: Lake, shown: Shown) -> Results:
    queue, name = context.partition_key, name_of(shown.learner)
    version = lake.version("observations")
    stands = shown.learn(store, lake, queue)
    if not stands:
        context.log.info(f"no config entry of {name} for queue {queue}: nothing to learn, nothing published")
        return
    standing = [stand for stand in stands if stand.record is not None]
    results = [*_results(shown, stands), *_whole(shown, store, lake, queue, standing)]
    more = {check.name: check.told(standing) for check in shown.whole if check.told is not None}
    wanted = {(key.asset_key, key.name) for key in context.selected_asset_check_keys}
    for result in results:
        if (shown.key, result.name) in wanted:
            yield check_result(shown.key, result, more.get(result.name))
    faults = [*scope_runs.faults(stands), *_told(shown, results)]
    if faults:
        raise failure("\n".join(faults), next((one.fault for one in stands if one.fault), None))
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
    checks = shown.whole if stands else ()
    return [CheckResult(check.name, tuple(check.find(store, lake, queue, stands))) for check in checks]


def _told(shown: Shown, results: Sequence[CheckResult]) -> list[str]:
    """Failed checks of the whole in words; those of a run are told by the run's own failure."""
    remedies = {check.name: check.remedy for check in shown.whole}
    told = []
    for one in results:
        if one.name in remedies and one.rows:
            rows = "; ".join(row[:_ROW_CHARACTERS] for row in one.rows[:5])
            told.append(f"{one.name}: {len(one.rows)} at fault: {rows}. {remedies[one.name]}".strip())
    return told


def check_result(
    key: dg.AssetKey, result: CheckResult, more: Mapping[str, Any] | None = None
) -> dg.AssetCheckResult:
    """A check as Dagster takes it, with the first rows at fault."""
    rows = [row[:_ROW_CHARACTERS] for row in result.rows[:_ROWS_SHOWN]]
    return dg.AssetCheckResult(
        asset_key=key,
        check_name=result.name,
        passed=result.passed,
        metadata={"rows": dg.MetadataValue.json(rows), "count": len(result.rows), **(more or {})},
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
