"""Answers on their way out, as ASGI takes them."""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from tessera.server.answers import Answer

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]

_DRAIN_SECONDS = 2.0


async def send_answer(answer: Answer, receive: Receive, send: Send) -> None:
    """Send an answer; one that closes the connection waits a little for what is still coming in."""
    headers = list(answer.headers)
    if answer.status not in (204, 304):
        headers.append((b"content-length", str(len(answer.body)).encode()))
    if answer.close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.close:
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        await _drain(receive)
        await send({"type": "http.response.body", "body": b""})
    else:
        await send({"type": "http.response.body", "body": answer.body})


async def _drain(receive: Receive) -> None:
    """Let what is still being sent pass by for a moment: closing at once would take the answer away."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return
