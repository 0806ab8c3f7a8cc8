"""The jobs: the whole workspace for a queue, and the pull alone."""

import dagster as dg

WORKSPACE = "workspace"
PULL = "pull"

workspace = dg.define_asset_job(
    WORKSPACE,
    selection=dg.AssetSelection.all() - dg.AssetSelection.assets("lag"),
    description="Everything for one queue: pull, learn, check, publish.",
)
pull = dg.define_asset_job(
    PULL, selection=dg.AssetSelection.assets("observations"), description="The observations of one queue."
)
