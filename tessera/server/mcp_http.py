"""MCP over streamable HTTP, inside the store's own server: ``POST /mcp``.

Promises that a message reaches the SDK only after the door has judged it (Host, size, key, strict JSON), and
that each tool call goes back through the same door with the same key. Requests stand alone: there are no
sessions, so nothing of one caller is kept for the next, and GET and DELETE are not taken. The SDK is loaded
by the first message, not at the start of the server.
"""

import asyncio
from collections.abc import Awaitable, Callable, MutableMapping
from typing import TYPE_CHECKING, Any

from tessera import json_door
from tessera.errors import Problem, Unauthorized
from tessera.server import answers
from tessera.server.answers import Answer
from tessera.server.requests import Call
from tessera.store.keys import REFUSED

if TYPE_CHECKING:
    from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

Scope = MutableMapping[str, Any]
Dispatch = Callable[[Call, tuple[str, ...], Any, bytes, bytes], Awaitable[Answer]]
"""A call of the API through the door: path values, raw headers, query string, body."""

PATH = "/mcp"


class McpDoor:
    """Answers MCP messages; ``close`` it before its event loop ends."""

    def __init__(self, dispatch: Dispatch, store_id: str) -> None:
        self._dispatch = dispatch
        self._store_id = store_id
        self._lock = asyncio.Lock()
        self._manager: StreamableHTTPSessionManager | None = None
        self._closing = asyncio.Event()
        self._running: asyncio.Task[None] | None = None

    async def answer(self, scope: Scope, message: bytes) -> Answer:
        """The answer to one message of a caller whose key is good."""
        from tessera.server.mcp_face import refusal

        try:
            json_door.loads_around(message, "params", "arguments")
        except Problem as problem:
            error = refusal(message, problem).model_dump_json(by_alias=True, exclude_unset=True)
            return Answer(problem.status, error.encode())
        manager = await self._started()
        taken = _Taken(message)
        await manager.handle_request(scope, taken.receive, taken.send)
        return taken.answer()

    async def close(self) -> None:
        """End the SDK's tasks."""
        self._closing.set()
        if self._running is not None:
            await self._running

    async def _started(self) -> "StreamableHTTPSessionManager":
        async with self._lock:
            if self._manager is None:
                manager = await asyncio.get_running_loop().run_in_executor(None, self._make)
                begun = asyncio.Event()
                self._running = asyncio.create_task(self._run(manager, begun))
                await begun.wait()
                self._manager = manager
            return self._manager

    async def _run(self, manager: "StreamableHTTPSessionManager", begun: asyncio.Event) -> None:
        async with manager.run():
            begun.set()
            await self._closing.wait()

    def _make(self) -> "StreamableHTTPSessionManager":
        from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

        from tessera.server.mcp_face import Context, make_server
        from tessera.server.tools import Tool

        async def carry(
            context: Context, tool: Tool, names: tuple[str, ...], query: bytes, body: bytes
        ) -> tuple[int, bytes]:
            if context.request is None:
                raise Unauthorized(REFUSED)
            headers = context.request.scope["headers"]
            done = await self._dispatch(tool.call, names, headers, query, body)
            return done.status, done.body

        return StreamableHTTPSessionManager(
            make_server(carry, self._store_id),
            json_response=True,
            stateless=True,
            max_request_body_size=json_door.MAX_BODY,
        )


class _Taken:
    """One message handed to the SDK, and what it answers."""

    def __init__(self, message: bytes) -> None:
        self._message: bytes | None = message
        self._status = 500
        self._headers: list[tuple[bytes, bytes]] = []
        self._body = bytearray()

    async def receive(self) -> MutableMapping[str, Any]:
        if self._message is None:
            await asyncio.Event().wait()  # the message was whole; nothing more comes
        message, self._message = self._message, None
        return {"type": "http.request", "body": message, "more_body": False}

    async def send(self, event: MutableMapping[str, Any]) -> None:
        if event["type"] == "http.response.start":
            self._status = event["status"]
            self._headers = [(n.lower(), v) for n, v in event["headers"] if n.lower() != b"content-length"]
        else:
            self._body += event.get("body", b"")

    def answer(self) -> Answer:
        """What the SDK said; a refusal in plain text becomes a problem document like every other."""
        kind = next((value for name, value in self._headers if name == b"content-type"), b"")
        if self._status >= 400 and not kind.startswith(b"application/json"):
            text = self._body.decode("utf-8", "replace")
            return answers.of_problem(Problem(text, status=self._status))
        return Answer(self._status, bytes(self._body), tuple(self._headers))
