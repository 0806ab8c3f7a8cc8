"""What is under test: `tessera serve` on a home, the workspace's learners, and the real Dagster daemon.

Promises that everything it starts ends with it. The daemon is Dagster's own, on the workspace as it is, with
the sensors as they are.
"""

import os
import subprocess
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from assets import pack, specs
from pipelines import attached, embedded, instance
from tessera import Client
from tessera.settings import Settings

MEMORY = "memory:minhash-lsh:v1"
LEARNERS: tuple[tuple[str, dict[str, Any]], ...] = (
    (MEMORY, {}),
    ("path_statistics:wilson-grouping:v1", {}),
    ("routing_weights:beta-bandit:v1", {"dimension": "method"}),
    ("evaluation:off-policy:v1", {"dimension": "method"}),
    ("lessons:review-and-learn:v1", {}),
)
"""What is switched on for each queue, with its options."""


def queue_names(count: int) -> list[str]:
    """The names of so many queues."""
    return [f"soak.{number:02d}" for number in range(count)]


def settings_of(home: Path) -> Settings:
    """The settings of everything under one folder, whatever the environment says."""
    for name in [name for name in os.environ if name.startswith("TESSERA_") or name == "DAGSTER_HOME"]:
        del os.environ[name]
    os.environ["TESSERA_HOME"] = str(home)
    port = embedded.free_port(0)
    os.environ["TESSERA_URL"] = f"http://{embedded.LOOPBACK}:{port}"
    return Settings.from_environment()


@contextmanager
def store(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """The store, until the block ends."""
    log = settings.home / "logs" / "store.log"
    child = embedded.serve(settings.home, embedded.port_of(settings.url), log)
    with attached.stopping(child):
        embedded.await_start(settings, child, str(log))
        yield child


def configure(admin: Client, queues: Sequence[str], live: Sequence[str]) -> None:
    """Install the specs and switch the learners on for the queues, shown to their readers.

    The memory is for the live queues alone: it indexes 2,000 runs at a time, and millions of old ones would
    take longer than everything else here.
    """
    specs.install(admin, [pack.noun(name, spec) for name, spec in pack.SPECS.items()])
    for queue in queues:
        for spec, options in LEARNERS:
            if spec != MEMORY or queue in live:
                specs.configure(admin, spec, queue, surface=True, options=options)


def worker_key(admin: Client, queues: Sequence[str]) -> str:
    """The secret of a key that may enqueue and work on the queues, and nothing else."""
    return str(admin.create_key("soak-worker", ["write", "work"], list(queues))["secret"])


@contextmanager
def daemon(settings: Settings) -> Iterator[subprocess.Popen[bytes]]:
    """Dagster's daemon on the workspace, until the block ends."""
    home = instance.prepare(settings.dagster_home)
    with instance.instance(home):
        pass  # makes its tables, so that nobody trips over another's making them
    child = attached.start(
        "bench.soak.stage:dagster_daemon",
        "run",
        "-w",
        "workspace.yaml",
        "--log-level",
        "warning",
        "--log-format",
        "json",
        env={"DAGSTER_HOME": str(home), "DAGSTER_DISABLE_TELEMETRY": "yes"},
        log=settings.home / "logs" / "daemon.log",
    )
    with attached.stopping(child):
        yield child


def dagster_daemon() -> int:
    """Dagster's own command line for its daemon, as the child's entry point; as low in rank as in the UI."""
    attached.step_back()
    warnings.simplefilter("ignore")
    from dagster._daemon.cli import main as daemon_main

    daemon_main()  # type: ignore[no-untyped-call] # a plain function without annotations
    return 0
