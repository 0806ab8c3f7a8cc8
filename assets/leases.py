"""Holding a claimed task while its work takes longer than a lease.

Promises heartbeats from a thread of its own until the work ends, until its time is up, or until the store
says that the task is someone else's. Leaves out the work, and letting go: a holder that is stopped keeps
others out until its lease ends.
"""

import threading
import time
from collections.abc import Mapping
from types import TracebackType
from typing import Any

from tessera.client import Client
from tessera.errors import Conflict, NotFound, TesseraError

LEASE_SECONDS = 30
"""Short: a holder that was stopped or killed blocks its scope no longer than this."""


class LeaseLost(TesseraError):  # noqa: N818 - the sentence reads as what it is
    """The task was claimed again while it was worked on; nothing more may be written for it."""


class Lease:
    """The claim of one task, as ``claim`` answered it, kept alive within a ``with`` block."""

    def __init__(self, client: Client, task: Mapping[str, Any], seconds: int = LEASE_SECONDS) -> None:
        self._client, self._seconds = client, seconds
        self.task_id, self.fence = str(task["task_id"]), int(task["fence"])
        self.until: float | None = None
        """When to stop holding on, by ``time.monotonic``; None for as long as the work takes."""
        self._ended, self._lost = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._beat, name=f"lease of {self.task_id}", daemon=True)

    def check(self) -> None:
        """Raise LeaseLost when the store has said that the task is no longer held."""
        if self._lost.is_set():
            raise LeaseLost(
                f"run {self.task_id} was claimed again while it was worked on, fence {self.fence} has moved: "
                "nothing was written, the other worker goes on with it"
            )

    def __enter__(self) -> "Lease":
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        self._thread.join()

    def _beat(self) -> None:
        while not self._ended.wait(self._seconds / 3):
            if self.until is not None and time.monotonic() > self.until:
                return
            try:
                self._client.heartbeat(self.task_id, self.fence, self._seconds)
            except (Conflict, NotFound):
                self._lost.set()
                return
            except TesseraError:  # the store may be back before the lease ends
                continue
