"""The door of the store: an ASGI application that lets through only what may be acted on.

Promises the order: the Host, the route, the size as the body streams in, the key, its scope, strict JSON,
every field; then one transaction. Whatever is refused is a problem document and has written nothing. No
answer carries a CORS header. Leaves out what the calls mean: ``calls`` and the store's modules say so.
"""

import contextlib
import errno
import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from tessera import json_door
from tessera.errors import (
    Fault,
    Forbidden,
    Invalid,
    Misdirected,
    Problem,
    Unavailable,
)
from tessera.server import answers, openapi
from tessera.server.answers import Answer
from tessera.server.calls import CALLS
from tessera.server.crew import Crew
from tessera.server.group import Group
from tessera.server.headers import RawHeaders, declared_size, has_body, host, secret, without_port
from tessera.server.mcp_http import PATH as MCP_PATH
from tessera.server.mcp_http import McpDoor
from tessera.server.metrics import UNMATCHED, Metrics
from tessera.server.receiving import CLOSING, GRACE_SECONDS, PROMPT, Bodies
from tessera.server.requests import Call, Request
from tessera.server.routes import MethodNotAllowed, Routes
from tessera.server.sending import Receive, Scope, Send, send_answer
from tessera.store import keys, permission
from tessera.store.compact import compact
from tessera.store.database import Busy, Session, Stale, settled
from tessera.store.opening import Store

log = logging.getLogger("tessera.server")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})
SLOW_SECONDS = 1.0
"""A request that takes longer is a warning in the log."""
_OPEN = ("/healthz", "/openapi.json")
_MOVED = Unavailable("what the request changes moved meanwhile; try again")


@dataclass(slots=True)
class Told:
    """What is told of a request, in the log and in the metrics."""

    method: str
    begun: float
    route: str = UNMATCHED
    key_id: str | None = None


class Asked(NamedTuple):
    """A request whose body is in, on its way to the call that answers it."""

    call: Call
    names: tuple[str, ...]
    headers: RawHeaders
    query_string: bytes
    body: bytes
    told: Told


