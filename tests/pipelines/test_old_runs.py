"""Old runs leave Dagster's history, and what stands is still said."""

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from pipelines import instance
from tests.pipelines.conftest import Command


@pytest.fixture
def home(worked: Callable[..., None], workspace: Command) -> Path:
    """Dagster's home after three pulls of one queue, and one of another before them."""
    worked("folding", 1)
    assert workspace("pull").status == 0
    for _ in range(3):
        worked("packing", 1)
        assert workspace("pull", "--queue", "packing").status == 0
    return Path(os.environ["TESSERA_HOME"]) / "dagster"


def files(home: Path, run_id: str) -> list[Path]:
    return [*home.glob(f"history/runs/{run_id}*"), *home.glob(f"storage/{run_id}/**/*")]


def deleted(ended: Any) -> int:
    assert ended.status == 0, ended.err
    count: int = json.loads(ended.out)["runs_deleted"]
    return count


def test_old_runs_go_with_their_files_and_the_last_word_of_each_queue_stays(
    home: Path, workspace: Command
) -> None:
    with instance.instance(home) as dagster:
        newest_first = dagster.get_run_ids()
        assert all(files(home, run_id) for run_id in newest_first)
        before = json.loads(workspace("status", "--json").out)["queues"]

        assert deleted(workspace("compact", "--keep-runs", "0", "--json")) == 2  # packing's first two

        [packing, *gone, folding] = newest_first
        assert set(dagster.get_run_ids()) == {packing, folding}
        assert [file for run_id in gone for file in files(home, run_id)] == []
        assert dagster.all_logs(packing)
    assert json.loads(workspace("status", "--json").out)["queues"] == before
    assert deleted(workspace("compact", "--keep-runs", "0", "--json")) == 0


def test_young_runs_and_those_under_way_stay(home: Path, workspace: Command) -> None:
    assert deleted(workspace("compact", "--keep-runs", "0.5", "--json")) == 0
    with instance.instance(home) as dagster:
        under_way = dagster.get_run_records(limit=2)[1].dagster_run
        dagster.run_storage.handle_run_event(
            under_way.run_id,
            dg.DagsterEvent(dg.DagsterEventType.RUN_START.value, under_way.job_name),
        )
        workspace("compact", "--keep-runs", "0")
        assert dagster.has_run(under_way.run_id)


def test_nothing_is_deleted_unasked(home: Path, workspace: Command) -> None:
    ended = workspace("compact", "--json")
    assert json.loads(ended.out)["runs_deleted"] is None
    with instance.instance(home) as dagster:
        assert len(dagster.get_run_ids()) == 4
