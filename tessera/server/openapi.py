"""The OpenAPI document, made from the calls that the door serves, so that it cannot say anything else."""

import re
from collections.abc import Iterable
from typing import Any

from tessera import __doc__ as about
from tessera.server.calls import Call
from tessera.server.queries import Query

_PROBLEM = {
    "type": "object",
    "required": ["type", "title", "status", "detail"],
    "properties": {
        "type": {"type": "string"},
        "title": {"type": "string"},
        "status": {"type": "integer"},
        "detail": {"type": "string"},
        "errors": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["path", "message"],
                "properties": {"path": {"type": "string"}, "message": {"type": "string"}},
            },
        },
    },
}
_REFUSALS = {
    400: "Not well-formed JSON",
    401: "No usable key",
    403: "The key is not granted what the request names",
    404: "Absent, or not to be seen",
    409: "The state moved",
    413: "The body is too large",
    421: "Another Host",
    422: "A value is wrong: errors says where",
    503: "Try again later",
}


def document(calls: Iterable[Call]) -> dict[str, Any]:
    """OpenAPI 3.1 of the calls, and of the two that are open to everyone."""
    paths: dict[str, Any] = {}
    for call in calls:
        paths.setdefault(call.path, {})[call.method.lower()] = _operation(call)
    for path, summary in (("/healthz", "Liveness"), ("/openapi.json", "This document")):
        paths[path] = {
            "get": {
                "summary": summary,
                "security": [],
                "responses": {
                    "200": {"description": "Done", "content": {"application/json": {"schema": {}}}}
                },
            }
        }
    return {
        "openapi": "3.1.0",
        "info": {"title": "Tessera", "version": "1", "description": (about or "").strip()},
        "paths": paths,
        "components": {
            "schemas": {"Problem": _PROBLEM},
            "securitySchemes": {"key": {"type": "http", "scheme": "bearer"}},
        },
        "security": [{"key": []}],
    }


def _operation(call: Call) -> dict[str, Any]:
    scope = "any key" if call.scope is None else f"scope {call.scope}"
    operation: dict[str, Any] = {
        "operationId": call.handler.__name__.strip("_"),
        "summary": call.summary,
        "description": f"For {scope}.",
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
    responses: dict[str, Any] = {}
    for status, meaning in call.answers.items():
        responses[str(status)] = {"description": meaning}
        if status not in (204, 304):
            responses[str(status)]["content"] = {"application/json": {"schema": {"type": "object"}}}
    for status, meaning in _REFUSALS.items():
        responses[str(status)] = {
            "description": meaning,
            "content": {"application/problem+json": {"schema": {"$ref": "#/components/schemas/Problem"}}},
        }
    return responses
