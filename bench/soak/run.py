"""One soak from its store to its counts: prepare what is to be there before, load, watch, catch up, count.

Promises that what it starts has ended when it returns, and that counts are taken after the workspace has come
to the store's newest run. The daemon is ended in the middle of its work, as a machine would end it.
"""

import json
import logging
import sqlite3
import subprocess
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from assets.lake import Lake
from bench.soak import past, stage, verdicts
from bench.soak.watch import Watch
from pipelines import attached, instance, workspace
from tessera import Client
from tessera.errors import TesseraError
from tessera.settings import Settings

MARK = "soak.json"
LATE_SECONDS = 120.0
"""How long after the end of the load its processes may go on."""
Told = Callable[[str, float, float | None], None]
"""Is told what is under way, how much of it is done, and of how much, if that is known."""


@dataclass(frozen=True, slots=True)
class Plan:
    """What a soak is: ``rate`` observations a minute, ``old`` ones in all queues, ``live`` queues loaded."""

    seconds: int = 600
    rate: float = 10_000
    old: int = 0
    queues: int = 20
    live: int = 4
    processes: int = 2

    @property
    def names(self) -> list[str]:
        """All queues that hold something."""
        return stage.queue_names(self.queues if self.old else self.live)

    @property
    def loaded(self) -> list[str]:
        """The queues that the load goes to."""
        return stage.queue_names(self.live)

    @property
    def count(self) -> int:
        """How many observations the load offers."""
        return round(self.rate * self.seconds / 60)


def prepare(home: Path, plan: Plan, told: Told) -> dict[str, Any]:
    """Make the home as it is before the load: keys, learners, old observations, all of them learned from.

    A home that was prepared before is taken as it is. Returns how long each part took, in seconds.
    """
    mark = home / MARK
    if mark.exists():
        known: dict[str, Any] = json.loads(mark.read_text("utf-8"))
        if known["old"] != plan.old:
            raise TesseraError(f"{home} was prepared with {known['old']} old observations, not {plan.old}")
        return known
    settings, taken = stage.settings_of(home), {}
    began = time.monotonic()

    def lap(name: str) -> None:
        nonlocal began
        taken[name], began = round(time.monotonic() - began, 1), time.monotonic()

    each = plan.old // len(plan.names) if plan.old else 0
    with stage.store(settings), Client(settings.url, settings.require_key()) as admin:
        if each:
            past.import_blocks(admin, plan.names, min(each, past.BLOCK))
    lap("first blocks by import")
    if each > past.BLOCK:
        past.multiply(
            home / "tessera.db", plan.names, each, lambda done: told("old observations", done, plan.old)
        )
        lap("copies")
    with stage.store(settings), Client(settings.url, settings.require_key()) as admin:
        stage.configure(admin, plan.names, plan.loaded)
        if each:
            learn(settings, admin, plan.names, told)
            lap("pulled and learned")
    known = {"old": plan.old, "queues": len(plan.names), "seconds": taken}
    mark.write_text(json.dumps(known), "utf-8")
    return known


def learn(settings: Settings, admin: Client, queues: Sequence[str], told: Told) -> None:
    """Bring the workspace to the store's newest run, in this process. Raises TesseraError for what failed."""
    for library in ("dagster", "sqlalchemy.pool"):  # what they tell in passing; errors come back as outcomes
        logging.getLogger(library).setLevel(logging.CRITICAL)
    done = 0

    def tell(outcome: dict[str, Any]) -> None:
        nonlocal done
        done += 1
        told("queues learned from", done, len(queues))

    outcomes = workspace.run_all(settings, admin, list(queues), tell=tell)
    failed = [f"{one['queue']}: {one['error']}" for one in outcomes if one["error"] is not None]
    if failed:
        raise TesseraError("; ".join(failed))


def soak(home: Path, plan: Plan, out: Path, told: Told) -> dict[str, Any]:
    """Load, watch, catch up, count; the measurements are in `out`, the counts are returned."""
    out.mkdir(parents=True, exist_ok=True)
    settings = stage.settings_of(home)
    with stage.store(settings) as server, Client(settings.url, settings.require_key()) as admin:
        newest = newest_number(settings)
        secret = stage.worker_key(admin, plan.loaded)
        with stage.daemon(settings) as daemon:
            begin, end, faults = _load(
                settings, plan, secret, out, {"store": [server.pid], "daemon": [daemon.pid]}, told
            )
        began = time.monotonic()
        learn(settings, admin, plan.loaded, told)
        caught_up = time.monotonic() - began
    runs = dagster_runs(settings, begin)
    _lines(out / "runs.jsonl", runs)
    counts = verdicts.count(
        acknowledged(out), in_store(settings, newest, plan.loaded), in_lake(settings, newest, plan.loaded)
    )
    return {
        "plan": asdict(plan),
        "begin": begin,
        "end": end,
        "watch_faults": faults,
        "catching_up_seconds": round(caught_up, 1),
        "counts": asdict(counts),
        "whole_queues": whole(settings, plan.names),
    }


