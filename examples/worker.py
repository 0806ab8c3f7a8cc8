"""A worker of the example fleet, whole: five lines around the work. Copy it and put your own work in.

It needs nothing but `tessera.Client`, which takes `TESSERA_URL` and `TESSERA_KEY` from the environment. It
ends when the queue is empty.
"""

import random
from collections.abc import Mapping
from typing import Any

from examples.compress import METHODS, compress
from tessera import Client

QUEUE = "demo.compress"


def choose_method(brief: Mapping[str, Any]) -> str:
    """Which method to try: in shuffled blocks, so that each sort of input meets each method equally often."""
    block, place = divmod(brief["turn"], len(METHODS))
    shuffled = random.Random(f"block:{block}").sample(sorted(METHODS), len(METHODS))
    return shuffled[int(place)]


def main() -> None:
    """Claim, work, submit, until nothing is left."""
    client = Client()
    while task := client.claim(QUEUE, lease_seconds=60):
        attempt = compress(task["brief"], choose_method(task["brief"]))
        client.submit(task["task_id"], task["fence"], attempt.accepted, **attempt.submission)


if __name__ == "__main__":
    main()
