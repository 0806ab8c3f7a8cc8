"""Every call of the store's HTTP interface, described once.

A description says what is sent (method, path, parameters, body), how the answer is read and when the call may
be sent again; it sends nothing itself. `tessera.client` turns each into a method of the blocking and of the
awaiting client, so that the two cannot drift apart. Source: the contract's table of calls (section 3).
"""

import secrets
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Generic, TypeVar
from urllib.parse import quote

import jiter

T = TypeVar("T")
Json = dict[str, Any]


class Repeat(Enum):
    """When a call may be sent a second time."""

    ALWAYS = "idempotent: sent again after a connection fault, 429 and 502-504"
    UNSENT = "not idempotent: sent again only when the store did nothing: no connection was made, or 429"


@dataclass(frozen=True, slots=True)
class Answer:
    """What came back: HTTP status, headers by lowercase name, the whole body."""

    status: int
    headers: Mapping[str, str]
    body: bytes


class UnexpectedAnswerError(ValueError):
    """A success that is not what the interface promises; most likely another program's address."""


def _object(answer: Answer) -> Json:
    try:
        value = jiter.from_json(answer.body, allow_inf_nan=False)
    except ValueError as error:
        raise UnexpectedAnswerError("it is not JSON") from error
    if not isinstance(value, dict):
        raise UnexpectedAnswerError("it is not a JSON object")
    return value


def _object_or_none(answer: Answer) -> Json | None:
    return None if answer.status == 204 or not answer.body else _object(answer)


def _bytes(answer: Answer) -> bytes:
    return answer.body


def page(answer: Answer) -> Json:
    """A list's page `{items, next_after, has_more}`; anything else is refused, lest a reader loop on it."""
    value = _object(answer)
    if not isinstance(value.get("items"), list) or not isinstance(value.get("has_more"), bool):
        raise UnexpectedAnswerError("it is not a page of items")
    return value


def onward(page: Json, after: str) -> str | None:
    """The cursor of the page that follows `page`, which was read from `after`; None at the end."""
    if not page["has_more"]:
        return None
    following = page.get("next_after")
    if not isinstance(following, str) or following == after:
        raise UnexpectedAnswerError(f"a page after cursor {after} says that more follows, but not from where")
    return following


@dataclass(frozen=True, slots=True)
class Call(Generic[T]):
    """One request, and how its answer is read. `bulk`: may take several times as long as others."""

    method: str
    path: str
    read: Callable[[Answer], T]
    params: tuple[tuple[str, str], ...] = ()
    body: Any = None
    repeat: Repeat = Repeat.ALWAYS
    bulk: bool = False
    needs_key: bool = True


def _given(**values: Any) -> Json:
    """The values that were given: None means "not sent", so that the store's own default holds."""
    return {name: value for name, value in values.items() if value is not None}


def _params(**values: Any) -> tuple[tuple[str, str], ...]:
    return tuple((name, str(value)) for name, value in values.items() if value is not None)


def _path(*parts: str) -> str:
    """A path below /v1 whose parts cannot change its shape: `..` or `/` in a name stays within its part."""
    if "" in parts:
        raise ValueError("an id, store or key must not be empty")
    quoted = (part.replace(".", "%2E") if part in (".", "..") else quote(part, safe="@:+") for part in parts)
    return "/v1/" + "/".join(quoted)


def _own_key(idempotency_key: str | None) -> str:
    """The caller's idempotency key, else a random one: a repeat after a lost answer is then the same call."""
    return secrets.token_hex(16) if idempotency_key is None else idempotency_key


# Tasks


def enqueue(
    queue: str,
    kind: str,
    brief: Mapping[str, Any],
    *,
    idempotency_key: str | None = None,
    private: bool = False,
    priority: int = 0,
    max_attempts: int = 3,
    pins: Sequence[Mapping[str, Any]] = (),
    owner_key_id: str | None = None,
) -> Call[Json]:
    """Put a verb into a queue. `pins` are `{store, key, version}`; `owner_key_id` is for admins.

    Returns `{task_id, state, fence, queue, kind}`. Without an idempotency key the call makes its own, so that
    its retries never enqueue twice; give one to make the same hold across calls and processes.
    """
    body = _given(
        queue=queue,
        kind=kind,
        brief=brief,
        idempotency_key=_own_key(idempotency_key),
        private=private or None,
        priority=priority or None,
        max_attempts=None if max_attempts == 3 else max_attempts,
        pins=list(pins) or None,
        owner_key_id=owner_key_id,
    )
    return Call("POST", "/v1/tasks", _object, body=body)


