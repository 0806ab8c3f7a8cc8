"""The asset `other_learners`: what learners of other packages make of a queue, published as nouns.

Promises that a learner which is installed beside the project and named by the config runs with the others,
under the same checks, without a line of code here. Leaves out what their nouns mean.
"""

from collections.abc import Sequence

import dagster as dg

from assets import scope_runs
from assets.failures import failure
from assets.lake import Lake
from assets.learner_asset import Results, check_result, data_version, metadata
from assets.markdown import table
from assets.partitions import queues
from assets.scope_runs import Stand
from learners.contract import CheckResult
from learners.registry import BUILT_IN
from tessera.client import Client

KEY = dg.AssetKey("other_learners")
CHECK = "every_check_holds"


@dg.multi_asset(
    name="other_learners",
    specs=[
        dg.AssetSpec(
            KEY,
            deps=[dg.AssetKey("observations")],
            skippable=True,
            group_name="learning",
            kinds={"python"},
            description="What the learners of other packages that a config names have published.",
        )
    ],
    check_specs=[
        dg.AssetCheckSpec(CHECK, asset=KEY, description="the learners' own checks hold", blocking=True)
    ],
    partitions_def=queues,
)
def other_learners(
    context: dg.AssetExecutionContext, store: dg.ResourceParam[Client], lake: dg.ResourceParam[Lake]
) -> Results:
    """One noun, or more, for each config entry whose learner is another package's."""
    queue = context.partition_key
    version = lake.version("observations")
    stands = scope_runs.of_queue(store, lake, queue, lambda spec: spec not in BUILT_IN)
    rows = [f"{result.name}: {row}" for stand in stands for result in stand.checks for row in result.rows]
    yield check_result(KEY, CheckResult(CHECK, tuple(rows)))
    faults = scope_runs.faults(stands)
    if faults:
        raise failure("\n".join(faults), next((one.fault for one in stands if one.fault), None))
    standing = [stand for stand in stands if stand.record is not None]
    if standing:
        yield dg.MaterializeResult(
            asset_key=KEY,
            data_version=dg.DataVersion(data_version(standing)),
            metadata=metadata(standing, version, lambda stand: {}, _table),
        )


def _table(stands: Sequence[Stand]) -> str:
    heads = ("learner", "noun", "version", "status")
    rows = [
        [stand.prepared.name, stand.standing["key"], str(stand.standing["version"]), stand.status]
        for stand in stands
    ]
    return table(heads, rows)
