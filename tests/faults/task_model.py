"""What the store should do with tasks, in memory: leases, fences, retries, cancels, draws and runs.

Time is whole milliseconds given by the caller; statuses are those of HTTP. Written from the contract, section
3 ("Leases", "Draws", "Permission"), and knows nothing of how the store does it.
"""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Task:
    """One task; ``claims`` are the keys of its fences from 1 on, ``submits`` how many ended in a run."""

    number: int
    owner: str
    private: bool
    priority: int
    max_attempts: int
    over: str = ""
    leased: bool = False
    expires: int = 0
    claims: list[str] = field(default_factory=list)
    submits: int = 0
    draws: dict[tuple[int, str], tuple[int, Any, Any]] = field(default_factory=dict)

    def state(self, now: int) -> str:
        """The state that every call should show."""
        if self.over:
            return self.over
        if not self.leased:
            return "queued"
        return "failed" if self.lapsed(now) and len(self.claims) == self.max_attempts else "claimed"

    def lapsed(self, now: int) -> bool:
        """Whether the lease's time is up."""
        return self.leased and self.expires <= now

    def open(self, now: int) -> bool:
        """Whether a claim may take it."""
        state = self.state(now)
        return state == "queued" or (state == "claimed" and self.lapsed(now))


@dataclass
class Run:
    """What an observation says of one submission."""

    task: int
    fence: int
    lapsed: int
    key: str
    result: str
    state_after: str


class Tasks:
    """The store's tasks of one queue."""

    def __init__(self) -> None:
        self.tasks: list[Task] = []
        self.runs: list[Run] = []

    def enqueue(self, owner: str, private: bool, priority: int, max_attempts: int) -> Task:
        """A new task, queued."""
        self.tasks.append(Task(len(self.tasks), owner, private, priority, max_attempts))
        return self.tasks[-1]

    def visible(self, task: Task, key: str) -> bool:
        """Whether a key may read the task."""
        return not task.private or key in (task.owner, "admin")

    def claim(self, key: str, seconds: int, now: int, named: Task | None = None) -> Task | None:
        """The task that a claim gets: the highest priority, then the oldest; or the one named."""
        if named is None:
            offered = [t for t in self.tasks if t.open(now) and (not t.private or t.owner == key)]
            named = min(offered, key=lambda t: (-t.priority, t.number), default=None)
        elif not named.open(now) or not self.visible(named, key):
            named = None
        if named is not None:
            named.claims.append(key)
            named.leased, named.expires = True, now + seconds * 1000
        return named

    def holds(self, task: Task, key: str, fence: int, now: int) -> int:
        """What heartbeat, draw and submit come to: 404 for who never held the fence, 409 when it is over."""
        if not 1 <= fence <= len(task.claims) or task.claims[fence - 1] != key:
            return 404
        return 200 if fence == len(task.claims) and task.state(now) == "claimed" else 409

    def heartbeat(self, task: Task, key: str, fence: int, seconds: int, now: int) -> int:
        """The status; the lease ends ``seconds`` from now, never earlier than it did."""
        status = self.holds(task, key, fence, now)
        if status == 200:
            task.expires = max(task.expires, now + seconds * 1000)
        return status

    def submit(self, task: Task, key: str, fence: int, ok: bool, now: int) -> int:
        """The status; 200 ends the claim with a run."""
        status = self.holds(task, key, fence, now)
        if status == 200:
            state = "succeeded" if ok else "queued" if fence < task.max_attempts else "failed"
            lapsed = fence - 1 - task.submits
            task.submits += 1
            task.leased = False
            task.over = "" if state == "queued" else state
            self.runs.append(Run(task.number, fence, lapsed, key, "accepted" if ok else "failed", state))
        return status

    def cancel(self, task: Task, key: str, now: int) -> int:
        """The status; only the owner and an admin may, and not what is over."""
        if key not in (task.owner, "admin"):
            return 404
        if task.state(now) in ("succeeded", "failed"):
            return 409
        task.over, task.leased = "cancelled", False
        return 200

    def drawn(self, task: Task, fence: int, dimension: str, body: Any) -> tuple[int, Any]:
        """The status of a draw by the holder, and the recorded answer, None when the coin is thrown now."""
        standing = task.draws.get((task.submits, dimension))
        if standing is None:
            return 200, None
        at_fence, first, answer = standing
        return (409, None) if at_fence == fence and first != body else (200, answer)
