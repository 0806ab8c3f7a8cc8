"""The door of the store: an ASGI application that lets through only what may be acted on.

Promises the order: the Host, the route, the size as the body streams in, the key, its scope, strict JSON,
every field; then one transaction. Whatever is refused is a problem document and has written nothing. No
answer carries a CORS header. Leaves out what the calls mean: ``calls`` and the store's modules say so.
"""

import asyncio
import contextlib
import errno
import logging
import re
from collections.abc import Awaitable, Callable, MutableMapping, Sequence
from typing import Any

from tessera import json_door
from tessera.errors import Fault, Invalid, Misdirected, Problem, TooLarge, Unauthorized, Unavailable
from tessera.server import answers, openapi
from tessera.server.answers import Answer
from tessera.server.calls import CALLS, Call, Request
from tessera.server.crew import Crew
from tessera.server.routes import Routes
from tessera.store import keys, permission
from tessera.store.database import Busy, Session, Stale
from tessera.store.opening import Store

Scope = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[MutableMapping[str, Any]]]
Send = Callable[[MutableMapping[str, Any]], Awaitable[None]]
RawHeaders = Sequence[tuple[bytes, bytes]]

log = logging.getLogger("tessera.server")

LOOPBACK = ("127.0.0.1", "localhost", "[::1]")
GRACE_SECONDS = 10.0
"""How long a body may take, beside the time its bytes take at MIN_RATE."""
MIN_RATE = 64 * 1024
"""Bytes a second; a body that stays slower is cut off."""
_DRAIN_SECONDS = 2.0
_SHORTAGES = frozenset({errno.EMFILE, errno.ENFILE, errno.ENOSPC, errno.EDQUOT, errno.ENOMEM})
_PROMPT = 32 * 1024  # bytes of a body that is judged in less time than a transaction of its own takes
_BEARER = re.compile(r"(?i:bearer) +([\x21-\x7e]+)")


class App:
    """The ASGI application over an open store; ``close`` it after the last request."""

    def __init__(
        self, store: Store, *, hosts: Sequence[str] = (), grace_seconds: float = GRACE_SECONDS
    ) -> None:
        self._store = store
        self._hosts = frozenset(name.lower().encode() for name in (*LOOPBACK, *hosts))
        self._grace = grace_seconds
        self._routes = Routes(CALLS)
        self._document = answers.encode(openapi.document(CALLS))
        self._readers = Crew("reader", 4)
        self._writers = Crew("writer", 2)  # one prepares while the other waits for the disk

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        try:
            answer = await self._answer(scope, receive)
        except Problem as problem:
            answer = answers.of_problem(problem, close=_has_body(scope["headers"]))
        except Exception as error:
            log.exception("a request failed")
            answer = answers.of_problem(_failure(error))
        await _send(answer, receive, send)

    def close(self) -> None:
        """Finish the work under way, then close the store."""
        self._readers.close()
        self._writers.close()
        self._store.database.close()

    async def _answer(self, scope: Scope, receive: Receive) -> Answer:
        headers: RawHeaders = scope["headers"]
        self._check_host(headers)
        method, path = scope["method"], scope["path"]
        if method in ("GET", "HEAD"):
            if path == "/healthz":
                return answers.of({"status": "ok"})
            if path == "/openapi.json":
                return answers.of_bytes(self._document)
        call, names = self._routes.find("GET" if method == "HEAD" else method, path)
        body = await self._body(call, headers, receive) if _has_body(headers) else b""
        arguments = (call, names, headers, scope["query_string"], body)
        if call.brief and len(body) <= _PROMPT:
            # Done here: another thread would cost more than the work. Given away when it would have to wait.
            with contextlib.suppress(Busy):
                return self._perform(*arguments, wait=False)
        crew = self._writers if call.writes else self._readers
        return await crew.run(self._perform, *arguments)

    def _check_host(self, headers: RawHeaders) -> None:
        named = [value for name, value in headers if name == b"host"]
        host = named[0].lower() if len(named) == 1 else b""
        name, separator, port = host.rpartition(b":")
        if separator and not host.endswith(b"]"):
            host = name if port.isdigit() or not port else b""
        if host not in self._hosts:
            raise Misdirected("this server does not answer for that Host")

    async def _body(self, call: Call, headers: RawHeaders, receive: Receive) -> bytes:
        """The body, within its size and time; a large one is kept only for a key that may make the call."""
        limit = json_door.MAX_BULK if call.bulk else json_door.MAX_BODY
        declared = _declared(headers)
        if declared is not None and declared > limit:
            raise TooLarge(f"the body is over {limit} bytes")
        loop = asyncio.get_running_loop()
        begun = loop.time()
        chunks: list[bytes] = []
        size = 0
        asked, refusal = False, None
        while True:
            try:
                async with asyncio.timeout_at(begun + self._grace + size / MIN_RATE):
                    message = await receive()
            except TimeoutError:
                raise Problem("the body came too slowly", status=408) from None
            if message["type"] == "http.disconnect":
                raise Problem("the client went away", status=400)
            chunk = message.get("body", b"")
            size += len(chunk)
            if size > limit:
                raise TooLarge(f"the body is over {limit} bytes")
            if size > _PROMPT and not asked:
                asked, refusal = True, await self._readers.run(self._refusal, call, headers)
            if refusal is None:
                chunks.append(chunk)
            else:
                chunks.clear()  # counted to its end, so that the size is judged first, but not kept
            if not message.get("more_body", False):
                if refusal is not None:
                    raise refusal
                return chunks[0] if len(chunks) == 1 else b"".join(chunks)

    def _refusal(self, call: Call, headers: RawHeaders) -> Problem | None:
        """Why the key may not make the call, None when it may."""
        try:
            with self._store.database.read() as session:
                _caller(session, call, headers)
        except Problem as problem:
            return problem
        return None

    def _perform(
        self,
        call: Call,
        names: tuple[str, ...],
        headers: RawHeaders,
        query_string: bytes,
        body: bytes,
        wait: bool = True,
    ) -> Answer:
        """Everything that needs the database; Busy when it would have to wait for another and is not to."""
        try:
            database = self._store.database
            if call.writes and len(body) > _PROMPT:
                # Judging a large body takes long: not while others wait for their turn to write.
                with database.read() as session:
                    request = self._admit(session, call, names, headers, query_string, body)
                with database.write() as session:
                    return call.handler(session, request)
            with database.write(wait=wait) if call.writes else database.read() as session:
                request = self._admit(session, call, names, headers, query_string, body)
                return call.handler(session, request)
        except Stale:
            return answers.of_problem(Unavailable("what the request changes moved meanwhile; try again"))
        except Problem as problem:
            return answers.of_problem(problem)

    def _admit(
        self,
        session: Session,
        call: Call,
        names: tuple[str, ...],
        headers: RawHeaders,
        query_string: bytes,
        body: bytes,
    ) -> Request:
        """The key, its scope, the JSON and every field, in this order."""
        caller = _caller(session, call, headers)
        faults: list[Fault] = []
        query = call.query.read(query_string, faults)
        value = None
        if call.body is not None and (body or not call.body_optional):
            value = call.body.check(json_door.loads(body), "", faults)
        elif body and not call.body_optional:
            faults.append(Fault("", "this call takes no body"))
        if faults:
            raise Invalid("the request is not as it must be", errors=faults)
        etag = next((value for name, value in headers if name == b"if-none-match"), None)
        return Request(self._store, caller, names, query, value, etag)


