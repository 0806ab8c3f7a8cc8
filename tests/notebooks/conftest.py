"""A home with real runs, scorecards, an index and a lesson, and the notebooks run on it as a person would."""

import os
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import dagster as dg
import pytest

from assets import specs
from assets.lake import Lake
from assets.pull import pull
from tessera.client import Client
from tessera.server.serve import Running
from tests.assets.learned import Workspace, failure
from tests.assets.learning import install

ROOT = Path(__file__).parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.py"))
QUEUE = "demo.pack"
HOSTILE = "<script>document.title = 'stored text ran'</script> **bold** [a](http://example.invalid/x)"


@dataclass(frozen=True)
class Home:
    """A filled home, its store, and the environment in which a person's commands find them."""

    folder: Path
    client: Client
    workspace: Workspace
    environment: dict[str, str]

    @property
    def lake(self) -> Lake:
        """The home's lake."""
        return self.workspace.lake

    def run(self, queue: str, *assets: str) -> dg.ExecuteInProcessResult:
        """Pull a queue, and learn and publish these assets of it."""
        pull(self.client, self.lake, queue)
        result = self.workspace.materialize(*assets, queue=queue)
        assert result.success, failure(result)
        return result


def bytecode() -> dict[str, str]:
    """Where compiled modules are kept, if not beside the sources: else each process would compile them."""
    name = "PYTHONPYCACHEPREFIX"
    return {name: os.environ[name]} if name in os.environ else {}


def environment(home: Path, url: str, key: str) -> dict[str, str]:
    """Nothing of ours but the path: a clean environment."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(home),
        "PYTHONPATH": str(ROOT),
        **bytecode(),
        "MARIMO_SKIP_UPDATE_CHECK": "1",
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "TESSERA_HOME": str(home),
        "TESSERA_URL": url,
        "TESSERA_KEY": key,
    }


def work(client: Client, queue: str, count: int) -> None:
    """So many runs: method ``fast`` is mostly accepted, ``slow`` mostly not, and three are of another."""
    for number in range(count):
        fast = number % 2 == 1
        client.enqueue(queue, "verb.pack", {"title": f"pack library {number % 7} tightly"}, max_attempts=1)
        task = client.claim(queue)
        assert task is not None
        ok = number % 20 != 1 if fast else number % 4 == 0
        method = HOSTILE if number in (2, 4, 6) else "fast" if fast else "slow"
        client.submit(
            task["task_id"],
            task["fence"],
            ok,
            failure=None if ok else f"timeout after {number} s {HOSTILE}",
            execution_report={"model": None, "learning": {"path": {"method": method}}},
        )


@pytest.fixture(scope="session")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Home]:
    """84 runs of one queue and all that is learned from them, in a path with a space and an umlaut."""
    folder = tmp_path_factory.mktemp("notebooks") / "das Büro"
    with Running(folder, grace_seconds=1.0) as running:
        running.start()
        key = (folder / "admin.key").read_text("ascii").strip()
        with Client(running.url, key) as client, dg.DagsterInstance.ephemeral() as instance:
            install(client, folder / "pack")
            work(client, QUEUE, 84)
            dimensions = {"dimensions": ["category", "method"]}
            specs.configure(client, "path_statistics:wilson-grouping:v1", QUEUE, options=dimensions)
            specs.configure(client, "memory:minhash-lsh:v1", QUEUE)
            specs.configure(client, "lessons:review-and-learn:v1", QUEUE)
            workspace = Workspace(client, folder, instance)
            filled = Home(folder, client, workspace, environment(folder, running.url, key))
            filled.run(QUEUE, "path_scorecard", "memory_index", "lessons")
            yield filled


def started(arguments: list[str], cwd: Path, env: dict[str, str]) -> subprocess.Popen[str]:
    """A Python with these arguments, its output kept."""
    return subprocess.Popen(
        [sys.executable, *arguments],
        cwd=cwd,
        env=env,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="session")
def exported(home: Home, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """All notebooks exported twice at once: from the project, and from another folder without caches."""
    first, second = (tmp_path_factory.mktemp(name) for name in ("first", "second"))
    bare = {**home.environment, "HOME": str(second), "XDG_CACHE_HOME": str(second / "cache")}
    html = ["-m", "pipelines.notebooks", "html", "--output"]
    running = [
        started([*html, str(first / "pages")], ROOT, home.environment),
        started([*html, str(second / "pages")], second, bare),
    ]
    for process in running:
        out, err = process.communicate(timeout=240)
        assert process.returncode == 0, out + err
    return first / "pages", second / "pages"
