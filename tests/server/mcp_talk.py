"""The official SDK's client and the MCP face: ``tessera mcp`` as a process of its own, or HTTP."""

import os
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

ROOT = Path(__file__).resolve().parents[2]
WAYS = [(carrier, era) for carrier in ("stdio", "http") for era in ("legacy", "auto")]
"""Both carriers, each with the handshake of old and without one."""


def environment(url: str, secret: str | None, **more: str) -> dict[str, str]:
    """What ``tessera mcp`` is started with, and nothing of the caller's settings."""
    given = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    key = {} if secret is None else {"TESSERA_KEY": secret}
    return {**given, "TESSERA_URL": url, "PYTHONPATH": str(ROOT), **key, **more}


@asynccontextmanager
async def talk(way: tuple[str, str], url: str, secret: str) -> AsyncIterator[Client]:
    """A conversation by one of the WAYS."""
    carrier, era = way
    if carrier == "stdio":
        command = ["-m", "tessera.cli", "mcp"]
        server = StdioServerParameters(
            command=sys.executable, args=command, env=environment(url, secret), cwd=ROOT
        )
        async with Client(stdio_client(server), mode=era) as client:
            yield client
        return
    headers = {"authorization": f"Bearer {secret}"}
    async with httpx2.AsyncClient(headers=headers, timeout=30, trust_env=False) as http:
        transport = streamable_http_client(f"{url}/mcp", http_client=http)
        async with Client(transport, mode=era) as client:
            yield client


async def call(client: Client, tool: str, /, **arguments: Any) -> dict[str, Any]:
    """A tool's answer: its frame."""
    result = await client.call_tool(tool, arguments)
    frame = result.structured_content
    assert isinstance(frame, dict)
    assert result.is_error is (frame["status"] >= 400)
    return frame
