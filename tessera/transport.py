"""Carries calls to the store and brings answers back: once blocking, once awaiting, over httpx.

Promises: each wait has a bound; what may be repeated is repeated with growing, jittered pauses, honouring
`Retry-After`; a refusal is raised as the problem it is and never repeated; the key is in no log line, no repr
and no error text, not even when an answer echoes it. Leaves out what the calls mean: see `tessera.calls`.
"""

import asyncio
import json
import logging
import random
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from email.utils import parsedate_to_datetime
from typing import Any, TypeVar
from urllib.parse import urlsplit

import jiter

from tessera.calls import Answer, Call, Repeat, UnexpectedAnswerError
from tessera.errors import ConnectionFault, Malformed, SettingsError, from_document

# httpx imports its own command line (rich, pygments: 200 ms) whenever those are installed, and falls back to
# a stub when they are not. A worker wants the stub.
if "httpx" not in sys.modules:
    sys.modules["httpx._main"] = None  # type: ignore[assignment]
    try:
        import httpx
    finally:
        del sys.modules["httpx._main"]
else:
    import httpx

T = TypeVar("T")
Outcome = Answer | httpx.RequestError

_log = logging.getLogger("tessera.client")
_TRY_LATER = frozenset({429, 502, 503, 504})
_LONG = 6  # a bulk call may wait this many times the timeout; an answer may take this many waits
_KEEP_IDLE = 3.0  # seconds; less than a server or proxy gives an idle connection (the store itself: 75)
_LOOPBACK = frozenset({"localhost", "127.0.0.1", "::1"})


@dataclass(frozen=True, slots=True)
class Backoff:
    """How patient a client is. Times in seconds.

    The pause after the n-th try is `first` x 2^(n-1), at most `longest`, of which `jitter` (0..1) decides the
    upper half. A `Retry-After` is obeyed up to `patience`; once that has passed, no further try is made.
    """

    tries: int = 5
    first: float = 0.1
    longest: float = 5.0
    patience: float = 60.0
    jitter: Callable[[], float] = field(default=random.random, repr=False)

    def pause(self, tried: int) -> float:
        """Seconds to wait after `tried` tries."""
        return min(self.longest, self.first * 2.0 ** (tried - 1)) * (0.5 + 0.5 * self.jitter())


def retry_after(answer: Answer) -> float:
    """The seconds that an answer asks to wait, 0 if it does not say; a date counts from the answer's own."""
    value = answer.headers.get("retry-after", "").strip()
    if value.isascii() and value.isdigit():
        return float(value)
    then, now = _seconds(value), _seconds(answer.headers.get("date", ""))
    return 0.0 if then is None else max(0.0, then - (time.time() if now is None else now))


def _seconds(date: str) -> float | None:
    """A header's date in seconds since 1970; None for what is none."""
    try:
        return parsedate_to_datetime(date).timestamp()
    except (ValueError, OverflowError):
        return None


class Tries:
    """The tries of one call, and whether another one follows."""

    def __init__(self, call: Call[Any], backoff: Backoff) -> None:
        self._call = call
        self._backoff = backoff
        self._tried = 0
        self._started = time.monotonic()

    def pause_after(self, outcome: Outcome) -> float | None:
        """Seconds to wait before the next try; None when `outcome` stands."""
        self._tried += 1
        if self._tried >= self._backoff.tries or not self._may_repeat(outcome):
            return None
        pause = self._backoff.pause(self._tried)
        if isinstance(outcome, Answer):
            pause = max(pause, retry_after(outcome))
        if time.monotonic() - self._started + pause > self._backoff.patience:
            return None
        seen = outcome.status if isinstance(outcome, Answer) else type(outcome).__name__
        _log.info("%s %s: %s; trying again in %.2f s", self._call.method, self._call.path, seen, pause)
        return pause

    def _may_repeat(self, outcome: Outcome) -> bool:
        if isinstance(outcome, Answer):
            repeatable = _TRY_LATER if self._call.repeat is Repeat.ALWAYS else {429}
            return outcome.status in repeatable
        if isinstance(outcome, (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout)):
            return True  # nothing was sent
        mistaken = (httpx.LocalProtocolError, httpx.UnsupportedProtocol, httpx.DecodingError)
        return self._call.repeat is Repeat.ALWAYS and not isinstance(outcome, mistaken)


def store_url(url: str) -> str:
    """A store's address without a trailing slash. Raises SettingsError, never showing a password in it."""
    try:
        parts = urlsplit(url)
        host, _port = parts.hostname, parts.port
        httpx.URL(url)
    except (ValueError, httpx.InvalidURL) as error:
        raise SettingsError(f"the store's URL cannot be read: {error}") from None
    if parts.username is not None or parts.password is not None:
        raise SettingsError("the store's URL must not hold a user or password: give the key by TESSERA_KEY")
    plain = url.isascii() and url.isprintable() and " " not in url
    if not plain or parts.scheme not in ("http", "https") or not host or parts.query or parts.fragment:
        raise SettingsError(f"the store's URL must look like http://host:port, not {url!r}")
    return url.rstrip("/")


def usable_key(key: str) -> str:
    """The key, if a header can carry it. The error does not show it."""
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise SettingsError(
            "the API key must be printable ASCII without spaces; it is not shown here, as a secret"
        )
    return key


