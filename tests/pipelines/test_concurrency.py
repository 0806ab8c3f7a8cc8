"""Runs side by side: many queues at once on one history file, and one queue never twice at once."""

import os
import subprocess
import sys
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import pack, specs
from assets.lake import Lake
from assets.partitions import queues
from assets.path_scorecard import SHOWN
from pipelines.definitions import definitions
from pipelines.instance import MOST_RUNS, instance

ROOT = Path(__file__).parents[2]
OBSERVATIONS = dg.AssetKey("observations")
AT_ONCE = MOST_RUNS


def pulls(store: Any, commands: Sequence[Sequence[str]]) -> list[tuple[int, str]]:
    """So many `workspace pull` commands begun together, each for some queues; how each ended."""
    environment = {**os.environ, "TESSERA_URL": store.url, "TESSERA_KEY": store.admin_key}
    children = [
        subprocess.Popen(
            [sys.executable, "-m", "pipelines.workspace", "pull", *(f"--queue={name}" for name in names)],
            cwd=ROOT,
            env=environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        )
        for names in commands
    ]
    return [(child.wait(), said) for child in children if (said := child.communicate()[1]) is not None]


@pytest.mark.slow
@pytest.mark.timeout(600)  # four starts of Dagster, however busy the machine is
def test_sixteen_queues_at_once_leave_no_failed_run_and_one_that_all_want_is_done_in_turns(
    store: Any, worked: Any, environment: Any, tmp_path: Path
) -> None:
    """D12, D13: as many at a time as the shipped configuration lets run; each waits for the one before."""
    names = [f"queue-{number:02}" for number in range(16)]
    for name in names:
        worked(name, 1)
    worked("packing", 5)
    ended = pulls(store, [["packing", *names[start::AT_ONCE]] for start in range(AT_ONCE)])
    assert [status for status, _ in ended] == [0] * AT_ONCE, ended
    lake = Lake(str(tmp_path / "workspace" / "lake"))
    assert [lake.count("observations", name) for name in names] == [1] * 16
    assert lake.count("observations", "packing") == 5
    with instance(tmp_path / "workspace" / "dagster") as history:
        runs = [record.dagster_run for record in history.get_run_records()]
        shared = [run.run_id for run in runs if run.tags["dagster/partition"] == "packing"]
        spans = sorted(at_work(history, run_id) for run_id in shared)
    assert {run.status.value for run in runs} == {"SUCCESS"}
    assert len(spans) == AT_ONCE
    assert all(before[1] <= after[0] for before, after in pairwise(spans))


def at_work(history: dg.DagsterInstance, run_id: str) -> tuple[float, float]:
    """When a run's first step began and its last one ended."""
    kinds = (dg.DagsterEventType.STEP_START, dg.DagsterEventType.STEP_SUCCESS)
    times = [
        entry.timestamp
        for entry in history.all_logs(run_id)
        if entry.dagster_event is not None and entry.dagster_event.event_type in kinds
    ]
    return min(times), max(times)


def test_what_was_made_from_older_rows_or_by_older_code_shows_as_out_of_date(
    store: Any, worked: Any, tmp_path: Path, environment: Any
) -> None:
    """D18: rows that came while a scorecard was made are not in it, and it says so."""
    from dagster._utils.test.data_versions import get_stale_status_resolver  # what the UI asks

    client, lake = store.client(), Lake(str(tmp_path / "lake"))
    pack.write(tmp_path / "pack")
    specs.install(client, pack.read(tmp_path / "pack"))
    specs.configure(client, "path_statistics:wilson-grouping:v1", "packing")
    worked("packing", 3)
    made = definitions({"store": client, "lake": lake})
    job, key = made.resolve_job_def("workspace"), SHOWN.key
    assets = [one for one in made.assets or () if isinstance(one, dg.AssetsDefinition)]

    with dg.DagsterInstance.ephemeral() as history:
        history.add_dynamic_partitions(str(queues.name), ["packing"])

        def run(*selected: dg.AssetKey) -> dg.ExecuteInProcessResult:
            return job.execute_in_process(
                instance=history, partition_key="packing", asset_selection=list(selected)
            )

        def status() -> str:
            return str(get_stale_status_resolver(history, assets).get_status(key, "packing").value)

        result = run(OBSERVATIONS, key)
        (card,) = [one for one in result.get_asset_materialization_events() if one.asset_key == key]
        assert status() == "FRESH"
        worked("packing", 1)
        run(OBSERVATIONS)
        stale = status()
        run(key)
        fresh = status()
    materialization = card.materialization
    assert (stale, fresh) == ("STALE", "FRESH")
    assert materialization.metadata["cursor"].value == "3"
    assert materialization.tags is not None
    assert materialization.tags["dagster/code_version"] == "v1"
