"""Queues spread over the workers of a Dask cluster: the same nouns as from one process, whatever dies."""

import os
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import pack, specs
from assets.lake import Lake
from pipelines import cluster, dispatch
from pipelines.errands import AT_WORK
from pipelines.instance import instance
from pipelines.resources import PARTITION
from pipelines.workspace import run_all
from tessera.client import Client
from tessera.server.serve import Running
from tessera.settings import Settings
from tessera.store import clock
from tests.pipelines.cluster import ROOT, Cluster, Worker, in_parts

QUEUES = [f"queue-{number}" for number in range(int(os.environ.get("CLUSTER_QUEUES", "4")))]  # 4 or more
CALM = QUEUES[: len(QUEUES) // 2]  # those that are done before a worker dies
EACH = 48
METHOD = {"dimension": "method"}
ENTRIES: dict[str, dict[str, Any]] = {
    "memory:minhash-lsh:v1": {},
    "path_statistics:wilson-grouping:v1": {"dimensions": ["category", "method"]},
    "routing_weights:beta-bandit:v1": METHOD,
    "evaluation:off-policy:v1": METHOD,
    "lessons:review-and-learn:v1": {},
}


Nouns = dict[tuple[str, int], tuple[str, dict[str, Any]]]


class Standing:
    """A store's clock that stands still, so that two stores tell the same time; a test moves it."""

    def __init__(self, at: int) -> None:
        self.at = at

    def __call__(self) -> int:
        return self.at


@dataclass(frozen=True)
class Place:
    """A store with its workspace: what commands and workers are given as their environment."""

    client: Client
    clock: Standing
    environment: dict[str, str]

    @property
    def lake(self) -> Lake:
        return Lake(self.environment["TESSERA_LAKE"])

    def run(self, names: Sequence[str], address: str = "", **changed: str) -> list[dict[str, Any]]:
        """`workspace run`, in this process or on the cluster at an address."""
        with self.as_environment(TESSERA_DASK=address, **changed):
            return run_all(Settings.from_environment(), self.client, list(names))

    def select(self, queue: str, address: str, *assets: str) -> set[str]:
        """A run of some assets alone on the cluster, as the sensor starts it; what it made."""
        job = dispatch.WORKSPACE.get_reconstructable_job("workspace")
        keys = [dg.AssetKey(name) for name in assets]
        with (
            self.as_environment(TESSERA_DASK=address),
            instance(Path(self.environment["DAGSTER_HOME"])) as history,
            dg.execute_job(job, history, tags={PARTITION: queue}, asset_selection=keys) as ended,
        ):
            events = [event for event in ended.all_events if event.is_step_materialization]
            return {event.asset_key.to_user_string() for event in events if event.asset_key is not None}

    @contextmanager
    def as_environment(self, **changed: str) -> Iterator[None]:
        with pytest.MonkeyPatch.context() as patch:
            for name, value in {**self.environment, **changed}.items():
                patch.setenv(name, value)
            yield

    def published(self, names: Sequence[str]) -> Nouns:
        """Every version of every noun that learners wrote of these queues."""
        found: Nouns = {}
        for store in ("learn.outputs", "learn.memory"):
            for item in self.client.list_records(store=store, limit=100)["items"]:
                if item["key"].split(":")[3] in names:
                    for version in range(1, item["version"] + 1):
                        noun = self.client.get_record(store, item["key"], version=version)
                        found[item["key"], version] = noun["sha256"], noun["body"]
        return found


def digests(nouns: Nouns) -> dict[tuple[str, int], str]:
    return {name: sha256 for name, (sha256, _) in nouns.items()}


def without_times(nouns: Nouns) -> dict[tuple[str, int], Any]:
    """The same nouns after the clock was moved: a lesson says when it was earned,."""
    return {
        (key, version): {
            **body,
            "entries": [
                {name: value for name, value in one.items() if name not in ("earned_at", "recheck_at")}
                for one in body["entries"]
            ],
        }
        if key.startswith("lessons:")
        else sha256
        for (key, version), (sha256, body) in nouns.items()
    }


@contextmanager
def opened(home: Path, at: int) -> Iterator[Place]:
    """The store of a home under a clock that stands, and an empty workspace beside it."""
    standing = Standing(at)
    with ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        patch.setattr(clock, "_ticks", lambda: 0)  # else the store's time goes on without its clock
        running = stack.enter_context(Running(home, clock=standing, grace_seconds=1.0))
        running.start()
        key = (home / "admin.key").read_text("ascii").strip()
        with Client(running.url, key) as client:
            yield Place(
                client,
                standing,
                {
                    "TESSERA_URL": running.url,
                    "TESSERA_KEY": key,
                    "TESSERA_HOME": str(home / "workspace"),
                    "TESSERA_LAKE": str(home / "lake"),
                    "DAGSTER_HOME": str(home / "dagster"),
                },
            )


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's home with work on every queue, to be copied."""
    folder = tmp_path_factory.mktemp("filled")
    with opened(folder / "home", clock.now()) as place:
        pack.write(folder / "pack")
        specs.install(place.client, pack.read(folder / "pack"))
        for queue in QUEUES:
            for name, options in ENTRIES.items():
                specs.configure(place.client, name, queue, options=options)
            place.client.import_attempts(queue, [attempt(number) for number in range(EACH)])
        drawn(place.client, QUEUES[0], 12)
    return folder / "home"


def attempt(number: int) -> dict[str, Any]:
    """One of two methods is nearly always accepted, the other nearly never."""
    accepted = (number % 2 == 0) != (number % 12 == 0)
    return {
        "source": "past",
        "task_key": f"task {number}",
        "attempt": 1,
        "kind": "verb.pack",
        "problem_text": f"pack the files of folder {number} into one archive",
        "method": "steady" if number % 2 == 0 else "hasty",
        "accepted": accepted,
        "failure_text": None if accepted else "too large",
        "started_at": f"2026-01-02T03:{number:02}:05Z",
    }


def drawn(client: Client, queue: str, count: int) -> None:
    """So many runs whose method the store drew."""
    for number in range(count):
        client.enqueue(queue, "verb.pack", {"title": f"pack {number}"}, max_attempts=1)
        task = client.claim(queue)
        assert task is not None
        arms = [{"arm": "steady", "weight": 0.5}, {"arm": "hasty", "weight": 0.5}]
        arm = client.draw(task["task_id"], task["fence"], "method", arms)["arm"]
        report = {"model": None, "learning": {"path": {"method": arm}}}
        client.submit(task["task_id"], task["fence"], arm == "steady", execution_report=report)


@pytest.fixture(scope="module")
def at(filled: Path) -> int:
    """The moment at which the copies' clocks stand."""
    return clock.now()


@pytest.fixture(scope="module")
def plain(filled: Path, at: int, tmp_path_factory: pytest.TempPathFactory) -> Nouns:
    """What one process publishes."""
    home = tmp_path_factory.mktemp("plain") / "home"
    shutil.copytree(filled, home)
    with opened(home, at) as place:
        outcomes = place.run(QUEUES)
        assert [one["error"] for one in outcomes] == [None] * len(QUEUES)
        return place.published(QUEUES)


@pytest.mark.slow
def test_two_workers_publish_what_one_process_does_and_one_killed_in_mid_work_changes_nothing(
    filled: Path, at: int, plain: Nouns, tmp_path: Path
) -> None:
    shutil.copytree(filled, tmp_path / "home")
    with opened(tmp_path / "home", at) as place, Cluster(tmp_path) as dask:
        with cluster.connected(dask.address) as client, pytest.raises(cluster.ClusterError) as alone:
            cluster.require_workers(client, dask.address, seconds=0.1)
        workers = [dask.add(place.environment) for _ in range(2)]
        with cluster.connected(dask.address) as client:
            wholes = [client.submit(in_parts, 5, pure=False) for _ in workers]
            parts = [cluster.answer(client, whole) for whole in wholes]
        first = place.run(CALM, dask.address)
        told, undisturbed = at_work(place), place.published(CALM)
        doomed = workers[0]
        doomed.stall.touch()
        killer = threading.Thread(target=kill, args=(doomed, place))
        killer.start()
        second = place.run(QUEUES[len(CALM) :], dask.address)
        killer.join()

        selected = place.select(QUEUES[0], dask.address, "observations", "path_scorecard")
        refused = place.run(QUEUES[:1], dask.address, TESSERA_LAKE=str(tmp_path / "other lake"))

        assert selected == {"observations", "path_scorecard"}
        assert parts == [[5, 4, 3, 2, 1]] * 2  # also with every worker's only place taken by whole works
        assert "has no worker: start some with `dask worker tcp://127.0.0.1:" in str(alone.value)
        assert "give all of them the same TESSERA_LAKE" in refused[0]["error"]
        assert [one["error"] for one in first + second] == [None] * len(QUEUES)
        assert sorted({worker for tellings in told.values() for worker in tellings}) == [
            "worker-1",
            "worker-2",
        ]
        assert {len(tellings) for tellings in told.values()} == {1}
        assert sorted(len(tellings) for tellings in at_work(place).values()) == [0, *[1] * len(QUEUES), 2]
        published = place.published(QUEUES)
        assert digests(undisturbed) == {
            name: sha256 for name, sha256 in digests(plain).items() if name[0].split(":")[3] in CALM
        }
        assert without_times(published) == without_times(plain)
        for queue in QUEUES:
            rows = place.lake.observations(queue, columns=["run_id"])["run_id"]
            assert rows.n_unique() == len(rows) == EACH + 12 * (queue == QUEUES[0])
        verbs = [item["server"] for item in place.client.iter_observations("learn.runs")]
        assert {verb["result"] for verb in verbs} == {"accepted"}
        assert sorted(verb["lapsed"] for verb in verbs) == [0] * (len(verbs) - 1) + [1]
        assert sorted(statuses(place)) == ["FAILURE", *["SUCCESS"] * (len(QUEUES) + 1)]  # the refused one


def kill(doomed: Worker, place: Place) -> None:
    """Kill a worker in the middle of a learner's run, and let the lease of its verb lapse."""
    deadline = time.monotonic() + 60
    while not doomed.reached.exists() and time.monotonic() < deadline:
        time.sleep(0.05)
    doomed.kill()
    place.clock.at += 40_000


def at_work(place: Place) -> dict[str, list[str]]:
    """By run, the workers that were at work on it, in order, as the history tells."""
    found = {}
    with instance(Path(place.environment["DAGSTER_HOME"])) as history:
        for record in history.get_run_records():
            run_id = record.dagster_run.run_id
            said = [entry.message for entry in history.all_logs(run_id)]
            found[run_id] = [
                line.removeprefix(AT_WORK).split()[0] for line in said if line.startswith(AT_WORK)
            ]
    return found


def statuses(place: Place) -> list[str]:
    with instance(Path(place.environment["DAGSTER_HOME"])) as history:
        return [record.dagster_run.status.value for record in history.get_run_records()]


def test_a_scheduler_that_does_not_answer_is_said_at_once_and_the_setting_named(
    workspace: Any, worked: Any, environment: Any
) -> None:
    worked("packing", 1)
    environment.setattr(cluster, "CONNECT_SECONDS", 0.5)
    environment.setenv("TESSERA_DASK", "tcp://127.0.0.1:9")

    ended = workspace("run")

    assert ended.status == 1
    [line] = [line for line in ended.err.splitlines() if line.startswith("failed")]
    assert line.startswith("failed no Dask scheduler answers at TESSERA_DASK=tcp://127.0.0.1:9")
    assert line.endswith("start it with `dask scheduler`, or unset TESSERA_DASK to work in this process")


def test_encryption_without_certificates_is_said_at_once(
    workspace: Any, worked: Any, environment: Any
) -> None:
    worked("packing", 1)
    environment.setenv("TESSERA_DASK", "tls://127.0.0.1:9")

    ended = workspace("run")

    assert ended.status == 1
    [line] = [line for line in ended.err.splitlines() if line.startswith("failed")]
    assert line.startswith("failed TESSERA_DASK=tls://127.0.0.1:9 asks for encryption, but Dask has no cert")


def test_a_setting_that_is_no_address_is_refused(workspace: Any, environment: Any) -> None:
    environment.setenv("TESSERA_DASK", "scheduler")

    ended = workspace("run")

    assert ended.status == 1
    assert "TESSERA_DASK must be a scheduler's address such as tcp://host:8786, not 'scheduler'" in ended.err


def test_without_the_setting_dask_is_not_loaded() -> None:
    program = "import sys, pipelines.definitions; sys.exit(bool({'dask', 'distributed'} & set(sys.modules)))"

    assert subprocess.run([sys.executable, "-c", program], cwd=ROOT, check=False).returncode == 0
