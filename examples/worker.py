"""A worker of the example fleet, whole: six lines around the work. Copy it and put your own work in.

It needs nothing but `tessera`: the client takes `TESSERA_URL` and `TESSERA_KEY` from the environment, and
`choose` lets the store throw a coin, uniform until an evaluation has shown that learned weights do better. It
ends when the queue is empty.
"""

from examples.compress import METHODS, compress
from tessera import Client
from tessera.advice import choose

QUEUE = "demo.compress"


def main() -> None:
    """Claim, choose, work, submit, until nothing is left."""
    client = Client()
    while task := client.claim(QUEUE, lease_seconds=60):
        method, advice = choose(task, "method", list(METHODS), client=client)
        attempt = compress(task["brief"], method, advice)
        client.submit(task["task_id"], task["fence"], attempt.accepted, **attempt.submission)


if __name__ == "__main__":
    main()
