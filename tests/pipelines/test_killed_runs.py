"""A process killed for good in the middle of a learner's run, and what the next one finds and does."""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

from assets import on_demand, pack, specs
from assets.lake import Lake
from pipelines.instance import instance
from tessera.client import Client

ROOT = Path(__file__).parents[2]
NAME = "path_statistics:wilson-grouping:v1"

# a command that says so and stands still: while it learns, or when all is published and nothing submitted
STANDING_STILL = """
import pathlib, sys, time
from learners.path_statistics import PathStatistics
from tessera.client import Client
command, where, reached, *arguments = sys.argv[1:]
def stand(*arguments, **named):
    pathlib.Path(reached).touch()
    time.sleep(300)
if where == "learning":
    PathStatistics.learn = stand
else:
    Client.submit = stand
if command == "workspace":
    from pipelines.workspace import main
else:
    from pipelines.learner import main
sys.argv = [command, *arguments]
main()
"""


QUEUES = ("learning", "submitting")
"""Each of its own name for where its run is killed."""


@pytest.fixture
def client(store: Any, tmp_path: Path, worked: Callable[..., None], environment: Any) -> Client:
    """A store with the scorecard switched on for two queues of five runs each; commands find it."""
    environment.setenv("TESSERA_URL", store.url)
    environment.setenv("TESSERA_KEY", store.admin_key)
    made: Client = store.client()
    pack.write(tmp_path / "pack")
    specs.install(made, pack.read(tmp_path / "pack"))
    for queue in QUEUES:
        specs.configure(made, NAME, queue)
        worked(queue, 5)
    return made


@contextmanager
def killed(folder: Path, where: str, command: str, *arguments: str) -> Iterator[None]:
    """A command, killed in the end once it has come that far."""
    reached = folder / where
    child = subprocess.Popen(
        [sys.executable, "-c", STANDING_STILL, command, where, str(reached), *arguments],
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    yield
    deadline = time.monotonic() + 90
    while not reached.exists() and time.monotonic() < deadline and child.poll() is None:
        time.sleep(0.02)
    child.send_signal(signal.SIGKILL)
    child.wait()
    assert reached.exists(), f"it ended with {child.returncode} before it came so far"


def versions(client: Client) -> dict[str, int]:
    """By queue, the newest version of its scorecard."""
    items = client.list_records(store="learn.outputs")["items"]
    return {item["key"].rpartition(":")[2]: item["version"] for item in items}


def ends(client: Client) -> list[tuple[int, int, str, str]]:
    """Fence, lapsed leases, result and status of each learner run that was submitted."""
    runs = [client.get_execution(item["run_id"]) for item in client.iter_observations("learn.runs")]
    return [
        (one["server"]["fence"], one["server"]["lapsed"], one["server"]["result"], one["output"]["status"])
        for one in runs
    ]


@pytest.mark.parametrize(
    ("where", "published", "status"), [("learning", 0, "published"), ("submitting", 1, "superseded")]
)
def test_a_run_by_hand_that_was_killed_is_done_once_by_the_next(
    client: Client, store: Any, tmp_path: Path, where: str, published: int, status: str
) -> None:
    on_demand.enqueue(client, NAME, where)
    with killed(tmp_path, where, "learner", "run-one"):
        pass
    at_the_kill = versions(client)
    assert on_demand.run_one(client) is None, "its lease still holds"
    store.clock.move(31)

    again = on_demand.run_one(client)

    assert at_the_kill == ({where: 1} if published else {})
    assert again is not None
    assert again.status == status
    assert versions(client) == {where: 1}
    assert ends(client) == [(2, 1, "accepted", status)]
    assert on_demand.run_one(client) is None


@pytest.mark.slow
def test_killed_dagster_runs_are_told_as_failed_and_the_next_publish_and_double_nothing(
    client: Client, workspace: Any, store: Any, tmp_path: Path
) -> None:
    with ExitStack() as beside:
        for queue in QUEUES:
            beside.enter_context(killed(tmp_path, queue, "workspace", "run", "--queue", queue))
    assert versions(client) == {"submitting": 1}
    store.clock.move(31)

    ended = workspace("run")

    assert ended.status == 0, ended
    assert versions(client) == dict.fromkeys(QUEUES, 1)
    lake = Lake(str(tmp_path / "workspace" / "lake"))
    for queue in QUEUES:
        rows = lake.observations(queue, columns=["run_id"])["run_id"]
        assert (len(rows), rows.n_unique()) == (5, 5)
    with instance(tmp_path / "workspace" / "dagster") as history:
        statuses = sorted(record.dagster_run.status.value for record in history.get_run_records())
    assert statuses == ["FAILURE", "FAILURE", "SUCCESS", "SUCCESS"]
    assert ends(client) == [(2, 1, "accepted", "published")]
    # of the other nothing was due any more; whoever takes its verb up finds the noun and ends it
    left = on_demand.run_one(client)
    assert left is not None
    assert left.status == "superseded"
    assert versions(client) == dict.fromkeys(QUEUES, 1)