def claim(
    queue: str,
    *,
    kinds: Sequence[str] | None = None,
    task_id: str | None = None,
    lease_seconds: int = 300,
) -> Call[Json | None]:
    """Lease the next task of a queue; None when there is none.

    Returns `{task_id, state, fence, queue, kind, brief, pins, input_digest, lease_expires_at}`. A claim whose
    answer is lost is not sent again, since that could lease a second task: the lease lapses by itself.
    """
    kinds_given = None if kinds is None else list(kinds)
    body = _given(queue=queue, kinds=kinds_given, task_id=task_id, lease_seconds=lease_seconds)
    return Call("POST", "/v1/tasks/claim", _object_or_none, body=body, repeat=Repeat.UNSENT)


def heartbeat(task_id: str, fence: int, lease_seconds: int = 300) -> Call[Json | None]:
    """Extend the lease of a claim to `lease_seconds` from now; `Conflict` once the fence has moved."""
    body = {"fence": fence, "lease_seconds": lease_seconds}
    return Call("POST", _path("tasks", task_id, "heartbeat"), _object_or_none, body=body)


def draw(
    task_id: str,
    fence: int,
    dimension: str,
    arms: Sequence[Mapping[str, Any]],
    policy: Mapping[str, Any] | None = None,
) -> Call[Json]:
    """Let the store throw the coin among `arms`, each `{arm, weight}`. Returns `{arm, propensity}`."""
    body = _given(fence=fence, dimension=dimension, arms=list(arms), policy=policy)
    return Call("POST", _path("tasks", task_id, "draw"), _object, body=body)


def submit(
    task_id: str,
    fence: int,
    ok: bool,
    *,
    output: Any = None,
    failure: str | None = None,
    execution_report: Mapping[str, Any] | None = None,
    idempotency_key: str | None = None,
) -> Call[Json]:
    """Say how a claimed task went. Returns the receipt; `Conflict` when the fence has moved."""
    body = _given(
        fence=fence,
        ok=ok,
        output=output,
        failure=failure,
        execution_report=execution_report,
        idempotency_key=_own_key(idempotency_key),
    )
    return Call("POST", _path("tasks", task_id, "submit"), _object, body=body)


def cancel(task_id: str) -> Call[Json | None]:
    """Cancel a task; for its owner or an admin."""
    return Call("POST", _path("tasks", task_id, "cancel"), _object_or_none, body={})


def get_task(task_id: str) -> Call[Json]:
    """The task as it is now."""
    return Call("GET", _path("tasks", task_id), _object)


# Executions


def get_execution(run_id: str) -> Call[Json]:
    """One execution: the observation's item and `{brief_full, pins, output, failure, receipt}`."""
    return Call("GET", _path("executions", run_id), _object)


def _observations(
    read: Callable[[Answer], T],
    queue: str,
    kind: str | None,
    after: str,
    limit: int,
    store_id: str | None,
) -> Call[T]:
    params = _params(queue=queue, kind=kind, after=after, limit=limit, store_id=store_id)
    return Call("GET", "/v1/executions", read, params=params)


def execution_observations(
    queue: str, *, kind: str | None = None, after: str = "0", limit: int = 100, store_id: str | None = None
) -> Call[Json]:
    """One page `{store_id, items, next_after, has_more}` of observations in capture order."""
    return _observations(page, queue, kind, after, limit, store_id)


def observation_page(
    queue: str, *, kind: str | None = None, after: str = "0", limit: int = 100, store_id: str | None = None
) -> Call[bytes]:
    """The same page as its JSON bytes, undecoded, for readers that have their own decoder."""
    return _observations(_bytes, queue, kind, after, limit, store_id)


def pending(
    queue: str,
    *,
    kind: str | None = None,
    after: str = "0",
    cap: int = 10000,
    store_id: str | None = None,
) -> Call[Json]:
    """How many readable observations lie after a cursor: `{count, capped, last, store_id}`."""
    params = _params(queue=queue, kind=kind, after=after, cap=cap, store_id=store_id)
    return Call("GET", "/v1/executions/pending", _object, params=params)


