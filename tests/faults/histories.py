"""Were concurrent compare-and-swap writers served as if one after the other?

Wing and Gong (1993) ask whether a recorded history has an order that keeps to real time and to the object's
rules. For an arbitrary object that search is exponential; a store that numbers the versions of each key has
already said the order on each key, so what is left is whether those orders and real time together have a
cycle: n log n. Operations may touch several keys, so the verdict is strict serializability, and
linearizability on each key with it.
"""

import heapq
import math
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Operation:
    """One call as its caller saw it.

    ``sent`` and ``answered`` are seconds by one clock that never steps back; ``answered`` is infinite when no
    answer came. ``wrote`` and ``read`` map a key to the version written or seen, 0 = the key did not exist.
    """

    name: str
    sent: float
    answered: float = math.inf
    wrote: Mapping[str, int] = field(default_factory=dict)
    read: Mapping[str, int] = field(default_factory=dict)


def faults(history: Sequence[Operation]) -> list[str]:
    """What keeps a history from being strictly serializable; empty when it is.

    Leave out writes that were never answered and that nobody ever saw: they did not happen.
    """
    writer: dict[tuple[str, int], int] = {}
    found: list[str] = []
    for number, operation in enumerate(history):
        for at in operation.wrote.items():
            if at in writer:
                found.append(f"{at} was written twice: {history[writer[at]].name}, {operation.name}")
            writer[at] = number
    for key, version in writer:
        if version < 1 or (version > 1 and (key, version - 1) not in writer):
            found.append(f"version {version} of {key} has no predecessor")
    for operation in history:
        for key, version in operation.read.items():
            if version > 0 and (key, version) not in writer:
                found.append(f"{operation.name} saw version {version} of {key}, which nobody wrote")
    return found or _cycles(history, _edges(history, writer))


def _edges(history: Sequence[Operation], writer: Mapping[tuple[str, int], int]) -> list[tuple[int, int]]:
    """Who comes before whom by the versions of some key: write v, reads of v, write v + 1."""
    edges = [
        (number, writer[key, version + 1])
        for (key, version), number in writer.items()
        if (key, version + 1) in writer
    ]
    for number, operation in enumerate(history):
        for key, version in operation.read.items():
            if version > 0:
                edges.append((writer[key, version], number))
            if (key, version + 1) in writer:
                edges.append((number, writer[key, version + 1]))
    return edges


def _cycles(history: Sequence[Operation], edges: Iterable[tuple[int, int]]) -> list[str]:
    """Take operations off in an order that edges and real time allow; what stays is in or behind a cycle."""
    after: dict[int, list[int]] = defaultdict(list)
    waits = [0] * len(history)
    for first, second in edges:
        after[first].append(second)
        waits[second] += 1
    done = [False] * len(history)
    ready = [(history[number].sent, number) for number in range(len(history)) if not waits[number]]
    heapq.heapify(ready)
    deadlines = sorted((operation.answered, number) for number, operation in enumerate(history))
    earliest = 0  # position in deadlines of the first operation not yet taken
    while earliest < len(deadlines):
        answered, late = deadlines[earliest]
        if done[late]:
            earliest += 1
            continue
        if not ready or ready[0][0] > answered:
            return [_explain(history, late, [number for _, number in ready])]
        number = heapq.heappop(ready)[1]
        done[number] = True
        for second in after[number]:
            waits[second] -= 1
            if not waits[second]:
                heapq.heappush(ready, (history[second].sent, second))
    return []


def _explain(history: Sequence[Operation], late: int, ready: Sequence[int]) -> str:
    stuck = history[late]
    others = ", ".join(f"{history[n].name} (sent {history[n].sent:.6f})" for n in ready[:5]) or "a cycle"
    return (
        f"{stuck.name} (answered {stuck.answered:.6f}, wrote {dict(stuck.wrote)}, read {dict(stuck.read)}) "
        f"has to come after what was sent only later: {others}"
    )
