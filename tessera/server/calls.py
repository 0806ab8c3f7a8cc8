"""The calls of the API: which path, which scope, which body, and what of the store they ask for.

Each call is a row of CALLS; the door reads the rows, the OpenAPI document is made from them. Handlers run
inside one transaction and only translate: the store's modules decide.
"""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tessera.errors import Conflict
from tessera.server import answers, bodies, queries
from tessera.server.answers import Answer
from tessera.server.queries import Query
from tessera.server.shapes import Shape
from tessera.store import (
    executions,
    imports,
    keys,
    leases,
    permission,
    record_lists,
    records,
    submissions,
    tasks,
)
from tessera.store.database import Session
from tessera.store.executions import Scope
from tessera.store.opening import Store
from tessera.store.permission import Caller


@dataclass(frozen=True, slots=True)
class Request:
    """One request past the door: who asks, for what, with which checked values."""

    store: Store
    caller: Caller
    path: tuple[str, ...]
    query: dict[str, Any]
    body: Any
    if_none_match: bytes | None = None


Handler = Callable[[Session, Request], Answer]


@dataclass(frozen=True, slots=True)
class Call:
    """One route. ``scope`` None takes any key, ``body`` None no body; ``brief`` calls take no long time."""

    method: str
    path: str
    summary: str
    scope: str | None
    handler: Handler
    body: Shape | None = None
    query: Query = queries.NONE
    writes: bool = False
    bulk: bool = False
    brief: bool = False
    body_optional: bool = False
    answers: dict[int, str] = field(default_factory=lambda: {200: "Done"})


def _same_store(request: Request) -> None:
    wanted = request.query.get("store_id")
    if wanted is not None and wanted != request.store.store_id:
        raise Conflict(
            "the request names another store than this one", extra={"store_id": request.store.store_id}
        )


def _enqueue(session: Session, request: Request) -> Answer:
    new, view = tasks.enqueue(session, request.caller, request.body)
    return answers.of(view, 201 if new else 200)


def _claim(session: Session, request: Request) -> Answer:
    claimed = leases.claim(session, request.caller, request.body)
    if claimed is None:
        return answers.NOTHING
    brief, pins = claimed.pop("brief"), claimed.pop("pins")
    head = answers.encode(claimed)
    return answers.of_bytes(head[:-1] + b',"brief":' + brief + b',"pins":' + pins + b"}")


def _heartbeat(session: Session, request: Request) -> Answer:
    return answers.of(leases.heartbeat(session, request.caller, request.path[0], request.body))


def _submit(session: Session, request: Request) -> Answer:
    return answers.of_bytes(submissions.submit(session, request.caller, request.path[0], request.body))


def _task(session: Session, request: Request) -> Answer:
    return answers.of(tasks.get(session, request.caller, request.path[0]))


def _cancel(session: Session, request: Request) -> Answer:
    return answers.of(tasks.cancel(session, request.caller, request.path[0]))


def _scope(request: Request) -> Scope:
    _same_store(request)
    return Scope(request.query["queue"], request.query["kind"], request.query["after"])


def _observations(session: Session, request: Request) -> Answer:
    return answers.of_bytes(
        executions.page(
            session, request.caller, _scope(request), request.query["limit"], request.store.store_id
        )
    )


def _pending(session: Session, request: Request) -> Answer:
    return answers.of(
        executions.pending(
            session, request.caller, _scope(request), request.query["cap"], request.store.store_id
        )
    )


def _execution(session: Session, request: Request) -> Answer:
    return answers.of_bytes(executions.get(session, request.caller, request.path[0]))


def _import(session: Session, request: Request) -> Answer:
    return answers.of(imports.take(session, request.caller, request.body))


def _queues(session: Session, request: Request) -> Answer:
    _same_store(request)
    return answers.of(executions.queues(session, request.caller, request.store.store_id))


def _write_records(session: Session, request: Request) -> Answer:
    body = request.body
    return answers.of_bytes(
        records.write(session, request.caller, body["writes"], body.get("idempotency_key")), 201
    )


def _record(session: Session, request: Request) -> Answer:
    store, key = request.path
    body, sha256 = records.get(session, request.caller, store, key, request.query["version"])
    etag = f'"{sha256}"'.encode()
    if request.if_none_match == etag:
        return Answer(304, b"", ((b"etag", etag),))
    return Answer(200, body, ((b"content-type", b"application/json"), (b"etag", etag)))


def _versions(session: Session, request: Request) -> Answer:
    store, key = request.path
    after, limit = request.query["after"], request.query["limit"]
    return answers.of(record_lists.versions(session, request.caller, store, key, after, limit))


def _records(session: Session, request: Request) -> Answer:
    return answers.of(record_lists.newest(session, request.caller, **request.query))


