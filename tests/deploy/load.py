"""Load through the one address while store processes die, end in order and come back; everything is counted.

    python -m tests.deploy.load --seconds 600 [--seed N]

In each round a fleet of bare HTTP (tests/faults) and workers on ``tessera.Client`` are at work while one
process gets SIGKILL and is started again, and then another SIGTERM. Each round is audited whole. PostgreSQL
and nginx are found and started as the tests do it.
"""

import argparse
import random
import tempfile
import time
from pathlib import Path

from tests.deploy.address import Address
from tests.deploy.workers import Workers
from tests.faults.audit import audit
from tests.faults.fleet import Fleet
from tests.faults.ledger import Findings
from tests.postgres import Postgres


def rounds(address: Address, *, seconds: float, seed: int, loud: bool = False) -> Findings:
    """Run rounds on started stores until the time is up, at least one; what they found."""
    chance = random.Random(seed)
    total = Findings()
    end = time.monotonic() + seconds
    number = 0
    while number == 0 or (time.monotonic() < end and not total.sentences):
        number += 1
        total.add(_round(address, f"address.{seed}.{number}", chance))
        total.counts["rounds"] = number
        if loud:
            print(f"{seconds - end + time.monotonic():.0f} s: {total.summary()}", flush=True)
    return total


def _round(address: Address, name: str, chance: random.Random) -> Findings:
    killed, stopped = chance.sample(address.stores, 2)
    fleet = Fleet(address, name, chance.randrange(2**32))  # type: ignore[arg-type]
    workers = Workers(address, f"{name}.clients")
    fleet.start()
    workers.start()
    try:
        time.sleep(chance.uniform(0.3, 1.0))
        workers.phase = "kill"
        killed.kill()
        time.sleep(chance.uniform(0.0, 0.5))
        killed.start(wait=False)
        time.sleep(0.5)
        workers.phase = "stop"
        assert stopped.stop() == 0
        stopped.start()
        killed.wait_until_ready()
        time.sleep(0.3)
    finally:
        fleet.finish()
        workers.finish()
    found = audit(address, fleet, chance.randrange(2**32))  # type: ignore[arg-type]
    found.add(workers.audit())
    found.counts.update({"kills": 1, "orderly ends": 1})
    return found


def main() -> int:
    """Rounds until the time is up; exit status 1 when something was lost, doubled, half there or wrong."""
    parser = argparse.ArgumentParser(description="load on several stores behind nginx while they come and go")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    print(f"seed {options.seed}", flush=True)
    with tempfile.TemporaryDirectory() as folder, Postgres() as postgres:
        with Address(Path(folder), postgres.new_database(empty=True)) as address:
            found = rounds(address, seconds=options.seconds, seed=options.seed, loud=True)
        print(f"nginx, by status: {statuses(address)}")
    print(
        "\n".join(found.sentences[:50])
        or "nothing lost, nothing doubled, no error that a client should absorb"
    )
    return 1 if found.sentences else 0


def statuses(address: Address) -> dict[str, int]:
    """How often nginx gave each status, and to how many requests more than one process."""
    counts: dict[str, int] = {}
    for line in address.nginx.log("access.log").splitlines():
        _, _, rest = line.rpartition('" ')
        status, _, places = rest.split(" ", 2)
        for name in (status, *(["passed on"] if "," in places else [])):
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items()))


if __name__ == "__main__":
    raise SystemExit(main())
