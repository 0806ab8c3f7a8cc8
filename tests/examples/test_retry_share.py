"""The learner of another package: installed beside the project, found, run, published all the same."""

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets.lake import Lake
from assets.other_learners import other_learners
from assets.partitions import queues
from assets.pull import pull
from tessera.client import Client
from tests.assets.working import work

NAME = "retries:share-of-runs:v1"
SOURCE = Path(__file__).parents[2] / "examples" / "retry_share"
Command = Callable[..., Any]


@pytest.fixture
def site(tmp_path: Path) -> Path:
    """A folder for packages with the example installed in it, metadata and all."""
    copy, site = tmp_path / "retry_share", tmp_path / "site"
    shutil.copytree(SOURCE, copy)
    offline = ("--offline", "--no-deps", "--no-build-isolation", "--python", sys.executable)
    subprocess.run(
        [sys.executable, "-m", "uv", "pip", "install", "-q", *offline, "--target", str(site), str(copy)],
        check=True,
    )
    return site


@pytest.fixture
def learner(store: Any, site: Path, tmp_path: Path) -> Command:
    """The `learner` command of a person who has installed the package."""

    def run(*arguments: str) -> Any:
        ended = subprocess.run(
            [sys.executable, "-m", "pipelines.learner", *arguments, "--json"],
            capture_output=True,
            text=True,
            cwd=SOURCE.parents[1],
            env={
                "TESSERA_URL": store.url,
                "TESSERA_KEY": store.admin_key,
                "PYTHONPATH": ":".join([str(site), *(path for path in sys.path if path)]),
                "HOME": str(tmp_path),
            },
        )
        assert ended.returncode == 0, ended.stderr
        return json.loads(ended.stdout)

    return run


def test_it_is_about_thirty_lines() -> None:
    lines = (SOURCE / "retry_share.py").read_text("utf-8").splitlines()

    assert len([line for line in lines if line.strip() and not line.strip().startswith('"""')]) <= 36


def test_it_is_found_previewed_enqueued_run_and_published(
    learner: Command, store: Any, tmp_path: Path
) -> None:
    with Client(store.url, store.admin_key) as admin:
        work(admin, "q", "aaf")
        listed = learner("specs")["others"]
        learner("pack", "--output", str(tmp_path / "pack"), "--spec", NAME)
        learner("install", str(tmp_path / "pack"))
        learner("configure", NAME, "--queue", "q", "--surface")
        previewed = learner("preview", NAME, "--queue", "q")["nouns"]
        asked = learner("enqueue", NAME, "--queue", "q")["runs"]
        ran = learner("run-one")["run"]

        record = store.client(["read"], ["q"]).get_record("learn.outputs", f"{NAME}:q")

    assert listed == [NAME]
    assert (asked[0]["task_id"], asked[0]["reason"]) == (ran["task_id"], "new observations")
    assert (ran["status"], ran["records"][0]["sha256"]) == ("published", record["sha256"])
    assert record["body"]["kinds"] == [{"kind": "verb.a", "runs": 3, "retries": 0}]
    assert record["body"] == previewed[0]["body"]
    assert record["tags"] == [NAME, "queue:q"]


def test_the_workspace_runs_it_with_the_others(
    learner: Command, store: Any, site: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.syspath_prepend(str(site))
    learner("pack", "--output", str(tmp_path / "pack"), "--spec", NAME)
    learner("install", str(tmp_path / "pack"))
    learner("configure", NAME, "--queue", "q")
    with Client(store.url, store.admin_key) as admin, dg.DagsterInstance.ephemeral() as instance:
        work(admin, "q", "aa")
        lake = Lake(str(tmp_path / "lake"))
        pull(admin, lake, "q")
        instance.add_dynamic_partitions(str(queues.name), ["q"])

        result = dg.materialize(
            [other_learners], partition_key="q", instance=instance, resources={"store": admin, "lake": lake}
        )

        record = admin.get_record("learn.outputs", f"{NAME}:q")
    (made,) = result.asset_materializations_for_node("other_learners")
    assert made.tags is not None
    assert made.tags["dagster/data_version"] == record["sha256"]
    assert [one.passed for one in result.get_asset_check_evaluations()] == [True]
