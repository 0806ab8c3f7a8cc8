"""The workspace as Dagster loads it: every asset module of one list, the jobs, and the resources by key.

Promises to load without a store, a key or a network. Adding an asset is its module and one line here.
"""

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import dagster as dg

from pipelines import jobs, sensors
from pipelines.executor import by_settings
from pipelines.resources import BY_SETTINGS

ASSET_MODULES = (
    "assets.observations",
    "assets.fingerprints",
    "assets.learning",
    "assets.other_learners",
    "assets.lag",
)


def definitions(
    resources: Mapping[str, Any] = BY_SETTINGS, every_seconds: int = sensors.EVERY_SECONDS
) -> dg.Definitions:
    """The workspace over the given resources, by default those of the settings; its sensors' interval."""
    modules = [import_module(name) for name in ASSET_MODULES]
    return dg.Definitions(
        assets=dg.load_assets_from_modules(modules),
        asset_checks=dg.load_asset_checks_from_modules(modules),
        jobs=[jobs.workspace, jobs.pull],
        sensors=sensors.of_workspace(every_seconds),
        resources={**BY_SETTINGS, **resources},
        executor=by_settings,  # one process a run, here or on a cluster: it has its queue's turn throughout
    )


defs = definitions()
