"""Dagster on PostgreSQL by deploy/dagster.yaml: one history for machines that else share the lake alone."""

import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import pairwise
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import dagster as dg
import pytest

from assets import pack, specs
from assets.lake import Lake
from assets.partitions import queues
from pipelines import attached, resources, turns
from pipelines.instance import instance
from pipelines.shared_turns import SharedTurns
from tessera.settings import Settings
from tests.assets.working import work
from tests.deploy.address import DEPLOY, ROOT
from tests.faults.server import until
from tests.pipelines.test_concurrency import at_work
from tests.postgres import Postgres

SPEC = "path_statistics:wilson-grouping:v1"
HOLD = """
import sys, time
from pipelines.resources import turns_of
from tessera.settings import Settings
with turns_of(Settings.from_environment()).take("packing", sys.argv[1]):
    print("held", flush=True)
    time.sleep(60)
"""


def of_dagster(database_url: str) -> dict[str, str]:
    """What deploy/dagster.yaml takes from the environment."""
    parts = urlsplit(database_url)
    return {
        "DAGSTER_PG_HOST": str(parts.hostname),
        "DAGSTER_PG_PORT": str(parts.port),
        "DAGSTER_PG_DATABASE": parts.path.removeprefix("/"),
        "DAGSTER_PG_USER": str(parts.username),
        "DAGSTER_PG_PASSWORD": "any, since the tests' server asks for none: p@ss/wörd%",
    }


class Machine:
    """A home of its own, as on a machine of its own, whose Dagster is configured by the shipped file."""

    def __init__(self, folder: Path, store: Any, database_url: str) -> None:
        self.home = folder
        (folder / "dagster").mkdir(parents=True)
        shutil.copy(DEPLOY / "dagster.yaml", folder / "dagster")
        self.settings = {
            "TESSERA_HOME": str(folder),
            "TESSERA_URL": store.url,
            "TESSERA_KEY": store.admin_key,
            "TESSERA_LAKE": str(folder.parent / "lake"),
            "DAGSTER_HOME": str(folder / "dagster"),
            "DAGSTER_DISABLE_TELEMETRY": "yes",
            **of_dagster(database_url),
        }

    def start(self, *arguments: str, **more: Any) -> subprocess.Popen[str]:
        """A Python process there."""
        environment = {**os.environ, **self.settings, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, *arguments]
        return subprocess.Popen(command, cwd=self.home, env=environment, text=True, **more)

    def turns(self) -> turns.Turns:
        """The turns as its processes have them."""
        return resources.turns_of(Settings.from_environment(self.settings))


@pytest.fixture
def database_of_dagster(postgres: Postgres) -> str:
    """An empty database of a server whose time zone is far from UTC."""
    url = postgres.new_database(empty=True)
    postgres.execute(f"ALTER DATABASE {url.rpartition('/')[2]} SET timezone TO 'America/Los_Angeles'")
    return url


