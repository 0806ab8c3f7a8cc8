"""The one loop that pages through a queue's observations: the next pages are asked for while these are read.

Promises pages in order, each once, a bounded size of them in memory, and an end: a page that repeats, goes
back or stands still is refused. Leaves out what is in the items.
"""

import math
import queue as queues
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from schemas import pages
from tessera.client import Client
from tessera.errors import Invalid

# fifteen pages of usual runs: read together they cost half of what they cost one by one
_GROUP_BYTES = 3 << 20
_AHEAD = 1  # groups that wait; another is being read, and another comes in


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent pages: their bytes, the cursor behind the last, and whether the store has more."""

    bodies: list[bytes]
    cursor: int
    has_more: bool


class PastTheNewestError(pages.PageError):
    """The lake's cursor lies behind the store's newest run: the store was put back to an earlier state."""


class Feed:
    """Pages of a queue from a cursor to the newest, read ahead by a thread. To be used as a context.

    A group ends where its pages could hold `most_rows`, for a reader that stops or commits there.
    """

    def __init__(
        self,
        client: Client,
        queue: str,
        after: int,
        store_id: str,
        page_size: int = 100,
        most_rows: int | None = None,
    ) -> None:
        self._client, self._queue, self._after = client, queue, after
        self._store_id, self._page_size = store_id, page_size
        self._most_pages = math.inf if most_rows is None else max(1, math.ceil(most_rows / page_size))
        self._groups: queues.Queue[Group | Exception] = queues.Queue(_AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fetch, name=f"feed of {queue}", daemon=True)

    def __enter__(self) -> Iterator[Group]:
        self._thread.start()
        return self._arriving()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        while not self._groups.empty():
            self._groups.get_nowait()

    def _arriving(self) -> Iterator[Group]:
        more = True
        while more:
            arrived = self._groups.get()
            if isinstance(arrived, Exception):
                raise arrived
            yield arrived
            more = arrived.has_more

    def _fetch(self) -> None:
        after, more = self._after, True
        bodies: list[bytes] = []
        try:
            while more and not self._stopped.is_set():
                body = self._client.observation_page(
                    self._queue, after=str(after), limit=self._page_size, store_id=self._store_id
                )
                envelope = pages.envelope(body)
                self._check(envelope, after)
                after, more = envelope.next_after, envelope.has_more
                bodies.append(body)
                if not more or len(bodies) >= self._most_pages or sum(map(len, bodies)) >= _GROUP_BYTES:
                    self._put(Group(bodies, after, more))
                    bodies = []
        except Exception as error:  # carried to the reader, whose business it is
            if bodies:
                self._put(Group(bodies, after, more))
            self._put(self._past_the_newest(error, after) if isinstance(error, Invalid) else error)

    def _put(self, arrived: Group | Exception) -> None:
        while not self._stopped.is_set():
            try:
                return self._groups.put(arrived, timeout=0.2)
            except queues.Full:
                continue
        return None

    def _check(self, envelope: pages.Envelope, after: int) -> None:
        if envelope.store_id != self._store_id:
            raise pages.PageError(
                f"the store changed while queue {self._queue} was read: {self._store_id} began, "
                f"{envelope.store_id} answers now"
            )
        if envelope.next_after < after or (envelope.has_more and envelope.next_after == after):
            raise pages.PageError(
                f"the page of queue {self._queue} after {after} says to go on from {envelope.next_after} "
                f"with has_more {envelope.has_more}: it would be read for ever"
            )

    def _past_the_newest(self, error: Invalid, after: int) -> Exception:
        if after == 0 or not any(fault.path == "after" for fault in error.errors):
            return error
        return PastTheNewestError(
            f"the lake has queue {self._queue} up to {after}, but the store has no such run: it was put back "
            f"to an earlier state. `workspace rebuild --queue {self._queue} --allow-fewer` reads it anew. "
            f"({error.errors[0].message})"
        )