def _create_key(session: Session, request: Request) -> Answer:
    body = request.body
    grant = permission.Grant(
        name=body["name"],
        scopes=frozenset(body["scopes"]),
        queues=tuple(body["queues"]),
        kinds=None if body.get("kinds") is None else frozenset(body["kinds"]),
        stores=None if body.get("stores") is None else frozenset(body["stores"]),
        expires_at=body.get("expires_at"),
    )
    permission.require_within(request.caller, grant)
    secret = keys.new_secret()
    return answers.of({"id": keys.add(session, grant, secret), "secret": secret}, 201)


def _keys(session: Session, request: Request) -> Answer:
    return answers.of(keys.page(session, request.query["after"], request.query["limit"]))


def _revoke(session: Session, request: Request) -> Answer:
    return answers.of(keys.revoke(session, request.path[0]))


def _whoami(_session: Session, request: Request) -> Answer:
    return answers.of(keys.whoami(request.caller, request.store.store_id))


CALLS: tuple[Call, ...] = (
    Call(
        "POST",
        "/v1/tasks",
        "Enqueue a task",
        "write",
        _enqueue,
        body=bodies.ENQUEUE,
        writes=True,
        brief=True,
        answers={201: "Enqueued", 200: "The task as it is now: its idempotency key was used before"},
    ),
    Call(
        "POST",
        "/v1/tasks/claim",
        "Claim the next task of a queue, or the one named",
        "work",
        _claim,
        body=bodies.CLAIM,
        writes=True,
        brief=True,
        answers={200: "Claimed", 204: "Nothing to claim"},
    ),
    Call(
        "POST",
        "/v1/tasks/{task_id}/heartbeat",
        "Extend the lease of a claimed task",
        "work",
        _heartbeat,
        body=bodies.HEARTBEAT,
        writes=True,
        brief=True,
    ),
    Call(
        "POST",
        "/v1/tasks/{task_id}/submit",
        "Submit how a claimed task went; the report and its learning block are optional",
        "work",
        _submit,
        body=bodies.SUBMIT,
        writes=True,
        brief=True,
        answers={200: "The receipt"},
    ),
    Call("GET", "/v1/tasks/{task_id}", "A task as it is now", "read", _task, brief=True),
    Call(
        "POST",
        "/v1/tasks/{task_id}/cancel",
        "Cancel a task that is not over",
        "write",
        _cancel,
        body=bodies.NOTHING,
        body_optional=True,
        writes=True,
        brief=True,
    ),
    Call(
        "GET",
        "/v1/executions",
        "Observations of a queue in capture order: evidence, never permission to reuse an output",
        "read",
        _observations,
        query=queries.OBSERVATIONS,
    ),
    Call(
        "GET",
        "/v1/executions/pending",
        "How many readable observations lie behind a cursor",
        "read",
        _pending,
        query=queries.PENDING,
    ),
    Call(
        "POST",
        "/v1/executions/import",
        "Import past attempts; safe to repeat",
        "admin",
        _import,
        body=bodies.IMPORT,
        writes=True,
        bulk=True,
    ),
    Call("GET", "/v1/executions/{run_id}", "One execution whole", "read", _execution),
    Call(
        "GET",
        "/v1/queues",
        "Queues with executions that the key may read",
        "read",
        _queues,
        query=queries.QUEUES,
    ),
    Call(
        "POST",
        "/v1/records",
        "Write records by compare-and-swap, all or none",
        "write",
        _write_records,
        body=bodies.RECORDS,
        writes=True,
        bulk=True,
        answers={201: "Written"},
    ),
    Call("GET", "/v1/records", "Newest versions, without bodies", "read", _records, query=queries.RECORDS),
    Call(
        "GET",
        "/v1/records/{store}/{key}",
        "A record, its newest version by default",
        "read",
        _record,
        query=queries.RECORD,
        answers={200: "The version", 304: "It is the one that If-None-Match names"},
    ),
    Call(
        "GET",
        "/v1/records/{store}/{key}/versions",
        "A record's history, without bodies",
        "read",
        _versions,
        query=queries.VERSIONS,
    ),
    Call(
        "POST",
        "/v1/keys",
        "Make an API key; its secret is shown once",
        "admin",
        _create_key,
        body=bodies.KEYS,
        writes=True,
        answers={201: "The id and the secret"},
    ),
    Call("GET", "/v1/keys", "API keys, without their secrets", "admin", _keys, query=queries.KEYS),
    Call("DELETE", "/v1/keys/{key_id}", "Revoke an API key", "admin", _revoke, writes=True),
    Call("GET", "/v1/whoami", "What this key is granted", None, _whoami, brief=True),
)
