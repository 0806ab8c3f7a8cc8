"""The MCP face: the store's tools by the official SDK, over whatever carries a call to the store.

Promises that each answer is one frame, ``{origin, notice, status, data}``: what was stored is below ``data``
and nowhere else. The frame is JSON with every character beyond plain ASCII and each of ``<>&`` escaped, so no
stored text can close it. Leaves out permission: the carrier asks HTTP's own door.
"""

import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.context import ServerRequestContext
from mcp.server.lowlevel import Server
from mcp.shared.exceptions import MCPError

from tessera.errors import Malformed, Problem
from tessera.server.tools import INSTRUCTIONS, NOTICE, TOOLS, Tool

Context = ServerRequestContext[Any, Any]
Carry = Callable[[Context, Tool, tuple[str, ...], bytes, bytes], Awaitable[tuple[int, bytes]]]
"""Does a tool's call, given path values, query string and body: the status and the body of its answer."""

_TOOLS = {tool.name: tool for tool in TOOLS}
_ESCAPES = str.maketrans({"<": "\\u003c", ">": "\\u003e", "&": "\\u0026"})


def make_server(carry: Carry, store: str) -> "Server[Any]":
    """The server; ``store`` says in each answer's origin which store it is."""

    async def list_tools(_context: Context, _params: Any) -> types.ListToolsResult:
        return types.ListToolsResult(tools=[_told(tool) for tool in TOOLS])

    async def call_tool(context: Context, params: types.CallToolRequestParams) -> types.CallToolResult:
        tool = _TOOLS.get(params.name)
        if tool is None:
            raise MCPError(types.INVALID_PARAMS, "there is no such tool")
        try:
            names, query, body = tool.request(params.arguments or {})
            status, answer = await carry(context, tool, names, query, body)
            data = json.loads(answer) if answer else None
        except Problem as problem:
            status, data = problem.status, problem.document()
        return _framed(tool, store, status, data)

    return Server("tessera", instructions=INSTRUCTIONS, on_list_tools=list_tools, on_call_tool=call_tool)


def refusal(message: bytes, problem: Problem) -> types.JSONRPCError:
    """The answer to a message that the strict door refused; its id is null when it cannot be read."""
    code = types.PARSE_ERROR if isinstance(problem, Malformed) else types.INVALID_PARAMS
    error = types.ErrorData(code=code, message=problem.detail or problem.title, data=problem.document())
    return types.JSONRPCError(jsonrpc="2.0", id=_id(message), error=error)


def _told(tool: Tool) -> types.Tool:
    hints = types.ToolAnnotations(
        read_only_hint=tool.reads_only,
        destructive_hint=False,
        idempotent_hint=tool.reads_only or tool.repeatable,
        open_world_hint=False,
    )
    return types.Tool(name=tool.name, description=tool.text, input_schema=tool.schema, annotations=hints)


def _framed(tool: Tool, store: str, status: int, data: Any) -> types.CallToolResult:
    frame = {
        "origin": {"store": store, "call": f"{tool.call.method} {tool.call.path}"},
        "notice": NOTICE,
        "status": status,
        "data": data,
    }
    text = json.dumps(frame, ensure_ascii=True, separators=(",", ":")).translate(_ESCAPES)
    return types.CallToolResult(
        content=[types.TextContent(text=text)], structured_content=frame, is_error=status >= 400
    )


def _id(message: bytes) -> str | int | None:
    """The id of a message that is no good otherwise, if it has one that can be sent back."""
    try:
        found = json.loads(message)["id"]
        if type(found) is int and abs(found) < 2**53:
            return found
        return str(found) if type(found) is str and found.encode() else None
    except (ValueError, KeyError, TypeError, IndexError, RecursionError):
        return None
