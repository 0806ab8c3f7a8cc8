"""What assets are given by key: the store's client and the lake, made from the settings when a run begins.

Promises that loading the definitions needs neither a store nor a key, and that whoever holds the lake for a
queue's run holds it alone. Leaves out the settings themselves.
"""

from collections.abc import Iterator, Mapping

import dagster as dg

from assets.lake import Lake
from assets.spread import Processes, Spread
from pipelines import cluster, shared_turns
from pipelines.turns import KEEPER, Told, Turns, kept
from tessera.client import Client
from tessera.settings import Settings
from tessera.transport import Backoff

PARTITION = "dagster/partition"


@dg.resource(description="The store at TESSERA_URL, by TESSERA_KEY or the home's admin key.")
def store(_: dg.InitResourceContext) -> Iterator[Client]:
    """A client by the settings."""
    with Client() as client:
        yield client


@dg.resource(description="The same store for sensors: it gives up soon, since a tick is bounded in time.")
def ticks(_: dg.InitResourceContext) -> Iterator[Client]:
    """A client by the settings that is not patient."""
    with Client(timeout=5.0, backoff=Backoff(tries=2)) as client:
        yield client


@dg.resource(
    description="The Delta tables under TESSERA_LAKE; a run of a queue has its turn while it holds it."
)
def lake(context: dg.InitResourceContext) -> Iterator[Lake]:
    """The lake of the settings."""
    settings = Settings.from_environment()
    yield from in_turn(context, lake_at(settings), turns_of(settings), _log(context))


def lake_at(settings: Settings) -> Lake:
    """The lake of the settings, with how work on a large queue is divided."""
    divided = cluster.mapper()
    if divided is map and settings.processes > 1:
        divided = Processes(settings.processes)
    return Lake(settings.lake, spread=Spread(settings.part_rows, divided))


def lake_of(lake: Lake, turns: Turns, told: Told) -> dg.ResourceDefinition:
    """A lake that is there already, taken in turn."""

    @dg.resource
    def held(context: dg.InitResourceContext) -> Iterator[Lake]:
        yield from in_turn(context, lake, turns, told)

    return held


def in_turn(context: dg.InitResourceContext, lake: Lake, turns: Turns, told: Told | None) -> Iterator[Lake]:
    """The lake, for as long as the run has the turn of its queue, if it has one; outside a run at once."""
    run = context.run
    if run is None or kept.get() == run.run_id:
        yield lake
        return
    if context.instance is not None:
        context.instance.add_run_tags(run.run_id, {KEEPER: turns.name})
    with turns.take(run.tags.get(PARTITION), run.run_id, told=told):
        yield lake


def turns_of(settings: Settings) -> Turns:
    """The turns of these settings' workspace: of this machine, or of all that share Dagster's history."""
    return shared_turns.of(settings.dagster_home) or Turns(settings.home / "turns")


def _log(context: dg.InitResourceContext) -> Told | None:
    return None if context.log is None else context.log.info


BY_SETTINGS: Mapping[str, dg.ResourceDefinition] = {"store": store, "ticks": ticks, "lake": lake}
