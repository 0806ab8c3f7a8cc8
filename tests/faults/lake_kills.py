"""Kills a process that pulls into a lake on S3, at its writes, while the server stays alive; and counts.

    python -m tests.faults.lake_kills --kills 60 [--seed N]

Each round brings new runs, starts a process that pulls (now and then it merges files or rebuilds too) and
kills it with SIGKILL at a random write of an object: one that never arrives, one that was done and not
answered, or one that arrives late, when the next pull is already at work. Then a pull goes on, and
everything is counted from the bytes on the server. What it cannot show is an S3 that loses what it answered.
"""

import argparse
import io
import os
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from pathlib import Path

import polars as pl

from assets.lake import Lake
from assets.pull import pull
from assets.views import LakeConflictError
from tessera.client import Client
from tests.object_store import BUCKET, ObjectStore
from tests.observation_items import observation
from tests.page_store import PageStore

ROOT = Path(__file__).resolve().parents[2]
QUEUE = "packing"
COMMIT_ROWS = 40
MISFIT = 17  # each so many runs is one that belongs in quarantine
WORKER = """
import sys
from assets.lake import Lake
from assets.pull import pull
from assets.rebuild import rebuild
from assets.upkeep import compact
from tessera.client import Client

url, location, queue, rows, deed = sys.argv[1:]
client, lake = Client(url, "secret"), Lake(location)
if deed == "rebuild":
    rebuild(client, lake, queue)
pull(client, lake, queue, page_size=20, commit_rows=int(rows))
if deed == "compact":
    compact(lake, "observations")
"""
ORDERS = {
    "never arrived": {"hold": "before", "status": 500},
    "done, unanswered": {"hold": "after"},
    "arrived late": {"hold": "before"},
}


class Kills:
    """Rounds of kills on one lake; `faults` says what was found wrong, `counts` what was done."""

    def __init__(self, server: ObjectStore, seed: int) -> None:
        self._server = server
        self._chance = random.Random(seed)
        self._place = f"kills-{seed}-{time.time_ns()}"
        self._items = 0
        self.lake = Lake(f"s3://{BUCKET}/{self._place}")
        self.counts: Counter[str] = Counter()
        self.faults: list[str] = []

    def round(self) -> None:
        """One kill, a pull that goes on, and the count."""
        self._items += self._chance.randint(20, 160)
        items = [
            observation(cursor, **({"server__fence": 0} if cursor % MISFIT == 0 else {}))
            for cursor in range(1, self._items + 1)
        ]
        with PageStore(items) as pages, Client(pages.url, "secret") as client:
            how = self._kill(pages.url)
            if how == "arrived late":
                self._late(client)
            else:
                self._server.calm()
                self._pull(client)
        self._audit(how)

    def _kill(self, url: str) -> str:
        """Start a process and kill it at one of its writes; how, or that it was done before."""
        how = self._chance.choice(list(ORDERS))
        deed = self._chance.choice(["pull", "pull", "compact", "rebuild"])
        self._server.order(method="PUT", key=self._place, skip=self._chance.randint(0, 9), **ORDERS[how])
        command = [sys.executable, "-c", WORKER, url, self.lake.location, QUEUE, str(COMMIT_ROWS), deed]
        with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.DEVNULL) as process:
            while process.poll() is None and not self._server.await_held(0.2):
                pass
            if process.poll() is None:
                os.kill(process.pid, signal.SIGKILL)
        if process.returncode != -signal.SIGKILL:
            how = "none: it was done before"
            if process.returncode:
                self.faults.append(f"a {deed} that was not killed ended with {process.returncode}")
        self.counts[how] += 1
        self.counts["kills"] += process.returncode == -signal.SIGKILL
        return how

    def _late(self, client: Client) -> None:
        """Pull on, and let the dead process's last write arrive somewhere in the middle of it."""
        landing = threading.Timer(self._chance.uniform(0.0, 0.4), self._server.calm)
        landing.start()
        self._pull(client)
        landing.join()
        self._pull(client)

    def _pull(self, client: Client) -> None:
        """Pull until it ends: a conflict is a clean end that says to run it again."""
        for _ in range(5):
            try:
                pull(client, self.lake, QUEUE, page_size=20, commit_rows=COMMIT_ROWS)
            except LakeConflictError:
                self.counts["conflicts"] += 1
            else:
                return
        self.faults.append("five pulls in a row ended in a conflict")

    def _audit(self, how: str) -> None:
        """Every run once, the cursor at the newest, and all of it by the bytes that the server holds."""
        rejected = list(range(MISFIT, self._items + 1, MISFIT))
        wanted = [cursor for cursor in range(1, self._items + 1) if cursor % MISFIT]
        for table, expected in (("observations", wanted), ("quarantine", rejected)):
            held = self._bytes(table)
            lost, doubled = sorted(set(expected) - set(held)), len(held) - len(set(held))
            if lost or doubled or len(held) != len(expected):
                self.faults.append(f"{how}: {table} lost {lost[:5]}…, {doubled} doubled, {len(held)} held")
        if self.lake.cursor(QUEUE) != self._items:
            self.faults.append(f"{how}: the cursor is {self.lake.cursor(QUEUE)}, not {self._items}")
        if self.lake.observations(QUEUE, columns=["cursor"])["cursor"].to_list() != wanted:
            self.faults.append(f"{how}: the lake reads other rows than were sent")
        self.counts["rounds"] += 1

    def _bytes(self, table: str) -> list[int]:
        """The cursors of a table's rows, by polars from the objects that the log names."""
        found = self.lake.open(table)
        keys = [uri.removeprefix(f"s3://{BUCKET}/") for uri in found.file_uris()] if found is not None else []
        parts = [pl.read_parquet(io.BytesIO(self._server.read(key)), columns=["cursor"]) for key in keys]
        return sorted(pl.concat(parts)["cursor"].to_list()) if parts else []

    def summary(self) -> str:
        """What was done and found, in a line."""
        told = ", ".join(f"{number} {what}" for what, number in sorted(self.counts.items()))
        return f"{self._items} runs; {told}; {len(self.faults)} faults"


def main() -> int:
    """So many kills; exit status 1 when anything was lost, doubled or unreadable."""
    parser = argparse.ArgumentParser(description="kill a process that pulls into a lake on S3, and count")
    parser.add_argument("--kills", type=int, default=60)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with ObjectStore() as server:
        os.environ.update(server.environment())
        kills = Kills(server, options.seed)
        while kills.counts["kills"] < options.kills and not kills.faults:
            kills.round()
            if kills.counts["rounds"] % 10 == 0:
                print(kills.summary(), flush=True)
        print(kills.summary(), flush=True)
    print("\n".join(kills.faults) or "nothing lost, nothing doubled, every object readable")
    return 1 if kills.faults else 0


if __name__ == "__main__":
    raise SystemExit(main())