@pytest.fixture
def machines(
    store: Any, database_of_dagster: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> list[Machine]:
    for name, value in of_dagster(database_of_dagster).items():
        monkeypatch.setenv(name, value)
    return [Machine(tmp_path / name, store, database_of_dagster) for name in ("east", "west")]


def rows(postgres: Postgres, url: str, statement: str) -> list[tuple[Any, ...]]:
    return postgres.execute(statement, url.rpartition("/")[2])


def configured(store: Any, tmp_path: Path, queue: str) -> Any:
    client = store.client()
    pack.write(tmp_path / "pack")
    specs.install(client, pack.read(tmp_path / "pack"))
    specs.configure(client, SPEC, queue)
    return client


@pytest.mark.slow
@pytest.mark.timeout(600)  # two starts of Dagster at once, however busy the machine is
def test_two_machines_at_once_on_one_history_and_one_lake_take_turns(
    store: Any, machines: list[Machine], database_of_dagster: str, postgres: Postgres, tmp_path: Path
) -> None:
    """On a database that is still empty, too; and all of the history is in it."""
    client = configured(store, tmp_path, "packing")
    work(client, "packing", "aaf" * 4)

    running = [
        machine.start("-m", "pipelines.workspace", "run", stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        for machine in machines
    ]
    said = [child.communicate(timeout=240) for child in running]

    assert [child.returncode for child in running] == [0, 0], said
    with instance(machines[0].home / "dagster") as history:
        runs = [record.dagster_run for record in history.get_run_records()]
        spans = sorted(at_work(history, run.run_id) for run in runs)
        partitions = history.get_dynamic_partitions(str(queues.name))
    assert [run.status.value for run in runs] == ["SUCCESS"] * 2
    assert all(before[1] <= after[0] for before, after in pairwise(spans))
    found = Lake(str(tmp_path / "lake")).observations("packing", columns=["run_id"])["run_id"]
    assert (len(found), found.n_unique()) == (12, 12)
    assert client.get_record("learn.outputs", f"{SPEC}:packing")["version"] == 1
    assert partitions == ["packing"]
    assert rows(postgres, database_of_dagster, "SELECT partition FROM dynamic_partitions") == [("packing",)]
    assert rows(postgres, database_of_dagster, "SELECT count(*) > 20 FROM event_logs") == [(True,)]
    assert rows(postgres, database_of_dagster, "SELECT count(*) FROM runs") == [(2,)]
    shipped = (DEPLOY / "dagster.yaml").read_bytes()
    for machine in machines:
        assert (machine.home / "dagster" / "dagster.yaml").read_bytes() == shipped
        assert [*machine.home.rglob("*.db")] == []


@pytest.mark.slow
@pytest.mark.timeout(600)  # three starts of Dagster, one after another
def test_the_daemon_launches_a_run_whose_history_is_in_postgresql(
    store: Any, machines: list[Machine], database_of_dagster: str, postgres: Postgres, tmp_path: Path
) -> None:
    machine = machines[0]
    client = configured(store, tmp_path, "packing")
    work(client, "packing", "aaf" * 12)

    with daemon(machine):
        published = until(
            lambda: bool(client.list_records(store="learn.outputs")["items"]), seconds=240, pause=0.1
        )
        ended = until(lambda: statuses(postgres, database_of_dagster) == ["SUCCESS"], seconds=240, pause=0.1)

    assert (published, ended) == (True, True)
    assert client.get_record("learn.outputs", f"{SPEC}:packing")["body"]["window"]["count"] == 36
    (tick,) = rows(postgres, database_of_dagster, "SELECT count(*) FROM job_ticks WHERE status = 'SUCCESS'")
    assert tick[0] >= 1
    assert [*machine.home.rglob("*.db")] == []


@contextmanager
def daemon(machine: Machine) -> Iterator[None]:
    """Dagster's daemon there, which launches runs by itself; nothing of it is left afterwards."""
    child = attached.start(
        "dagster._daemon.cli:main",
        "run",
        "-m",
        "tests.pipelines.quick_workspace",
        env={**machine.settings, "PYTHONPATH": str(ROOT)},
        log=machine.home / "daemon.log",
    )
    with attached.stopping(child):
        yield


def statuses(postgres: Postgres, url: str) -> list[str]:
    return [status for (status,) in rows(postgres, url, "SELECT status FROM runs")]


@contextmanager
def holder(machine: Machine, run_id: str) -> Iterator[subprocess.Popen[str]]:
    """A process of another machine that has the turn of queue packing."""
    with machine.start("-c", HOLD, run_id, stdout=subprocess.PIPE) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == "held\n"
        try:
            yield child
        finally:
            child.kill()


def test_a_run_of_another_machine_is_waited_for_and_not_taken_for_dead(
    machines: list[Machine], monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long ago it began; once its process is gone, so are its turn and, in the history, the run."""
    east, west = machines
    monkeypatch.setattr(turns, "START_SECONDS", 0.0)
    with instance(east.home / "dagster") as history:
        ours = east.turns()
        assert isinstance(ours, SharedTurns)
        run_id = history.create_run_for_job(nothing, status=dg.DagsterRunStatus.STARTED).run_id
        (record,) = history.get_run_records()
        assert abs(record.update_timestamp.timestamp() - time.time()) < 60
        with holder(west, run_id) as child:
            assert ours.alive(run_id) is True
            assert turns.end_left_behind(history, ours) == []
            with pytest.raises(turns.TurnError), ours.take("packing", "next", patience=0.2):
                pytest.fail("two runs have the turn")
            with ours.take("sorting", "other", patience=0.2):
                assert ours.alive("other") is True
            child.send_signal(signal.SIGKILL)
            child.wait()
        with ours.take("packing", "next", patience=5):
            assert turns.end_left_behind(history, ours) == [run_id]
        ended = history.get_run_by_id(run_id)

    assert ended is not None
    assert ended.status.value == "FAILURE"


@dg.job
def nothing() -> None:
    """A job to have runs of."""