def encode(body: Any) -> bytes:
    """A request's JSON. Raises Malformed for what the store's door would refuse as no JSON at all."""
    try:
        return json.dumps(body, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
    except UnicodeEncodeError:
        raise Malformed("not sent: the body holds a lone surrogate, which UTF-8 cannot carry") from None
    except ValueError as error:
        raise Malformed(f"not sent: {error}") from None


class Door:
    """What both transports share: the address, the key, the limits, and how an outcome is read."""

    def __init__(self, url: str, key: Callable[[], str], timeout: float, backoff: Backoff) -> None:
        self.url = store_url(url)
        self.backoff = backoff
        self._key = key
        self._timeout = timeout

    def options(self) -> dict[str, Any]:
        """What an httpx client of this store is made with."""
        parts = urlsplit(self.url)
        return {
            "headers": {"accept": "application/json", "user-agent": "tessera"},
            "limits": httpx.Limits(keepalive_expiry=_KEEP_IDLE),
            "trust_env": parts.hostname not in _LOOPBACK,  # a proxy cannot reach this machine's own address
            "verify": parts.scheme == "https",  # loading certificates costs a plain connection 20 ms
        }

    def request(self, call: Call[Any]) -> dict[str, Any]:
        """One try's arguments for httpx; the body is encoded once, so that a repeat sends the same bytes."""
        headers = {}
        if call.needs_key:
            headers["authorization"] = f"Bearer {usable_key(self._key())}"
        content = None
        if call.body is not None:
            headers["content-type"] = "application/json"
            content = encode(call.body)
        longest = self.longest(call)
        return {
            "method": call.method,
            "url": self.url + call.path,
            "params": list(call.params) or None,
            "content": content,
            "headers": headers,
            "timeout": httpx.Timeout(longest, connect=self._timeout, pool=self._timeout),
        }

    def longest(self, call: Call[Any]) -> float:
        """Seconds for a single wait of a call."""
        return self._timeout * (_LONG if call.bulk else 1)

    def body_deadline(self, call: Call[Any]) -> Callable[[], None]:
        """Ends an answer that drips in without end, though no single wait is too long."""
        end = time.monotonic() + _LONG * self.longest(call)

        def check() -> None:
            if time.monotonic() > end:
                raise httpx.ReadTimeout("the answer takes too long")

        return check

    def result(self, call: Call[T], outcome: Outcome) -> T:
        """What the call returns, or the error that `outcome` is."""
        if not isinstance(outcome, Answer):
            raise ConnectionFault(self.url, self._reason(call, outcome)) from outcome
        if 200 <= outcome.status < 300:
            try:
                return call.read(outcome)
            except UnexpectedAnswerError as error:
                raise ConnectionFault(
                    self.url, f"{call.method} {call.path} was answered, but {error}"
                ) from None
        if 300 <= outcome.status < 400:
            target = outcome.headers.get("location", "elsewhere")
            raise ConnectionFault(self.url, f"it sends {call.path} on to {target}")
        raise from_document(outcome.status, self._document(call, outcome))

    def _document(self, call: Call[Any], outcome: Answer) -> Any:
        body = outcome.body
        if call.needs_key:  # some proxies echo a request into their error page
            body = body.replace(self._key().encode(), b"[key]")
        try:
            document = jiter.from_json(body)
        except ValueError:
            document = None
        if isinstance(document, dict):
            return document
        return {"detail": f"{call.method} {self.url}{call.path} gave no further details"}

    def _reason(self, call: Call[Any], fault: httpx.RequestError) -> str:
        if isinstance(fault, httpx.ConnectTimeout):
            return f"no connection within {self._timeout:g} s"
        if isinstance(fault, httpx.TimeoutException):
            return f"{call.method} {call.path} was not answered within {self.longest(call):g} s"
        if isinstance(fault, httpx.ConnectError):
            return str(fault) or "no connection"
        return f"{call.method} {call.path} broke off ({str(fault) or type(fault).__name__})"


class Blocking:
    """Performs calls on the calling thread; may be shared by threads."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._http = httpx.Client(**door.options())

    def perform(self, call: Call[T]) -> T:
        """Send the call, as often as it may and must be sent; return what it promises or raise."""
        request, tries = self._door.request(call), Tries(call, self._door.backoff)
        while True:
            outcome: Outcome
            try:
                outcome = self._send(request, self._door.body_deadline(call))
            except httpx.RequestError as fault:
                outcome = fault
            pause = tries.pause_after(outcome)
            if pause is None:
                return self._door.result(call, outcome)
            time.sleep(pause)

    def _send(self, request: dict[str, Any], check: Callable[[], None]) -> Answer:
        with self._http.stream(**request) as response:
            body = bytearray()
            for piece in response.iter_bytes():
                body += piece
                check()
            return Answer(response.status_code, response.headers, bytes(body))

    def close(self) -> None:
        """Close idle connections."""
        self._http.close()


class Awaiting:
    """Performs calls on the running asyncio loop."""

    def __init__(self, door: Door) -> None:
        self._door = door
        self._http = httpx.AsyncClient(**door.options())

    async def perform(self, call: Call[T]) -> T:
        """Send the call, as often as it may and must be sent; return what it promises or raise."""
        request, tries = self._door.request(call), Tries(call, self._door.backoff)
        while True:
            outcome: Outcome
            try:
                outcome = await self._send(request, self._door.body_deadline(call))
            except httpx.RequestError as fault:
                outcome = fault
            pause = tries.pause_after(outcome)
            if pause is None:
                return self._door.result(call, outcome)
            await asyncio.sleep(pause)

    async def _send(self, request: dict[str, Any], check: Callable[[], None]) -> Answer:
        async with self._http.stream(**request) as response:
            body = bytearray()
            async for piece in response.aiter_bytes():
                body += piece
                check()
            return Answer(response.status_code, response.headers, bytes(body))

    async def close(self) -> None:
        """Close idle connections."""
        await self._http.aclose()
