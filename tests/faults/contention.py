"""Concurrent compare-and-swap writers and readers on few keys, recorded, and judged by their histories.

    python -m tests.faults.contention --seconds 600 [--database-url postgresql://…]

Every answer is put to use: an acknowledged batch wrote its versions, a refused one read the versions that it
names as conflicts and, for its other keys, the versions it expected. The bodies say who wrote them, so that a
write without an answer is found in the records afterwards or did not happen.
"""

import argparse
import random
import tempfile
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx

from tests.faults.histories import Operation, faults
from tests.faults.server import Caller, Server

STORE = "faults.cas"


@dataclass
class Attempt:
    """One batch or read as sent: ``expected`` by key for a batch, the key alone for a read."""

    name: str
    expected: dict[str, int]
    write: bool
    sent: float
    answered: float = float("inf")
    answer: httpx.Response | None = None


@dataclass
class Contention:
    """A recorded run: its attempts, and what the store holds at the end (key → writer's name by version)."""

    attempts: list[Attempt] = field(default_factory=list)
    chains: dict[str, list[str]] = field(default_factory=dict)
    unexpected: list[str] = field(default_factory=list)

    def counts(self) -> dict[str, int]:
        """Answers by what they mean."""
        return dict(Counter(_meaning(attempt) for attempt in self.attempts))

    def faults(self) -> list[str]:
        """Everything wrong with the run; empty when it was strictly serializable and whole."""
        history: list[Operation] = []
        found = list(self.unexpected)
        held: dict[str, dict[str, int]] = {}
        for key, chain in self.chains.items():
            for version, name in enumerate(chain, start=1):
                held.setdefault(name, {})[key] = version
        for attempt in self.attempts:
            if not attempt.write:
                history.append(self._seen(attempt))
                continue
            there = held.pop(attempt.name, {})
            due = {key: version + 1 for key, version in attempt.expected.items()}
            if attempt.answer is not None and attempt.answer.status_code == 409:
                history.append(_refused(attempt, found))
                due = {}
            if there != due and (there or attempt.answer is not None):
                found.append(f"{attempt.name}: {_meaning(attempt)}, due {due}, the store holds {there}")
            if there:
                history.append(Operation(attempt.name, attempt.sent, attempt.answered, wrote=there))
        found += [f"{name} holds {there}, but nobody sent it" for name, there in held.items()]
        return found + faults(history)

    def _seen(self, attempt: Attempt) -> Operation:
        (key,) = attempt.expected
        version = 0
        if attempt.answer is not None and attempt.answer.status_code == 200:
            record = attempt.answer.json()
            version = record["version"]
            if self.chains[key][version - 1 : version] != [record["body"]["by"]]:
                self.unexpected.append(f"{attempt.name}: version {version} of {key} was rewritten")
        return Operation(attempt.name, attempt.sent, attempt.answered, read={key: version})


def _meaning(attempt: Attempt) -> str:
    if attempt.answer is None:
        return "unanswered"
    if not attempt.write:
        return "read"
    return "conflict" if attempt.answer.status_code == 409 else "written"


def _refused(attempt: Attempt, found: list[str]) -> Operation:
    assert attempt.answer is not None
    conflicts = attempt.answer.json().get("conflicts", [])
    seen = dict(attempt.expected)
    keys = list(attempt.expected)
    for conflict in conflicts:
        seen[keys[conflict["index"]]] = conflict["current_version"]
    if not conflicts or any(seen[keys[c["index"]]] == attempt.expected[keys[c["index"]]] for c in conflicts):
        found.append(f"{attempt.name}: refused although nothing differs: {attempt.answer.text}")
    return Operation(attempt.name, attempt.sent, attempt.answered, read=seen)