def _load(
    settings: Settings, plan: Plan, secret: str, out: Path, roots: dict[str, list[int]], told: Told
) -> tuple[float, float, list[str]]:
    """Run the load to its end, watched; when it began and ended, and what could not be measured."""
    begin = time.time() + 2.0
    with ExitStack() as stack:
        children: list[subprocess.Popen[bytes]] = []
        for process in range(plan.processes):
            arguments = {
                "begin": begin,
                "every": plan.seconds / plan.count,
                "count": plan.count,
                "process": process,
                "processes": plan.processes,
                "out": out / f"load-{process}.jsonl",
            }
            given = [part for name, value in arguments.items() for part in (f"--{name}", str(value))]
            child = attached.start(
                "bench.soak.load:main",
                *given,
                *plan.loaded,
                env={"TESSERA_URL": settings.url, "TESSERA_KEY": secret},
                log=settings.home / "logs" / f"load-{process}.log",
            )
            stack.enter_context(attached.stopping(child))
            children.append(child)
        roots = {**roots, "load": [child.pid for child in children]}
        with Watch(settings, plan.loaded, roots, out) as watch:
            while any(child.poll() is None for child in children):
                time.sleep(0.2)
                told("load", min(time.time() - begin, plan.seconds), plan.seconds)
                if time.time() > begin + plan.seconds + LATE_SECONDS:
                    break  # what has not been offered by now is told as missing
        for process, child in enumerate(children):
            if child.poll() not in (0, None):
                log = settings.home / "logs" / f"load-{process}.log"
                raise TesseraError(f"a process of the load ended with status {child.returncode}; see {log}")
    return begin, time.time(), watch.faults


def newest_number(settings: Settings) -> int:
    """The number of the store's newest execution."""
    with sqlite3.connect(settings.home / "tessera.db") as database:
        return int(database.execute("SELECT value FROM counters WHERE name = 'executions'").fetchone()[0])


def observations(out: Path) -> list[dict[str, Any]]:
    """What the load's processes wrote, a line an observation."""
    return [
        json.loads(line)
        for file in sorted(out.glob("load-*.jsonl"))
        for line in file.read_text("utf-8").splitlines()
    ]


def acknowledged(out: Path) -> list[str]:
    """The run ids that submits were answered with."""
    return [line["run_id"] for line in observations(out) if "run_id" in line]


def in_store(settings: Settings, after: int, queues: Sequence[str]) -> list[str]:
    """The run ids of the queues' executions after a number."""
    with sqlite3.connect(settings.home / "tessera.db") as database:
        return [
            row[0]
            for queue in queues
            for row in database.execute(
                "SELECT 'run-' || number || '-' || token FROM executions WHERE queue = ? AND number > ?",
                (queue, after),
            )
        ]


def in_lake(settings: Settings, after: int, queues: Sequence[str]) -> list[str]:
    """The run ids of the queues' rows in the lake after a number, each row's."""
    lake = Lake(settings.lake)
    return [
        run for queue in queues for run in lake.observations(queue, after=after, columns=["run_id"])["run_id"]
    ]


def whole(settings: Settings, queues: Sequence[str]) -> list[dict[str, Any]]:
    """For each queue, old ones included: executions of the store, rows of the lake, distinct runs in them."""
    lake, found = Lake(settings.lake), []
    with sqlite3.connect(settings.home / "tessera.db") as database:
        for queue in queues:
            (kept,) = database.execute("SELECT count(*) FROM executions WHERE queue = ?", (queue,)).fetchone()
            rows = lake.observations(queue, columns=["run_id"])["run_id"]
            found.append(
                {"queue": queue, "store": kept, "lake_rows": len(rows), "lake_runs": rows.n_unique()}
            )
    return found


def dagster_runs(settings: Settings, since: float) -> list[dict[str, Any]]:
    """The Dagster runs since a time: what they were for, how they ended, and when."""
    import dagster as dg

    with instance.instance(settings.dagster_home) as history:
        records = history.get_run_records(ascending=True)
        return [
            {
                "asset": record.dagster_run.tags.get("tessera/asset", "workspace run"),
                "queue": record.dagster_run.tags.get("dagster/partition"),
                "status": record.dagster_run.status.value,
                "created": record.create_timestamp.timestamp(),
                "started": record.start_time,
                "ended": record.end_time,
            }
            for record in records
            if isinstance(record, dg.RunRecord) and record.create_timestamp.timestamp() >= since
        ]


def _lines(file: Path, lines: Sequence[dict[str, Any]]) -> None:
    file.write_text("".join(json.dumps(line) + "\n" for line in lines), "utf-8")
