"""Who may do what: the one place that decides (contract, section 3, "Permission").

Every route, list and claim asks here, with facts that others read from the database. What a request names
and a key is not granted is Forbidden, whether or not it exists; what is found by id or key and may not be
seen is treated as absent by the caller of these functions. Scopes do not imply each other. Pure.
"""

from collections.abc import Iterable
from dataclasses import dataclass

from tessera.errors import Forbidden

SCOPES = ("read", "work", "write", "admin")
VISIBILITIES = ("private", "surface_only", "shared")


@dataclass(frozen=True, slots=True)
class Grant:
    """What a key is granted. ``kinds`` and ``stores`` None mean all; ``expires_at`` milliseconds UTC."""

    name: str
    scopes: frozenset[str]
    queues: tuple[str, ...]
    kinds: frozenset[str] | None
    stores: frozenset[str] | None
    expires_at: int | None

    @property
    def is_admin(self) -> bool:
        return "admin" in self.scopes

    def allows_queue(self, queue: str) -> bool:
        return any(
            queue.startswith(name[:-1]) if name.endswith("*") else queue == name for name in self.queues
        )

    def allows_kind(self, kind: str) -> bool:
        return self.kinds is None or kind in self.kinds

    def allows_store(self, store: str) -> bool:
        return self.stores is None or store in self.stores


@dataclass(frozen=True, slots=True)
class Caller(Grant):
    """An authenticated key."""

    key_id: str


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """What decides who may read a version of a record, and its digest."""

    store: str
    visibility: str
    surface_queue: str | None
    surface_kind: str | None
    key_id: str
    sha256: str


def require_scope(caller: Grant, scope: str) -> None:
    """Forbidden unless the key holds the scope."""
    if scope not in caller.scopes:
        raise Forbidden(f"this key lacks the scope {scope}")


def require_queue(caller: Grant, queue: str) -> None:
    """Forbidden unless the key is granted the queue that the request names."""
    if not caller.allows_queue(queue):
        raise Forbidden(f"this key is not granted the queue {queue}")


def require_kinds(caller: Grant, kinds: Iterable[str]) -> None:
    """Forbidden unless the key is granted each kind that the request names."""
    for kind in kinds:
        if not caller.allows_kind(kind):
            raise Forbidden(f"this key is not granted the kind {kind}")


def require_stores(caller: Grant, stores: Iterable[str]) -> None:
    """Forbidden unless the key is granted each store that the request names."""
    for store in stores:
        if not caller.allows_store(store):
            raise Forbidden(f"this key is not granted the store {store}")


def require_within(caller: Grant, wanted: Grant) -> None:
    """Forbidden when a key to be made would reach a queue, kind or store that its maker is not granted."""
    for queue in wanted.queues:
        reach = queue.removesuffix("*")
        if not any(
            reach.startswith(name[:-1]) if name.endswith("*") else name == queue for name in caller.queues
        ):
            raise Forbidden(f"this key is not granted the queue {queue}")
    for what, mine, theirs in (
        ("kind", caller.kinds, wanted.kinds),
        ("store", caller.stores, wanted.stores),
    ):
        if mine is None:
            continue
        if theirs is None:
            raise Forbidden(f"this key is not granted every {what}")
        for name in sorted(theirs - mine):
            raise Forbidden(f"this key is not granted the {what} {name}")


def may_read_record(caller: Caller, record: RecordFacts | None) -> bool:
    """Whether the key may read this version; a record that is not there may not be read."""
    if record is None or "read" not in caller.scopes or not caller.allows_store(record.store):
        return False
    if record.key_id == caller.key_id or caller.is_admin or record.visibility == "shared":
        return True
    if record.visibility != "surface_only" or record.surface_queue is None:
        return False
    if not caller.allows_queue(record.surface_queue):
        return False
    return caller.kinds is None if record.surface_kind is None else caller.allows_kind(record.surface_kind)


def may_write_next(caller: Caller, newest: RecordFacts | None) -> bool:
    """Whether the key may write the version after ``newest``; its scope and store are judged before."""
    if newest is None or newest.visibility != "private":
        return True
    return newest.key_id == caller.key_id or caller.is_admin


def is_audience(caller: Caller, audience: str) -> bool:
    """Whether a task or run of this audience (empty, or the owner of a private one) is for the key to see."""
    return not audience or audience == caller.key_id or caller.is_admin


def audiences(caller: Caller) -> tuple[str, ...] | None:
    """The audiences for which ``is_audience`` holds, None when it holds for all."""
    return None if caller.is_admin else ("", caller.key_id)


def may_read_run(
    caller: Caller, queue: str, kind: str, audience: str, pins: Iterable[RecordFacts | None]
) -> bool:
    """Whether the key may read a run or task: scope, queue and kind, its audience, every pin."""
    return (
        "read" in caller.scopes
        and caller.allows_queue(queue)
        and caller.allows_kind(kind)
        and is_audience(caller, audience)
        and all(may_read_record(caller, pin) for pin in pins)
    )


def may_cancel(caller: Caller, queue: str, kind: str, owner_key_id: str) -> bool:
    """Whether the key may cancel a task: its owner or an admin, within the grant."""
    return (
        caller.allows_queue(queue)
        and caller.allows_kind(kind)
        and (owner_key_id == caller.key_id or caller.is_admin)
    )


def may_be_offered(
    caller: Caller, kind: str, audience: str, pins: Iterable[RecordFacts | None], *, by_id: bool
) -> bool:
    """Whether a claim may offer the task: a private one to its owner, to an admin by id only."""
    return (
        caller.allows_kind(kind)
        and (not audience or audience == caller.key_id or (by_id and caller.is_admin))
        and all(may_read_record(caller, pin) for pin in pins)
    )
