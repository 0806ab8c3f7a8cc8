"""Materializing learners' assets in process, over a real store and a lake filled with what a test says."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster as dg
import polars as pl

from assets.lake import Lake
from assets.learning import learning
from assets.partitions import queues
from assets.views import View
from assets.writer import Writer
from tessera.client import Client


def fill(client: Client, lake: Lake, rows: pl.DataFrame) -> None:
    """Put rows into the lake as the client's view of its store, as if they had been pulled."""
    (queue,) = rows["queue"].unique()
    writer = Writer(lake, queue, View.of(client.whoami()))
    writer.append(rows, int(rows["cursor"][-1]))


class Workspace:
    """A store's client, a lake and a history, to materialize in."""

    def __init__(self, client: Client, folder: Path, instance: dg.DagsterInstance) -> None:
        self.client, self.instance = client, instance
        self.lake = Lake(str(folder / "lake"))

    def materialize(
        self, *assets: str, queue: str = "q", client: Client | None = None
    ) -> dg.ExecuteInProcessResult:
        """One run of the named learners' assets for a queue."""
        self.instance.add_dynamic_partitions(str(queues.name), [queue])
        return dg.materialize(
            [learning],
            selection=list(assets),
            partition_key=queue,
            instance=self.instance,
            resources={"store": client or self.client, "lake": self.lake},
            raise_on_error=False,
        )


def materialized(result: dg.ExecuteInProcessResult) -> list[str]:
    """The assets that were materialized, in order."""
    return [event.asset_key.to_user_string() for event in result.asset_materializations_for_node("learning")]


def made(result: dg.ExecuteInProcessResult, name: str) -> dict[str, Any]:
    """The metadata of the one materialization of an asset, with its data version."""
    events = result.asset_materializations_for_node("learning")
    (event,) = [one for one in events if one.asset_key.to_user_string() == name]
    assert event.tags is not None
    told = {key: value.value for key, value in event.metadata.items()}
    return {**told, "data_version": event.tags["dagster/data_version"]}


def failure(result: dg.ExecuteInProcessResult) -> str:
    """Why the run failed, causes and all."""
    errors = [event.step_failure_data.error for event in result.all_events if event.is_step_failure]
    return "\n".join(error.to_string() for error in errors if error is not None)


def checks(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    """How each check that was evaluated went."""
    return {one.check_name: one.passed for one in result.get_asset_check_evaluations()}


def keys(records: Sequence[Any]) -> list[str]:
    """The keys of the records that a materialization tells of."""
    return [one["key"] for one in records]