def create_app(store: Store, *, hosts: Sequence[str] = (), grace_seconds: float = GRACE_SECONDS) -> App:
    """The application over an open store; ``hosts`` are names beside loopback that it answers for."""
    return App(store, hosts=hosts, grace_seconds=grace_seconds)


def _failure(error: Exception) -> Problem:
    """What nobody foresaw: of ours, unless the machine has run out of something."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno in _SHORTAGES):
        return Unavailable("the machine has too little left of something at the moment; try again later")
    return Problem("something went wrong inside the store", status=500)


def _caller(session: Session, call: Call, headers: RawHeaders) -> permission.Caller:
    """The key that asks, if it has the scope of the call."""
    caller = keys.authenticate(session, _secret(headers))
    if call.scope is not None:
        permission.require_scope(caller, call.scope)
    return caller


def _secret(headers: RawHeaders) -> str:
    given = [value for name, value in headers if name == b"authorization"]
    found = _BEARER.fullmatch(given[0].decode("latin-1")) if len(given) == 1 else None
    if found is None:
        raise Unauthorized(keys.REFUSED)
    return found[1]


def _has_body(headers: RawHeaders) -> bool:
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )


def _declared(headers: RawHeaders) -> int | None:
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value) if len(value) < 20 else 2**63
    return None


async def _send(answer: Answer, receive: Receive, send: Send) -> None:
    headers = list(answer.headers)
    if answer.status not in (204, 304):
        headers.append((b"content-length", str(len(answer.body)).encode()))
    if answer.close:
        headers.append((b"connection", b"close"))
    await send({"type": "http.response.start", "status": answer.status, "headers": headers})
    if answer.close:
        await send({"type": "http.response.body", "body": answer.body, "more_body": True})
        await _drain(receive)
        await send({"type": "http.response.body", "body": b""})
    else:
        await send({"type": "http.response.body", "body": answer.body})


async def _drain(receive: Receive) -> None:
    """Let what is still being sent pass by for a moment: closing at once would take the answer away."""
    try:
        async with asyncio.timeout(_DRAIN_SECONDS):
            while True:
                message = await receive()
                if message["type"] == "http.disconnect" or not message.get("more_body", False):
                    return
    except TimeoutError:
        return
