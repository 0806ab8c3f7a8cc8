"""The one loop that pages through a queue's observations: the next page is asked for while this one is read.

Promises pages in order, each once, a bounded number of them in memory, and an end: a page that repeats, goes
back or stands still is refused. Leaves out what is in the items.
"""

import queue as queues
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from types import TracebackType

from schemas import pages
from tessera.client import Client
from tessera.errors import Invalid

_AHEAD = 8


@dataclass(frozen=True, slots=True)
class Group:
    """Adjacent pages: their bytes, the cursor behind the last, and whether the store has more."""

    bodies: list[bytes]
    cursor: int
    has_more: bool


class PastTheNewestError(pages.PageError):
    """The lake's cursor lies behind the store's newest run: the store was put back to an earlier state."""


class Feed:
    """Pages of a queue from a cursor to the newest, read ahead by a thread. To be used as a context."""

    def __init__(self, client: Client, queue: str, after: int, store_id: str, page_size: int = 100) -> None:
        self._client, self._queue, self._after = client, queue, after
        self._store_id, self._page_size = store_id, page_size
        self._pages: queues.Queue[tuple[bytes, pages.Envelope] | Exception] = queues.Queue(_AHEAD)
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._fetch, name=f"feed of {queue}", daemon=True)

    def __enter__(self) -> Iterator[Group]:
        self._thread.start()
        return self._groups()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        while not self._pages.empty():
            self._pages.get_nowait()

    def _groups(self) -> Iterator[Group]:
        more = True
        while more:
            bodies: list[bytes] = []
            cursor = 0
            while more and (not bodies or not self._pages.empty()) and len(bodies) < _AHEAD:
                arrived = self._pages.get()
                if isinstance(arrived, Exception):
                    raise arrived
                body, envelope = arrived
                bodies.append(body)
                cursor, more = envelope.next_after, envelope.has_more
            yield Group(bodies, cursor, more)

    def _fetch(self) -> None:
        after, more = self._after, True
        try:
            while more and not self._stopped.is_set():
                body = self._client.observation_page(
                    self._queue, after=str(after), limit=self._page_size, store_id=self._store_id
                )
                envelope = pages.envelope(body)
                self._check(envelope, after)
                after, more = envelope.next_after, envelope.has_more
                self._put((body, envelope))
        except Invalid as error:
            self._put(self._past_the_newest(error, after))
        except Exception as error:  # carried to the reader, whose business it is
            self._put(error)

    def _put(self, arrived: tuple[bytes, pages.Envelope] | Exception) -> None:
        while not self._stopped.is_set():
            try:
                return self._pages.put(arrived, timeout=0.2)
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
