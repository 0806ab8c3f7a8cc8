"""The load: one process of workers that enqueue, claim, draw and submit with a report, at an even pace.

Each observation has its time, set before the load began; a worker that is late begins at once and says how
late it was. So the rate offered does not follow the rate that the store can take, and what is measured
includes the waiting. One JSON line an observation, acknowledged or not.
"""

import argparse
import json
import random
import threading
import time
from pathlib import Path
from typing import Any, TextIO

from tessera import Client
from tessera.errors import TesseraError

KINDS = tuple(f"verb.pack.{sort}" for sort in ("logs", "images", "tables", "sources", "mixed"))
METHODS = {"zlib-1": 0.55, "zlib-9": 0.62, "bz2-9": 0.66, "lzma-6": 0.78}
"""By method, how often its runs are accepted."""
_WORDS = (
    "pack the weekly archive of the folder and keep the order of its files under one second measure "
    "size budget codec level entropy native text binary report stream block window dictionary checksum"
)
LEASE_SECONDS = 120
PROBLEMS = 500


def problem(number: int) -> str:
    """The text of one of PROBLEMS problems."""
    draw, words = random.Random(number % PROBLEMS), _WORDS.split()
    return f"pack part {number % PROBLEMS}: " + " ".join(draw.choice(words) for _ in range(24))


def brief(number: int) -> dict[str, Any]:
    """What a task asks for."""
    return {
        "template": f"pack-{number % 7}",
        "problem": problem(number),
        "budget": {"bytes": 1000 + number % 97, "seconds": 1.5},
    }


def outcome(number: int, method: str) -> dict[str, Any]:
    """How a run by a method went: what a worker submits beside the fence."""
    coin = random.Random(number * 7919 + 13)
    ok = coin.random() < METHODS[method]
    seconds = round(0.1 + coin.random(), 3)
    report = {
        "summaries": {"problem": problem(number), "solution": f"{method} over the whole folder"},
        "harness": "soak",
        "model": None,
        "usage": {
            "input_tokens": 900 + number % 200,
            "output_tokens": 120,
            "total_tokens": 1020 + number % 200,
        },
        "learning": {
            "outcome": "succeeded" if ok else "failed",
            "went_right": ["measured before choosing"],
            "went_wrong": [] if ok else ["the budget of bytes was crossed"],
            "path": {"shim": "none", "method": method},
            "reasoning_summary": "Tried what the draw said and held it against the budget.",
            "duration_seconds": seconds,
            "cost": {"amount": round(seconds / 900, 6), "currency": "EUR", "source": "soak"},
        },
    }
    failure = None if ok else f"{1000 + number % 97} bytes allowed, {1000 + number % 331} needed"
    output = {"bytes": 700 + number % 331} if ok else None
    return {"ok": ok, "failure": failure, "output": output, "execution_report": report}


class Worker:
    """One worker: its share of the observations, in turn over the queues."""

    def __init__(self, client: Client, queues: list[str], out: TextIO, lock: threading.Lock) -> None:
        self._client, self._queues, self._out, self._lock = client, queues, out, lock

    def work(self, begin: float, first: int, step: int, every: float, count: int) -> None:
        """Do the observations `first`, `first + step`, … below `count`; n is due at begin + n * every."""
        for number in range(first, count, step):
            due = begin + number * every
            time.sleep(max(0.0, due - time.time()))
            line = {"number": number, "late": round(max(0.0, time.time() - due), 4)}
            try:
                line |= self._one(number, self._queues[number % len(self._queues)])
            except TesseraError as error:
                line["error"] = f"{type(error).__name__}: {error}"[:300]
            line["at"] = round(time.time(), 3)
            with self._lock:
                self._out.write(json.dumps(line) + "\n")

    def _one(self, number: int, queue: str) -> dict[str, Any]:
        taken: dict[str, Any] = {"queue": queue}
        clock = time.perf_counter()

        def lap(name: str) -> None:
            nonlocal clock
            now = time.perf_counter()
            taken[name], clock = round(now - clock, 5), now

        self._client.enqueue(queue, KINDS[number % len(KINDS)], brief(number))
        lap("enqueue")
        task = self._client.claim(queue, lease_seconds=LEASE_SECONDS)
        lap("claim")
        if task is None:
            return {**taken, "error": "nothing to claim"}
        arms = [{"arm": arm, "weight": 1 / len(METHODS)} for arm in METHODS]
        drawn = self._client.draw(task["task_id"], task["fence"], "method", arms)
        lap("draw")
        went = outcome(number, drawn["arm"])
        receipt = self._client.submit(task["task_id"], task["fence"], went.pop("ok"), **went)
        lap("submit")
        return {**taken, "run_id": receipt["run_id"]}


def main() -> None:
    """Work until this process's share is done. TESSERA_URL and TESSERA_KEY say where."""
    parser = argparse.ArgumentParser()
    for name, kind in (
        ("begin", float),
        ("every", float),
        ("count", int),
        ("process", int),
        ("processes", int),
    ):
        parser.add_argument(f"--{name}", type=kind, required=True)
    parser.add_argument("--threads", type=int, default=16)
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("queues", nargs="+")
    given = parser.parse_args()
    step, lock = given.processes * given.threads, threading.Lock()
    with Client() as client, given.out.open("w", buffering=1 << 12) as out:
        threads = [
            threading.Thread(
                target=Worker(client, given.queues, out, lock).work,
                args=(given.begin, given.process * given.threads + place, step, given.every, given.count),
            )
            for place in range(given.threads)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
