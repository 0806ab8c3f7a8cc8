"""Starts the example fleet: worker processes that drain the queue, with a key for it and its learned nouns.

It promises to end with its workers gone, and to say which one failed and where its words are.
"""

import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from examples.inputs import briefs
from examples.worker import QUEUE
from pipelines import attached
from tessera import Client
from tessera.canonical import digest
from tessera.errors import TesseraError

KEY_HOURS = 1


@dataclass(frozen=True, slots=True)
class Keys:
    """The secrets of one run, each with the least that its holder needs."""

    enqueuer: str
    worker: str
    reader: str


@contextmanager
def keys(admin: Client) -> Iterator[Keys]:
    """Three keys for this run alone: they expire within the hour and are revoked on the way out."""
    expires = (datetime.now(UTC) + timedelta(hours=KEY_HOURS)).isoformat(timespec="milliseconds")
    grants = {"enqueuer": ["write"], "worker": ["work", "read"], "reader": ["read"]}
    made = {}
    try:
        for name, scopes in grants.items():
            made[name] = admin.create_key(
                f"example-{name}", scopes, [QUEUE], expires_at=expires.replace("+00:00", "Z")
            )
        yield Keys(**{name: key["secret"] for name, key in made.items()})
    finally:
        for key in made.values():
            admin.revoke_key(key["id"])


def enqueue(client: Client, first: int, count: int) -> None:
    """Enqueue the tasks `first` to `first + count - 1`; those a run cut short left behind stay as they are.

    Each is tried once: a retry by another method would go to the hard inputs only, and bend the comparison.
    """
    for number, (kind, brief) in enumerate(briefs(first, count), start=first):
        name = f"example:{number}:{digest(brief)[:16]}"
        client.enqueue(QUEUE, kind, brief, idempotency_key=name, max_attempts=1)


def finished(client: Client, after: str = "0") -> tuple[int, str]:
    """How many runs of the queue lie after the cursor `after`, and the cursor of the last of them."""
    count = 0
    while True:
        page = client.pending(QUEUE, after=after)
        count, after = count + page["count"], page["last"] or after
        if not page["capped"]:
            return count, after


def work(url: str, secret: str, workers: int, logs: Path, progress: Callable[[], None]) -> None:
    """Run `workers` workers until the queue is empty, calling `progress` several times a second."""
    environment = {"TESSERA_URL": url, "TESSERA_KEY": secret}
    files = [logs / f"worker-{number}.log" for number in range(1, workers + 1)]
    with ExitStack() as stack:
        children = []
        for file in files:
            child = attached.start("examples.worker:main", env=environment, log=file)
            stack.enter_context(attached.stopping(child))
            children.append(child)
        while any(child.poll() is None for child in children):
            time.sleep(0.2)
            progress()
        progress()
        for child, file in zip(children, files, strict=True):
            if child.returncode != 0:
                raise TesseraError(
                    f"a worker ended with status {child.returncode}; its last words are in {file}"
                )
