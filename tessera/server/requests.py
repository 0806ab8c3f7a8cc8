"""A call as the door knows it, and a request that has passed the door."""

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from tessera.server import queries
from tessera.server.answers import Answer
from tessera.server.metrics import Metrics
from tessera.server.queries import Query
from tessera.server.shapes import Shape
from tessera.store.database import Session
from tessera.store.opening import Store
from tessera.store.permission import Caller


@dataclass(frozen=True, slots=True)
class Request:
    """One request past the door: who asks, for what, with which checked values."""

    store: Store
    metrics: Metrics
    caller: Caller
    path: tuple[str, ...]
    query: dict[str, Any]
    body: Any
    if_none_match: bytes | None = None


Handler = Callable[[Session, Request], Answer]


@dataclass(frozen=True, slots=True)
class Call:
    """One route. ``scope`` None takes any key, ``body`` None no body; ``brief`` calls take no long time.

    ``returns`` names the shape of a success in ``responses``, "" for text; ``etag`` says that it carries one.
    ``done`` counts a call that wrote something, given its body. A write asks for a ``snapshot`` when all its
    reads must be of one moment.
    """

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
    snapshot: bool = False
    body_optional: bool = False
    returns: str = ""
    etag: bool = False
    done: Callable[[Metrics, Any], None] | None = None
    answers: dict[int, str] = field(default_factory=lambda: {200: "Done"})