def queues(*, store_id: str | None = None) -> Call[Json]:
    """`{queues: [name, ...], store_id}`: queues with executions that the key may read."""
    return Call("GET", "/v1/queues", _object, params=_params(store_id=store_id))


def recall(
    queue: str,
    kind: str,
    brief: Mapping[str, Any],
    *,
    input_digest: str | None = None,
    limit: int | None = None,
) -> Call[Json]:
    """The store's own baseline of likeness: `{matches: [{run_id, via, distance}], evidence_only: true}`."""
    body = _given(queue=queue, kind=kind, brief=brief, input_digest=input_digest, limit=limit)
    return Call("POST", "/v1/executions/recall", _object, body=body)


def list_draws(*, after: str | None = None, limit: int | None = None) -> Call[Json]:
    """A page of recorded draws, each beside the coin thrown again by the store; for admins."""
    return Call("GET", "/v1/draws", page, params=_params(after=after, limit=limit))


def import_attempts(queue: str, attempts: Sequence[Mapping[str, Any]]) -> Call[Json]:
    """Take 1 to 500 past attempts into a queue, all or none; for admins. Repeats are known by identity."""
    body = {"queue": queue, "attempts": list(attempts)}
    return Call("POST", "/v1/executions/import", _object, body=body, bulk=True)


# Records


def get_record(store: str, key: str, version: int | None = None) -> Call[Json]:
    """A record's newest version, or the one named."""
    return Call("GET", _path("records", store, key), _object, params=_params(version=version))


def record_versions(
    store: str, key: str, *, after: str | None = None, limit: int | None = None
) -> Call[Json]:
    """A page of a record's versions."""
    return Call(
        "GET", _path("records", store, key, "versions"), page, params=_params(after=after, limit=limit)
    )


def list_records(
    *,
    store: str | None = None,
    prefix: str | None = None,
    tag: str | None = None,
    category: str | None = None,
    after: str | None = None,
    limit: int = 100,
) -> Call[Json]:
    """A page of records in their newest versions."""
    params = _params(store=store, prefix=prefix, tag=tag, category=category, after=after, limit=limit)
    return Call("GET", "/v1/records", page, params=params)


def write_records(writes: Sequence[Mapping[str, Any]], *, idempotency_key: str | None = None) -> Call[Json]:
    """One compare-and-swap batch, all or none. Returns `{records: [{store, key, version, sha256}]}`.

    A refused batch raises `Conflict`, whose `conflicts` list index and current version of each; it is never
    sent again. A batch whose answer was lost is: its idempotency key makes the repeat give the first answer.
    """
    body = {"idempotency_key": _own_key(idempotency_key), "writes": list(writes)}
    return Call("POST", "/v1/records", _object, body=body, bulk=True)


# Keys, and the store itself


def create_key(
    name: str,
    scopes: Sequence[str],
    queues: Sequence[str],
    *,
    kinds: Sequence[str] | None = None,
    stores: Sequence[str] | None = None,
    expires_at: str | None = None,
) -> Call[Json]:
    """Make an API key: `{id, secret}`; the secret is not shown again. Not sent again after a lost answer."""
    body = _given(
        name=name,
        scopes=list(scopes),
        queues=list(queues),
        kinds=None if kinds is None else list(kinds),
        stores=None if stores is None else list(stores),
        expires_at=expires_at,
    )
    return Call("POST", "/v1/keys", _object, body=body, repeat=Repeat.UNSENT)


def list_keys(*, after: str | None = None, limit: int | None = None) -> Call[Json]:
    """A page of keys, without secrets."""
    return Call("GET", "/v1/keys", page, params=_params(after=after, limit=limit))


def revoke_key(key_id: str) -> Call[Json | None]:
    """End a key; repeating it changes nothing."""
    return Call("DELETE", _path("keys", key_id), _object_or_none)


def whoami() -> Call[Json]:
    """The caller's key: id, name, scopes, queues, kinds, stores, expiry; and the `store_id`."""
    return Call("GET", "/v1/whoami", _object)


def health() -> Call[Json]:
    """Liveness; needs no key."""
    return Call("GET", "/healthz", _object, needs_key=False)
