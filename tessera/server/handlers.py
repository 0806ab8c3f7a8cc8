"""What each call asks of the store: one short function a route, inside one transaction.

Handlers only translate, from a checked request to the store's modules and from what those give to an answer;
the store decides, permission included.
"""

from tessera.errors import Conflict
from tessera.server import answers
from tessera.server.answers import Answer
from tessera.server.metrics import CONTENT_TYPE
from tessera.server.requests import Request
from tessera.store import (
    draws,
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
from tessera.store.compact import compact
from tessera.store.database import Session
from tessera.store.reader import Scope
from tessera.store.recall import recall as recall_runs


def _same_store(request: Request) -> None:
    wanted = request.query.get("store_id")
    if wanted is not None and wanted != request.store.store_id:
        raise Conflict(
            "the request names another store than this one", extra={"store_id": request.store.store_id}
        )


def enqueue(session: Session, request: Request) -> Answer:
    """201 for a new task, 200 for the one that the idempotency key made."""
    new, view = tasks.enqueue(session, request.caller, request.body)
    return answers.of(view, 201 if new else 200)


def claim(session: Session, request: Request) -> Answer:
    """204 when there is nothing to take."""
    claimed = leases.claim(session, request.caller, request.body)
    if claimed is None:
        return answers.NOTHING
    brief, pins = claimed.pop("brief"), claimed.pop("pins")
    head = compact(claimed)
    return answers.of_bytes(head[:-1] + b',"brief":' + brief + b',"pins":' + pins + b"}")


def heartbeat(session: Session, request: Request) -> Answer:
    """The lease, extended."""
    return answers.of(leases.heartbeat(session, request.caller, request.path[0], request.body))


def draw(session: Session, request: Request) -> Answer:
    """The coin, thrown or as it fell."""
    secret = request.store.draw_secret
    return answers.of(draws.draw(session, request.caller, request.path[0], request.body, secret))


def submit(session: Session, request: Request) -> Answer:
    """The receipt."""
    return answers.of_bytes(submissions.submit(session, request.caller, request.path[0], request.body))


def get_task(session: Session, request: Request) -> Answer:
    """The task as it is now."""
    return answers.of(tasks.get(session, request.caller, request.path[0]))


def cancel(session: Session, request: Request) -> Answer:
    """The task, cancelled."""
    return answers.of(tasks.cancel(session, request.caller, request.path[0]))


def _scope(request: Request) -> Scope:
    _same_store(request)
    return Scope(request.query["queue"], request.query["kind"], request.query["after"])


def list_observations(session: Session, request: Request) -> Answer:
    """A page of observations."""
    return answers.of_bytes(
        executions.page(
            session, request.caller, _scope(request), request.query["limit"], request.store.store_id
        )
    )


def count_pending(session: Session, request: Request) -> Answer:
    """How many lie behind a cursor."""
    return answers.of(
        executions.pending(
            session, request.caller, _scope(request), request.query["cap"], request.store.store_id
        )
    )


def get_execution(session: Session, request: Request) -> Answer:
    """A run, whole."""
    return answers.of_bytes(executions.get(session, request.caller, request.path[0]))


def recall(session: Session, request: Request) -> Answer:
    """Runs like a brief."""
    return answers.of(recall_runs(session, request.caller, request.body))


def list_draws(session: Session, request: Request) -> Answer:
    """Draws, thrown again."""
    after, limit = request.query["after"], request.query["limit"]
    return answers.of(draws.page(session, request.caller, after, limit, request.store.draw_secret))


def import_(session: Session, request: Request) -> Answer:
    """How many attempts are new."""
    return answers.of(imports.take(session, request.caller, request.body))


def list_queues(session: Session, request: Request) -> Answer:
    """Queues that hold something to read."""
    _same_store(request)
    return answers.of(executions.queues(session, request.caller, request.store.store_id))


def write_records(session: Session, request: Request) -> Answer:
    """The versions written."""
    body = request.body
    return answers.of_bytes(
        records.write(session, request.caller, body["writes"], body.get("idempotency_key")), 201
    )


def get_record(session: Session, request: Request) -> Answer:
    """A version; 304 when the caller has it."""
    store, key = request.path
    body, sha256 = records.get(session, request.caller, store, key, request.query["version"])
    etag = f'"{sha256}"'.encode()
    if request.if_none_match == etag:
        return Answer(304, b"", ((b"etag", etag),))
    return Answer(200, body, ((b"content-type", b"application/json"), (b"etag", etag)))


def record_versions(session: Session, request: Request) -> Answer:
    """A page of a record's history."""
    store, key = request.path
    after, limit = request.query["after"], request.query["limit"]
    return answers.of(record_lists.versions(session, request.caller, store, key, after, limit))


def list_records(session: Session, request: Request) -> Answer:
    """A page of newest versions."""
    return answers.of(record_lists.newest(session, request.caller, **request.query))


def create_key(session: Session, request: Request) -> Answer:
    """A key and its secret."""
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


def list_keys(session: Session, request: Request) -> Answer:
    """A page of keys."""
    return answers.of(keys.page(session, request.query["after"], request.query["limit"]))


def revoke_key(session: Session, request: Request) -> Answer:
    """The key, ended."""
    return answers.of(keys.revoke(session, request.path[0]))


def whoami(_session: Session, request: Request) -> Answer:
    """The caller's own key."""
    return answers.of(keys.whoami(request.caller, request.store.store_id))


def metrics(_session: Session, request: Request) -> Answer:
    """Prometheus text."""
    return Answer(200, request.metrics.exposition(), ((b"content-type", CONTENT_TYPE.encode()),))