class App:
    """The ASGI application over an open store; ``close`` it after the last request."""

    def __init__(
        self, store: Store, *, hosts: Sequence[str] = (), grace_seconds: float = GRACE_SECONDS
    ) -> None:
        self._store = store
        self._hosts = frozenset(name.lower().encode() for name in (*LOOPBACK, *hosts))
        self._bodies = Bodies(grace_seconds)
        self.metrics = Metrics(store.database)
        self._closing = self._closed = False
        self._routes = Routes(CALLS)
        self._document = compact(openapi.document(CALLS))
        self._mcp = McpDoor(self._for_tool, store.store_id)
        self._group = Group(store.database)
        self._readers = Crew("reader", 4)
        self._writers = Crew("writer", store.database.writers)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        told = Told(scope["method"], begun=time.perf_counter())
        try:
            answer = await self._answer(scope, receive, told)
        except Problem as problem:
            answer = answers.of_problem(problem, close=self._closing or has_body(scope["headers"]))
        except Exception as error:
            log.exception("a request failed")
            answer = answers.of_problem(_failure(error))
        self._tell(told, answer)
        await send_answer(answer, receive, send)

    async def end(self) -> None:
        """End what runs on the event loop; after the last request, before ``close``."""
        await self._mcp.close()

    def hurry(self) -> None:
        """Give bodies that are still coming in a few seconds more; on the event loop."""
        self._bodies.hurry()

    def refuse_new(self) -> None:
        """From now on answer 503 to what comes in; what is under way is finished."""
        self._closing = True

    def close(self) -> None:
        """Finish the work under way, then close the store; repeating it changes nothing."""
        self._readers.close()
        self._writers.close()
        if not self._closed:
            self._closed = True
            self._store.close()

    def _tell(self, told: Told, answer: Answer) -> None:
        seconds = time.perf_counter() - told.begun
        self.metrics.answered(told.method, told.route, answer.status, seconds)
        level = logging.WARNING if seconds > SLOW_SECONDS else logging.DEBUG
        if log.isEnabledFor(level):
            fields = {
                "method": told.method if told.route != UNMATCHED else "",
                "route": told.route,
                "status": answer.status,
                "milliseconds": round(seconds * 1000, 1),
                "key_id": told.key_id,
            }
            log.log(
                level, "a request took long" if level > logging.DEBUG else "request", extra={"fields": fields}
            )

    async def _answer(self, scope: Scope, receive: Receive, told: Told) -> Answer:
        headers: RawHeaders = scope["headers"]
        self._check_host(headers)
        if self._closing:
            raise Unavailable(CLOSING, extra={"retry_after": 1})
        method, path = scope["method"], scope["path"]
        if method in ("GET", "HEAD") and path in _OPEN:
            told.route = path
            return answers.of({"status": "ok"}) if path == "/healthz" else answers.of_bytes(self._document)
        if path == MCP_PATH:
            told.route = path
            return await self._mcp_message(scope, receive, told)
        call, names = self._routes.find("GET" if method == "HEAD" else method, path)
        told.route = call.path
        limit = json_door.MAX_BULK if call.bulk else json_door.MAX_BODY
        body = await self._body(limit, call.scope, headers, receive) if has_body(headers) else b""
        return await self._dispatch(Asked(call, names, headers, scope["query_string"], body, told))

    async def _mcp_message(self, scope: Scope, receive: Receive, told: Told) -> Answer:
        """One message to the MCP face, from a good key, and from no page of another site."""
        headers: RawHeaders = scope["headers"]
        if scope["method"] != "POST":
            raise MethodNotAllowed("this path takes POST", extra={"allow": "POST"})
        for name, value in headers:
            if name == b"origin" and without_port(value.lower().partition(b"://")[2]) not in self._hosts:
                raise Forbidden("a page of another origin may not call")
        body = await self._body(json_door.MAX_BODY, None, headers, receive)
        await self._readers.run(self._authenticate, headers, told)
        return await self._mcp.answer(scope, body)

    def _authenticate(self, headers: RawHeaders, told: Told) -> None:
        told.key_id = self._asking(None, headers).key_id

    def _asking(self, needed: str | None, headers: RawHeaders) -> permission.Caller:
        def ask() -> permission.Caller:
            with self._store.database.read() as session:
                return _caller(session, needed, headers)

        return settled(ask)

    async def _for_tool(
        self, call: Call, names: tuple[str, ...], headers: RawHeaders, query_string: bytes, body: bytes
    ) -> Answer:
        """A tool's call: the same door, the same key, the same answer."""
        told = Told(call.method, begun=time.perf_counter(), route=call.path)
        try:
            answer = await self._dispatch(Asked(call, names, headers, query_string, body, told))
        except Problem as problem:
            answer = answers.of_problem(problem)
        except Exception as error:
            log.exception("a tool's call failed")
            answer = answers.of_problem(_failure(error))
        self._tell(told, answer)
        return answer

    async def _dispatch(self, asked: Asked) -> Answer:
        call = asked.call
        if call.brief and len(asked.body) <= PROMPT and self._store.database.prompt:
            # Done here: another thread would cost more than the work. Given away when it would have to wait.
            with contextlib.suppress(Busy):
                return await self._together(asked) if call.writes else self._perform(asked)
        crew = self._writers if call.writes else self._readers
        return await crew.run(self._perform, asked)

    def _check_host(self, headers: RawHeaders) -> None:
        if host(headers) not in self._hosts:
            raise Misdirected("this server does not answer for that Host")

    async def _body(self, limit: int, needed: str | None, headers: RawHeaders, receive: Receive) -> bytes:
        """The body, within its size and time; a large one is kept only for a key with the scope needed."""
        return await self._bodies.whole(
            limit,
            declared_size(headers),
            lambda: self._readers.run(self._refusal, needed, headers),
            receive,
        )

    def _refusal(self, needed: str | None, headers: RawHeaders) -> Problem | None:
        """Why the key may not make the call, None when it may."""
        try:
            self._asking(needed, headers)
        except Problem as problem:
            return problem
        return None

    def _perform(self, asked: Asked) -> Answer:
        """Everything that needs the database, in a transaction of its own."""
        database, call = self._store.database, asked.call

        def admit(session: Session) -> Request:
            return self._admit(session, asked)

        def read() -> Answer:
            with database.read() as session:
                return call.handler(session, admit(session))

        def judge() -> Request:
            with database.read() as session:
                return admit(session)

        def write(request: Request | None) -> tuple[Request, Answer, int]:
            with database.write(snapshot=call.snapshot) as session:
                request = request or admit(session)
                return request, call.handler(session, request), session.rows_written

        try:
            if not call.writes:
                return settled(read)
            # Judging a large body takes long: once, and not while others wait for their turn to write.
            judged = settled(judge) if len(asked.body) > PROMPT else None
            request, answer, rows = settled(lambda: write(judged))
        except Stale:
            return answers.of_problem(_MOVED)
        except Problem as problem:
            return answers.of_problem(problem)
        self._count(call, request, rows)
        return answer

    async def _together(self, asked: Asked) -> Answer:
        """A short write, in one transaction with those that came with it; Busy when it would have to wait."""

        def write(session: Session) -> tuple[Request, Answer, int]:
            before = session.rows_written
            request = self._admit(session, asked)
            answer = asked.call.handler(session, request)
            return request, answer, session.rows_written - before

        try:
            request, answer, rows = await self._group.run(write)
        except Stale:
            return answers.of_problem(_MOVED)
        except Problem as problem:
            return answers.of_problem(problem)
        self._count(asked.call, request, rows)
        return answer

    def _count(self, call: Call, request: Request, rows: int) -> None:
        """What a committed call did; one that repeats an earlier answer wrote nothing."""
        if not rows:
            return
        self.metrics.wrote(call.path, rows)
        if call.done is not None:
            call.done(self.metrics, request.body)
        if call.scope == "admin":
            fields = {"method": call.method, "route": call.path, "key_id": request.caller.key_id}
            log.info("an admin changed the store", extra={"fields": fields})

    def _admit(self, session: Session, asked: Asked) -> Request:
        """The key, its scope, the JSON and every field, in this order."""
        call, body = asked.call, asked.body
        caller = _caller(session, call.scope, asked.headers)
        asked.told.key_id = caller.key_id
        faults: list[Fault] = []
        query = call.query.read(asked.query_string, faults)
        value = None
        if call.body is not None and (body or not call.body_optional):
            value = call.body.check(json_door.loads(body), "", faults)
        elif body and not call.body_optional:
            faults.append(Fault("", "this call takes no body"))
        if faults:
            raise Invalid("the request is not as it must be", errors=faults)
        etag = next((value for name, value in asked.headers if name == b"if-none-match"), None)
        return Request(self._store, self.metrics, caller, asked.names, query, value, etag)


def create_app(store: Store, *, hosts: Sequence[str] = (), grace_seconds: float = GRACE_SECONDS) -> App:
    """The application over an open store; ``hosts`` are names beside loopback that it answers for."""
    return App(store, hosts=hosts, grace_seconds=grace_seconds)


def _failure(error: Exception) -> Problem:
    """What nobody foresaw: of ours, unless the machine has run out of something."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES):
        return Unavailable("the machine has too little left of something at the moment; try again later")
    return Problem("something went wrong inside the store", status=500)


def _caller(session: Session, needed: str | None, headers: RawHeaders) -> permission.Caller:
    """The key that asks, if it has the scope that is needed."""
    caller = keys.authenticate(session, secret(headers))
    if needed is not None:
        permission.require_scope(caller, needed)
    return caller
