"""Partitions of the workspace: one a queue, found from the store, never listed by hand.

Leaves out the queues that begin with `learn.`: what the learners do is no scope to learn from.
"""

from typing import Any

import dagster as dg

RESERVED = "learn."

queues = dg.DynamicPartitionsDefinition(name="queue")


def scopes(answer: dict[str, Any]) -> list[str]:
    """The queues that can be scopes, of what `GET /v1/queues` answered."""
    return [name for name in answer["queues"] if not name.startswith(RESERVED)]
