"""A `workspace run` that was killed blocks none that comes after it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import dagster as dg

from pipelines.instance import instance
from pipelines.processes import TAG, alive, end_orphans

ROOT = Path(__file__).parents[2]

# the command, stopped in the middle of a learner's run, with the verb claimed and nothing published
SLOW = """
import os, sys, time, pathlib
from learners.path_statistics import PathStatistics
def learn(self, run, evidence):
    pathlib.Path(os.environ["LEARNING"]).touch()
    time.sleep(120)
PathStatistics.learn = learn
from pipelines.workspace import main
sys.argv[0] = "workspace"
main()
"""


def test_a_run_whose_process_lives_is_left_alone_and_one_whose_process_is_gone_is_told_as_failed(
    tmp_path: Path,
) -> None:
    with instance(tmp_path) as history:
        with alive(tmp_path) as name:
            mine = history.create_run_for_job(
                dg.GraphDefinition("nothing").to_job(), status=dg.DagsterRunStatus.STARTED, tags={TAG: name}
            )
            untouched = end_orphans(history, tmp_path)
        gone = end_orphans(history, tmp_path)

        run = history.get_run_by_id(mine.run_id)
    assert (untouched, gone) == ([], [mine.run_id])
    assert run is not None
    assert run.status is dg.DagsterRunStatus.FAILURE
    assert list((tmp_path / "processes").iterdir()) == []


def test_a_killed_run_is_told_as_failed_and_its_verb_is_done_by_the_next(
    workspace: Any, worked: Any, store: Any, tmp_path: Path
) -> None:
    from assets import pack, specs

    name = "path_statistics:wilson-grouping:v1"
    pack.write(tmp_path / "pack")
    client = store.client()
    specs.install(client, pack.read(tmp_path / "pack"))
    specs.configure(client, name, "packing")
    worked("packing", 5)
    learning = tmp_path / "learning"
    child = subprocess.Popen(
        [sys.executable, "-c", SLOW, "run"],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT), "LEARNING": str(learning)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    deadline = time.monotonic() + 60
    while not learning.exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.1)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert learning.exists()
    store.clock.move(40)  # the killed worker's lease is over

    ended = workspace("run")

    assert ended.status == 0, ended
    assert client.get_record("learn.outputs", f"{name}:packing")["version"] == 1
    runs = [item["server"] for item in client.iter_observations("learn.runs")]
    assert [(run["fence"], run["lapsed"], run["result"]) for run in runs] == [(2, 1, "accepted")]
    with instance(tmp_path / "workspace" / "dagster") as history:
        statuses = sorted(record.dagster_run.status.value for record in history.get_run_records())
    assert statuses == ["FAILURE", "SUCCESS"]
