"""Dagster's home: made on demand, with telemetry off and limits that SQLite carries.

Promises to leave a `dagster.yaml` that is there alone. Leaves out what runs in it.
"""

import fcntl
import os
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dagster import DagsterInstance

MOST_RUNS = 4
RUNS = max(1, min(MOST_RUNS, (os.cpu_count() or 2) - 1))
"""Dagster runs at a time: each keeps a core busy, and one is left to the store and its workers."""
CONFIG = f"""\
# Written once by the workspace; yours to change.
telemetry:
  enabled: false
nux:
  enabled: false

# The history is a SQLite file: few writers at once, and no two runs of one queue side by side.
concurrency:
  runs:
    max_concurrent_runs: {RUNS}
    tag_concurrency_limits:
      - key: dagster/partition
        value:
          applyLimitPerUniqueValue: true
        limit: 1
"""


def prepare(home: Path) -> Path:
    """Make Dagster's home and its configuration where they are absent; returns the home."""
    home.mkdir(parents=True, exist_ok=True)
    config = home / "dagster.yaml"
    if not config.exists():
        fresh = home / f".dagster.yaml.{os.getpid()}"
        fresh.write_text(CONFIG, "utf-8")
        fresh.replace(config)  # whole or absent, also for a second command that starts now
    os.environ.setdefault("DAGSTER_DISABLE_TELEMETRY", "yes")
    return home


def instance(home: Path) -> "DagsterInstance":
    """The instance of a home, made if it is not there."""
    from dagster import DagsterInstance

    prepare(home)
    # its tables are made when it is first opened; two that make them at once trip over each other
    with (home / ".opening").open("ab") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        return DagsterInstance.from_config(str(home))
