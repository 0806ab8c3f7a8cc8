"""The OpenAPI document, made from the calls that the door serves, so that it cannot say anything else."""

import re
from collections.abc import Iterable
from typing import Any

from tessera import __doc__ as about
from tessera.server import responses
from tessera.server.mcp_http import PATH as MCP_PATH
from tessera.server.metrics import CONTENT_TYPE
from tessera.server.queries import Query
from tessera.server.requests import Call

_REFUSALS = {
    400: "Not well-formed JSON",
    401: "No usable key",
    403: "The key is not granted what the request names",
    404: "Absent, or not to be seen",
    405: "Another method",
    406: "No JSON is accepted",
    408: "The body came too slowly",
    409: "The state moved",
    413: "The body is too large",
    415: "No JSON was sent",
    421: "Another Host",
    422: "A value is wrong: errors says where",
    503: "Try again later",
}
_OF_A_CALL = (400, 401, 403, 404, 408, 409, 413, 421, 422, 503)
_HEADERS = {401: ("WWW-Authenticate", "Bearer"), 503: ("Retry-After", "Seconds to wait")}


def document(calls: Iterable[Call]) -> dict[str, Any]:
    """OpenAPI 3.1 of the calls, and of the two that are open to everyone."""
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    for path, name, summary, schema in (
        ("/healthz", "health", "Liveness", responses.ref("Health")),
        ("/openapi.json", "openapi", "This document", {"type": "object"}),
    ):
        paths[path] = {"get": _open(name, summary, schema)}
    paths[MCP_PATH] = {"post": _mcp()}
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tessera", "version": "1", "description": (about or "").strip()},
        "paths": paths,
        "components": {
            "schemas": responses.SCHEMAS,
            "securitySchemes": {
                "key": {"type": "http", "scheme": "bearer", "description": "The secret of an API key."}
            },
        },
        "security": [{"key": []}],
    }


def _open(name: str, summary: str, schema: dict[str, Any]) -> dict[str, Any]:
    """An operation for everyone; only a wrong Host or a closing server refuses it."""
    done = {"description": "Done", "content": {"application/json": {"schema": schema}}}
    refusals = {str(status): _refusal(status) for status in (421, 503)}
    return {
        "operationId": name,
        "summary": summary,
        "security": [],
        "responses": {"200": done, **refusals},
    }


def _mcp() -> dict[str, Any]:
    """The MCP face: its messages are JSON-RPC, and described by the protocol itself."""
    message = {"application/json": {"schema": {"type": "object"}}}
    statuses = (400, 401, 403, 404, 405, 406, 408, 413, 415, 421, 422, 503)
    refusals = {str(status): _refusal(status) for status in statuses}
    for refusal in refusals.values():
        refusal["content"] |= message  # a JSON-RPC error, when the message could be read
    return {
        "operationId": "mcp",
        "summary": "One message of the Model Context Protocol (streamable HTTP, without sessions)",
        "description": "For any key; each tool asks for the scope of its call.",
        "requestBody": {"required": True, "content": message},
        "responses": {
            "200": {"description": "The answer, JSON-RPC", "content": message},
            "202": {"description": "Taken; a notification has no answer"},
            **refusals,
        },
    }


def _operation(call: Call) -> dict[str, Any]:
    scope = "any key" if call.scope is None else f"scope {call.scope}"
    operation: dict[str, Any] = {
        "operationId": call.handler.__name__.strip("_"),
        "summary": call.summary,
        "description": f"For {scope}.",
        "x-scope": call.scope,
        "parameters": [*_path_parameters(call.path), *_query_parameters(call.query)],
        "responses": _responses(call),
    }
    if call.body is not None:
        operation["requestBody"] = {
            "required": not call.body_optional,
            "content": {"application/json": {"schema": call.body.schema()}},
        }
    return operation


def _path_parameters(path: str) -> list[dict[str, Any]]:
    return [
        {"name": name, "in": "path", "required": True, "schema": {"type": "string", "minLength": 1}}
        for name in re.findall(r"\{(\w+)\}", path)
    ]


def _query_parameters(query: Query) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "query",
            "required": name not in query.defaults,
            "schema": parameter.schema(),
        }
        for name, parameter in query.parameters.items()
    ]


def _responses(call: Call) -> dict[str, Any]:
    answered: dict[str, Any] = {}
    for status, meaning in call.answers.items():
        answered[str(status)] = {"description": meaning}
        if status not in (204, 304):
            answered[str(status)]["content"] = _content(call)
        if call.etag and status in (200, 304):
            answered[str(status)]["headers"] = {
                "ETag": {"description": "The sha256 of the body, quoted", "schema": {"type": "string"}}
            }
    return answered | {str(status): _refusal(status) for status in _OF_A_CALL}


def _content(call: Call) -> dict[str, Any]:
    if not call.returns:
        return {CONTENT_TYPE: {"schema": {"type": "string"}}}
    return {"application/json": {"schema": responses.ref(call.returns)}}


def _refusal(status: int) -> dict[str, Any]:
    refusal: dict[str, Any] = {
        "description": _REFUSALS[status],
        "content": {"application/problem+json": {"schema": responses.ref("Problem")}},
    }
    if status in _HEADERS:
        name, meaning = _HEADERS[status]
        refusal["headers"] = {name: {"description": meaning, "schema": {"type": "string"}}}
    return refusal
