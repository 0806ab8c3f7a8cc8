"""Threads that do the blocking work of requests, so that the event loop never waits for a disk.

A crew is a few threads on one queue, served in order. Leaves out cancelling: work that began is finished,
since its transaction may be committed already.
"""

import asyncio
import threading
from collections.abc import Callable
from queue import SimpleQueue
from typing import Any, TypeVar

T = TypeVar("T")

_Work = tuple[asyncio.AbstractEventLoop, "asyncio.Future[Any]", Callable[..., Any], tuple[Any, ...]]


class Crew:
    """Threads named after what they do; ``close`` lets them finish and go."""

    def __init__(self, name: str, size: int) -> None:
        self._queue: SimpleQueue[_Work | None] = SimpleQueue()
        self._threads = [
            threading.Thread(target=self._serve, name=f"{name}-{n}", daemon=True) for n in range(size)
        ]
        for thread in self._threads:
            thread.start()

    async def run(self, work: Callable[..., T], *arguments: Any) -> T:
        """Do ``work`` in a thread of the crew and give its result, or raise what it raised."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        self._queue.put((loop, future, work, arguments))
        return await future

    def close(self) -> None:
        """Finish what is queued, then end the threads."""
        for _ in self._threads:
            self._queue.put(None)
        for thread in self._threads:
            thread.join()

    def _serve(self) -> None:
        while (work := self._queue.get()) is not None:
            loop, future, function, arguments = work
            result, error = None, None
            try:
                result = function(*arguments)
            except BaseException as raised:
                error = raised
            try:
                loop.call_soon_threadsafe(_settle, future, result, error)
            except RuntimeError:  # the loop is closed: nobody waits any more
                continue


def _settle(future: "asyncio.Future[Any]", result: Any, error: BaseException | None) -> None:
    if future.cancelled():
        return
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(result)
