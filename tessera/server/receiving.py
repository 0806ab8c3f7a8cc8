"""Bodies on their way in: bounded in size and time, and cut short when the server ends.

Promises that a body is refused as soon as it is too large or too slow, and that a large one is kept only
for a key that may send it. Leaves out what the body says.
"""

import asyncio
from collections.abc import Awaitable, Callable

from tessera.errors import Problem, TooLarge, Unavailable
from tessera.server.sending import Message, Receive

GRACE_SECONDS = 10.0
"""How long a client may take over nothing: for a body, beside the time its bytes take at MIN_RATE."""
MIN_RATE = 64 * 1024
"""Bytes a second; a client that stays slower, sending or reading, is cut off."""
CLOSING_SECONDS = 4.0
"""What is left of a body's time when the server is told to end."""
PROMPT = 32 * 1024
"""Bytes of a body that is judged in less time than a transaction of its own takes."""
CLOSING = "the store is closing; try again"


class Bodies:
    """Bodies being received, all on one event loop."""

    def __init__(self, grace_seconds: float) -> None:
        self._grace = grace_seconds
        self._last: float | None = None
        self._waits: set[asyncio.Timeout] = set()

    def hurry(self) -> None:
        """From now on every body has CLOSING_SECONDS."""
        self._last = asyncio.get_running_loop().time() + CLOSING_SECONDS
        for wait in self._waits:
            wait.reschedule(min(wait.when() or self._last, self._last))

    async def whole(
        self,
        limit: int,
        declared: int | None,
        refusal: Callable[[], Awaitable[Problem | None]],
        receive: Receive,
    ) -> bytes:
        """A body of at most ``limit`` bytes; ``refusal`` says of a large one why not to keep it."""
        if declared is not None and declared > limit:
            raise TooLarge(f"the body is over {limit} bytes")
        begun = asyncio.get_running_loop().time()
        chunks: list[bytes] = []
        size = 0
        asked, refused = False, None
        while True:
            message = await self._next(receive, begun + self._grace + size / MIN_RATE)
            if message["type"] == "http.disconnect":
                raise Problem("the client went away", status=400)
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise TooLarge(f"the body is over {limit} bytes")
            if size > PROMPT and not asked:
                asked, refused = True, await refusal()
            if refused is None:
                chunks.append(chunk)
            else:
                chunks.clear()  # counted to its end, so that the size is judged first, but not kept
            if not message.get("more_body", False):
                if refused is not None:
                    raise refused
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    async def _next(self, receive: Receive, until: float) -> Message:
        wait = asyncio.timeout_at(until if self._last is None else min(until, self._last))
        self._waits.add(wait)
        try:
            async with wait:
                return await receive()
        except TimeoutError:
            if self._last is not None:
                raise Unavailable(CLOSING, extra={"retry_after": 1}) from None
            raise Problem("the body came too slowly", status=408) from None
        finally:
            self._waits.discard(wait)
