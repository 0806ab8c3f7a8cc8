"""Measures while the load runs: memory and processor time by role, sizes, and how far each reader is behind.

Reads the store's file and the lake beside their owners, so that the store answers nothing for it. Once a
second what is cheap, every few seconds the lag and the sizes of folders. Leaves out judging
(`bench.soak.verdicts`).
"""

import json
import os
import sqlite3
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any

import psutil

from assets.lake import Lake
from bench.soak.stage import LEARNERS
from learners.contract import Scope
from learners.registry import load
from tessera.settings import Settings

EVERY_SECONDS = 1.0
LAG_EVERY = 5
"""How many samples apart the lag is measured."""
LAKE = "lake"


class Watch:
    """Samples in two files of a folder, `machine.jsonl` and `lag.jsonl`, until the block ends.

    `roots` are the processes that were started, by role; what Dagster's daemon starts is told apart here.
    """

    def __init__(
        self, settings: Settings, queues: Sequence[str], roots: Mapping[str, Sequence[int]], out: Path
    ) -> None:
        self._settings, self._queues, self._roots = settings, queues, roots
        self._machine = (out / "machine.jsonl").open("w", buffering=1)
        self._lag = (out / "lag.jsonl").open("w", buffering=1)
        self._seen: dict[tuple[int, float], tuple[str, float]] = {}
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch")
        self.faults: list[str] = []

    def __enter__(self) -> "Watch":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        self._thread.join()
        self._machine.close()
        self._lag.close()

    def _run(self) -> None:
        database = sqlite3.connect(f"{(self._settings.home / 'tessera.db').as_uri()}?mode=ro", uri=True)
        lake, number, due = Lake(self._settings.lake), 0, time.monotonic()
        while not self._stop.is_set():
            try:
                sample = self._sample()
                if number % LAG_EVERY == 0:
                    sample |= sizes(self._settings)
                    for line in lags(database, lake, self._queues):
                        self._lag.write(json.dumps(line) + "\n")
                self._machine.write(json.dumps(sample) + "\n")
            except (
                psutil.Error,
                OSError,
                sqlite3.Error,
            ) as error:  # a process or a file went while it was read
                self.faults.append(f"{type(error).__name__}: {error}")
            number, due = number + 1, due + EVERY_SECONDS
            self._stop.wait(max(0.0, due - time.monotonic()))
        database.close()

    def _sample(self) -> dict[str, Any]:
        memory: dict[str, int] = {}
        processes: dict[str, int] = {}
        for role, process in self._processes():
            with process.oneshot():
                spent = sum(process.cpu_times()[:2])
                memory[role] = memory.get(role, 0) + process.memory_info().rss
                processes[role] = processes.get(role, 0) + 1
                self._seen[process.pid, process.create_time()] = (role, spent)
        cpu: dict[str, float] = {}
        for role, spent in self._seen.values():
            cpu[role] = round(cpu.get(role, 0.0) + spent, 2)
        log = self._settings.home / "tessera.db-wal"
        return {
            "at": round(time.time(), 3),
            "rss": memory,
            "processes": processes,
            "cpu_seconds": cpu,
            "load": os.getloadavg()[0],
            "database": (self._settings.home / "tessera.db").stat().st_size,
            "wal": log.stat().st_size if log.exists() else 0,
        }

    def _processes(self) -> Iterator[tuple[str, psutil.Process]]:
        for role, pids in self._roots.items():
            for pid in pids:
                if not psutil.pid_exists(pid):
                    continue
                root = psutil.Process(pid)
                yield role, root
                for child in root.children(recursive=True):
                    try:
                        yield told_apart(role, child.cmdline()), child
                    except psutil.NoSuchProcess:
                        continue


def told_apart(role: str, command: Sequence[str]) -> str:
    """What a process that one of ours started is, by its command line."""
    if role != "daemon":
        return role
    line = " ".join(command)
    if "api grpc" in line or "code-server" in line:
        return "code server"
    if "spawn_main" in line or "execute_run" in line:
        return "runs"
    return role


def sizes(settings: Settings) -> dict[str, int]:
    """Files and bytes of the lake and of Dagster's history."""
    found: dict[str, int] = {}
    for name, folder in (("lake", Path(settings.lake)), ("dagster", settings.dagster_home)):
        stats = [_size(Path(base) / file) for base, _, files in os.walk(folder) for file in files]
        found[f"{name}_files"], found[f"{name}_bytes"] = len(stats), sum(stats)
    return found


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def lags(database: sqlite3.Connection, lake: Lake, queues: Sequence[str]) -> Iterator[dict[str, Any]]:
    """For each queue, how many of its runs lie after the lake's cursor and after each learner's."""
    table = lake.open("observations")
    for queue in queues:
        cursors = {LAKE: 0 if table is None else table.transaction_version(queue) or 0}
        cursors |= {spec: cursor_of(database, spec, options, queue) for spec, options in LEARNERS}
        for reader, cursor in cursors.items():
            yield {
                "at": round(time.time(), 3),
                "queue": queue,
                "reader": reader,
                "lag": after(database, queue, cursor),
            }


def cursor_of(database: sqlite3.Connection, spec: str, options: Mapping[str, Any], queue: str) -> int:
    """The cursor of a learner's state noun; 0 while there is none."""
    place = load(spec).state_key(Scope(queue), options)
    row = database.execute(
        "SELECT body FROM records WHERE store = ? AND key = ? ORDER BY version DESC LIMIT 1", place
    ).fetchone()
    return 0 if row is None else int(json.loads(row[0])["cursor"])


def after(database: sqlite3.Connection, queue: str, cursor: int) -> int:
    """How many executions of a queue lie after a cursor."""
    counted = database.execute(
        "SELECT count(*) FROM executions WHERE queue = ? AND number > ?", (queue, cursor)
    )
    return int(counted.fetchone()[0])
