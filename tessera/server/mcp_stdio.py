"""MCP over stdio, ``tessera mcp``: for a model's host on any machine, with the key of its environment.

Promises that only JSON-RPC reaches stdout, whatever is logged or warned of; that each line passes the strict
door before the SDK sees it; that each tool call is an HTTP request to the store, so that permission is HTTP's
own. Ends when stdin does, or on an interrupt.
"""

import asyncio
import contextlib
import os
import sys
import threading
from collections.abc import AsyncIterator
from typing import Any
from urllib.parse import quote

from anyio.streams.memory import MemoryObjectSendStream
from mcp.server.stdio import stdio_server
from mcp.shared.message import SessionMessage

from tessera import calls, json_door
from tessera.client import AsyncClient
from tessera.errors import ConnectionFault, Problem, TooLarge, Unavailable
from tessera.server.mcp_face import Context, make_server, refusal
from tessera.server.tools import Tool

_AHEAD = 16  # lines read before they are asked for


def run(client: AsyncClient) -> None:
    """Serve until stdin ends."""
    with contextlib.suppress(KeyboardInterrupt):
        asyncio.run(_serve(client))


async def _serve(client: AsyncClient) -> None:
    async def carry(
        _context: Context, tool: Tool, names: tuple[str, ...], query: bytes, body: bytes
    ) -> tuple[int, bytes]:
        return await _over_http(client, tool, names, query, body)

    server = make_server(carry, client.url)
    lines = Lines(asyncio.get_running_loop())
    async with client, stdio_server(stdin=lines) as (read, write):  # type: ignore[arg-type]
        lines.answer_through(write)
        await server.run(read, write, server.create_initialization_options())


async def _over_http(
    client: AsyncClient, tool: Tool, names: tuple[str, ...], query: bytes, body: bytes
) -> tuple[int, bytes]:
    """The call as a request with the client's key."""
    values = iter(names)
    parts = tool.call.path.split("/")
    path = "/".join(_segment(next(values)) if part.startswith("{") else part for part in parts)
    repeat = calls.Repeat.ALWAYS if tool.reads_only or tool.repeatable else calls.Repeat.UNSENT
    call = calls.Call(
        tool.call.method,
        f"{path}?{query.decode()}" if query else path,
        lambda answer: (answer.status, answer.body),
        body=json_door.loads(body) if body else None,
        repeat=repeat,
    )
    try:
        return await client.perform(call)
    except ConnectionFault as fault:
        raise Unavailable(str(fault)) from None


def _segment(name: str) -> str:
    return name.replace(".", "%2E") if name in (".", "..") else quote(name, safe="@:+")


class Lines:
    """The lines of stdin that the door lets through; what it refuses is answered here.

    Read by a thread of its own, without Python's buffers: a wait for a line must not hold up the end of the
    program.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._queue: asyncio.Queue[bytes | None] = asyncio.Queue()
        self._out: asyncio.Future[MemoryObjectSendStream[SessionMessage]] = loop.create_future()
        self._room = threading.Semaphore(_AHEAD)
        source = sys.stdin.fileno()
        threading.Thread(target=self._read, args=(source,), name="stdin", daemon=True).start()

    def answer_through(self, out: Any) -> None:
        """Where answers to refused lines go."""
        self._out.set_result(out)

    async def __aiter__(self) -> AsyncIterator[str]:
        while (line := await self._queue.get()) is not None:
            self._room.release()
            try:
                if len(line) > json_door.MAX_BODY:
                    raise TooLarge(f"the message is over {json_door.MAX_BODY} bytes")
                if line.strip():
                    json_door.loads_around(line, "params", "arguments")
                    yield line.decode()
            except Problem as problem:
                out = await self._out
                await out.send(SessionMessage(refusal(line, problem)))

    def _read(self, source: int) -> None:
        """Cut what comes into lines; of one that is too long the rest passes by."""
        line = bytearray()
        while chunk := os.read(source, 65536):
            *ended, rest = chunk.split(b"\n")
            for part in ended:
                line += part
                self._give(bytes(line[: json_door.MAX_BODY + 1]))
                line.clear()
            if len(line) <= json_door.MAX_BODY:
                line += rest
        if line:
            self._give(bytes(line))
        self._give(None)

    def _give(self, line: bytes | None) -> None:
        self._room.acquire()
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody reads any more
            self._loop.call_soon_threadsafe(self._queue.put_nowait, line)
