"""Runs in a store: what workers would have left there, for the tests of what is learned from it."""

from typing import Any

from tessera.client import Client


def work(client: Client, queue: str, results: str, *, kind: str = "verb.a", private: bool = False) -> None:
    """Enqueue, claim and submit one task a letter: ``a`` is accepted, ``f`` failed for good."""
    for letter in results:
        task = client.enqueue(queue, kind, {"template": f"t-{letter}"}, max_attempts=1, private=private)
        claimed = client.claim(queue, task_id=task["task_id"])
        assert claimed is not None
        client.submit(
            task["task_id"],
            claimed["fence"],
            letter == "a",
            failure=None if letter == "a" else "Timeout after 30s",
            execution_report=report(),
        )


def report() -> dict[str, Any]:
    """What a worker of a method would say."""
    return {"harness": "h", "model": None, "learning": {"path": {"method": "m"}, "duration_seconds": 1.5}}