def contend(
    *servers: Server, seconds: float, writers: int = 8, keys: int = 4, prefix: str, seed: int
) -> Contention:
    """Let ``writers`` threads write and read for ``seconds`` and read back what the store holds.

    With several servers, which are of one store, the writers spread over them.
    """
    run = Contention()
    stop = time.monotonic() + seconds
    names = [f"{prefix}.k{number}" for number in range(keys)]
    secret = servers[0].key()
    threads = [
        threading.Thread(
            target=_writer,
            args=(run, servers[n % len(servers)], secret, names, f"{prefix}.{n}", seed + n, stop),
        )
        for n in range(writers)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    with servers[0].caller(secret) as caller:
        for name in names:
            run.chains[name] = _chain(caller, name)
    return run


def _chain(caller: Caller, key: str) -> list[str]:
    chain: list[str] = []
    while True:
        answer = caller.get(f"/v1/records/{STORE}/{key}", version=len(chain) + 1)
        if answer.status_code == 404:
            return chain
        chain.append(answer.json()["body"]["by"])


def _writer(
    run: Contention, server: Server, secret: str, keys: list[str], name: str, seed: int, stop: float
) -> None:
    chance = random.Random(seed)
    newest = dict.fromkeys(keys, 0)
    number = 0
    with server.caller(secret) as caller:
        while time.monotonic() < stop:
            number += 1
            write = chance.random() < 0.7
            chosen = chance.sample(keys, chance.randint(1, min(3, len(keys))) if write else 1)
            expected = {key: newest[key] for key in chosen}
            attempt = Attempt(f"{name}.{number}", expected, write, time.monotonic())
            run.attempts.append(attempt)
            try:
                answer = _batch(caller, attempt) if write else caller.get(f"/v1/records/{STORE}/{chosen[0]}")
            except httpx.TransportError:
                continue
            attempt.answered = time.monotonic()
            attempt.answer = answer
            if answer.status_code not in ((201, 409) if write else (200, 404)):
                run.unexpected.append(f"{attempt.name}: {answer.status_code} {answer.text[:300]}")
                continue
            _learn(newest, attempt)


def _learn(newest: dict[str, int], attempt: Attempt) -> None:
    assert attempt.answer is not None
    body: Any = attempt.answer.json()
    keys = list(attempt.expected)
    match attempt.answer.status_code:
        case 200:
            newest[keys[0]] = body["version"]
        case 201:
            newest.update({record["key"]: record["version"] for record in body["records"]})
        case 409:
            newest.update({keys[c["index"]]: c["current_version"] for c in body["conflicts"]})


def _batch(caller: Caller, attempt: Attempt) -> httpx.Response:
    writes = [
        {
            "store": STORE,
            "key": key,
            "expected_version": version,
            "category": "noun.eval_run",
            "tags": [],
            "body": {"by": attempt.name},
            "visibility": "shared",
        }
        for key, version in attempt.expected.items()
    ]
    return caller.post("/v1/records", {"writes": writes})


def main() -> int:
    """Rounds of contention until the time is up; exit status 1 when any history had a fault."""
    parser = argparse.ArgumentParser(description="check histories of concurrent CAS writers")
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--database-url")
    parser.add_argument("--seed", type=int, default=time.time_ns() % 2**32)
    options = parser.parse_args()
    totals: Counter[str] = Counter()
    found: list[str] = []
    end = time.monotonic() + options.seconds
    print(f"seed {options.seed}")
    with (
        tempfile.TemporaryDirectory() as folder,
        Server(Path(folder) / "home", database_url=options.database_url) as server,
    ):
        while time.monotonic() < end and not found:
            totals["rounds"] += 1
            run = contend(
                server,
                seconds=min(10.0, end - time.monotonic()),
                writers=options.writers,
                prefix=f"round{options.seed}.{totals['rounds']}",
                seed=options.seed + 1000 * totals["rounds"],
            )
            totals.update(run.counts())
            found += run.faults()
            print(" ".join(f"{name} {count}" for name, count in totals.items()), flush=True)
    print("\n".join(found) or "every history was strictly serializable")
    return 1 if found else 0


if __name__ == "__main__":
    raise SystemExit(main())
