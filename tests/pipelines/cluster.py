"""A Dask scheduler and its workers as processes of this machine, each with a folder and a home of its own."""

import os
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType

from pipelines import embedded
from pipelines.cluster import mapper

ROOT = Path(__file__).parents[2]
LOCKS = "DASK_DISTRIBUTED__SCHEDULER__LOCKS__LEASE_"
SOON = {f"{LOCKS}TIMEOUT": "3s", f"{LOCKS}VALIDATION_INTERVAL": "1s"}  # how long a dead worker keeps a turn

# what a worker loads first: while its file is there, a learner of its stops in the middle of its work
STALLS = """
import os, pathlib, time
from learners.path_statistics import PathStatistics
def stalling(self, run, evidence, learn=PathStatistics.learn):
    stall = pathlib.Path(os.environ["STALL"])
    while stall.exists():
        stall.with_suffix(".reached").touch()
        time.sleep(0.1)
    return learn(self, run, evidence)
if PathStatistics.learn.__name__ != "stalling":
    PathStatistics.learn = stalling
"""


@dataclass(frozen=True)
class Worker:
    """A worker's process; while `stall` exists its scorecards do not end, and `reached` says one began."""

    process: subprocess.Popen[bytes]
    stall: Path

    @property
    def reached(self) -> Path:
        return self.stall.with_suffix(".reached")

    def kill(self) -> None:
        """What a power cut does to it."""
        self.process.kill()
        self.process.wait()


def in_parts(count: int) -> list[int]:
    """A work that divides itself by `mapper`, wherever it is done."""
    return list(mapper()(abs, range(-count, 0)))


class Cluster:
    """A scheduler on a free port, and as many workers as were added; all end with the block."""

    def __init__(self, folder: Path) -> None:
        self.address = f"tcp://{embedded.LOOPBACK}:{embedded.free_port(0)}"
        self._folder = folder
        self._children: list[subprocess.Popen[bytes]] = []
        (folder / "stalls.py").write_text(STALLS)
        self._start("scheduler", {}, "--port", self.address.rpartition(":")[2])

    def add(self, environment: Mapping[str, str]) -> Worker:
        """One more worker, in a folder and with a home of its own."""
        name = f"worker-{len(self._children)}"
        stall = self._folder / f"{name}.stall"
        own = {"TESSERA_HOME": str(self._folder / name / "home"), "STALL": str(stall)}
        arguments = (self.address, "--nthreads", "1", "--no-nanny", "--name", name)
        preload = ("--preload", str(self._folder / "stalls.py"))
        return Worker(self._start("worker", {**environment, **own}, *arguments, *preload), stall)

    def _start(self, role: str, environment: Mapping[str, str], *arguments: str) -> subprocess.Popen[bytes]:
        folder = self._folder / f"{role}-{len(self._children)}"
        folder.mkdir()
        kept = {
            name: value for name, value in os.environ.items() if not name.startswith(("TESSERA_", "DAGSTER_"))
        }
        program = [sys.executable, "-m", f"distributed.cli.dask_{role}"]
        with (folder / "log").open("wb") as log:
            child = subprocess.Popen(
                [*program, "--host", embedded.LOOPBACK, "--no-dashboard", *arguments],
                cwd=folder,
                env={**kept, **SOON, "PYTHONPATH": str(ROOT), **environment},
                stdout=log,
                stderr=log,
            )
        self._children.append(child)
        return child

    def __enter__(self) -> "Cluster":
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for child in reversed(self._children):
            child.kill()
            child.wait()
