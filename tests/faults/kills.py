"""Kills a working store with SIGKILL at random moments, restarts it on the same home, and audits it.

    python -m tests.faults.kills --seconds 600 [--database-url postgresql://…] [--seed N]

Rounds of a fleet at work and a few kills, each round audited whole and the earlier ones counted again; prints
kills, acknowledged, lost and doubled. What it cannot show is the loss of power: SIGKILL leaves what was
written to the operating system, so the disk's own promise (``synchronous=FULL``) is outside of this.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.faults.audit import audit
from tests.faults.fleet import Fleet
from tests.faults.ledger import Findings
from tests.faults.server import Server


def rounds(server: Server, *, seconds: float, kills_a_round: int, seed: int, loud: bool = False) -> Findings:
    """Run rounds on a started server until the time is up, at least one; what they found."""
    chance = random.Random(seed)
    total = Findings()
    sizes: dict[str, int] = {}
    end = time.monotonic() + seconds
    number = 0
    while number == 0 or (time.monotonic() < end and not total.sentences):
        number += 1
        total.add(_round(server, f"kills.{seed}.{number}", chance, kills_a_round, sizes))
        total.counts["rounds"] = number
        if loud:
            print(f"{seconds - end + time.monotonic():.0f} s: {total.summary()}", flush=True)
    return total


def _round(server: Server, name: str, chance: random.Random, kills: int, sizes: dict[str, int]) -> Findings:
    fleet = Fleet(server, name, chance.randrange(2**32))
    fleet.start()
    for _ in range(kills):
        time.sleep(chance.uniform(0.05, 1.2))
        server.kill()
        if chance.random() < 0.2:  # die again while still recovering
            server.start(wait=False)
            time.sleep(chance.uniform(0.0, 1.5))
            server.kill()
        server.start()
    time.sleep(0.3)
    fleet.finish()
    findings = audit(server, fleet, chance.randrange(2**32))
    findings.counts["kills"] = kills
    with server.caller() as admin:
        for queue, size in sizes.items():
            held = _count(admin.get("/v1/executions/pending", queue=queue, after="0", cap=10000).json())
            if held != size:
                findings.lost.append(f"queue {queue} had {size} runs and has {held}")
        sizes[name] = _count(admin.get("/v1/executions/pending", queue=name, after="0", cap=10000).json())
    return findings


def _count(pending: dict[str, int]) -> int:
    return int(pending["count"])


def main() -> int:
    """Rounds until the time is up; exit status 1 when something was lost, doubled, half there or wrong."""
    parser = argparse.ArgumentParser(description="kill a working store and look for what is missing")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--kills", type=int, default=6, help="kills in each round")
    parser.add_argument("--database-url")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Path(folder) / "home", database_url=options.database_url) as server,
    ):
        found = rounds(
            server, seconds=options.seconds, kills_a_round=options.kills, seed=options.seed, loud=True
        )
    print("\n".join(found.sentences[:50]) or "nothing lost, nothing doubled, nothing half there")
    return 1 if found.sentences else 0


if __name__ == "__main__":
    raise SystemExit(main())
