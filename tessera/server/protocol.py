"""The HTTP protocol of the listener: uvicorn's over httptools, with bounds that it leaves out.

A connection whose headers do not arrive in time, or are too large, or whose client does not read what it
asked for, is cut off; what is not HTTP is answered with a problem document like everything else.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tessera.errors import Problem
from tessera.server import answers
from tessera.server.receiving import GRACE_SECONDS, MIN_RATE

HEADER_SECONDS = 10.0
"""How long the headers of a request may take, from the connection or from the end of the answer before."""
MAX_HEADERS = 64 * 1024
"""Bytes of a request line and its headers."""
CLOSING_SECONDS = 6.0
"""How long a client may still read when the server is told to end; longer than a body may still take."""


class Protocol(HttpToolsProtocol):
    """One connection. A client that reads must take MIN_RATE on average over each ``grace_seconds``."""

    grace_seconds = GRACE_SECONDS
    _late: asyncio.TimerHandle | None = None
    _watch: asyncio.TimerHandle | None = None
    _head_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEADER_SECONDS, self._close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        self._watch_no_more()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._watch_reading()

    def resume_writing(self) -> None:
        super().resume_writing()
        if not self.transport.is_closing():
            self._watch_no_more()

    def timeout_keep_alive_handler(self) -> None:
        super().timeout_keep_alive_handler()
        self._watch_reading()

    def shutdown(self) -> None:
        super().shutdown()
        self.loop.call_later(CLOSING_SECONDS, self.transport.abort)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._late is not None:  # the headers are still not complete
            self._head_size += len(data)
            if self._head_size > MAX_HEADERS:
                self.send_400_response("The headers of the request are too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._late is None:
            self._late = self.loop.call_later(HEADER_SECONDS, self._close)

    def on_headers_complete(self) -> None:
        self._in_time()
        super().on_headers_complete()

    def send_400_response(self, msg: str) -> None:
        if self.transport.is_closing():
            return
        answer = answers.of_problem(Problem(msg, status=400))
        head = (
            b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/problem+json\r\n"
            b"content-length: %d\r\nconnection: close\r\n\r\n" % len(answer.body)
        )
        self.transport.write(head + answer.body)
        self._close()

    def _in_time(self) -> None:
        self._head_size = 0
        if self._late is not None:
            self._late.cancel()
            self._late = None

    def _close(self) -> None:
        """End the connection once the client has read what is written, within its time."""
        self.transport.close()
        self._watch_reading()

    def _watch_reading(self) -> None:
        if self._watch is None:
            left = self.transport.get_write_buffer_size()
            self._watch = self.loop.call_later(self.grace_seconds, self._judge_reading, left)

    def _watch_no_more(self) -> None:
        if self._watch is not None:
            self._watch.cancel()
            self._watch = None

    def _judge_reading(self, before: int) -> None:
        """Cut off a client that has taken too little of ``before`` bytes."""
        self._watch = None
        left = self.transport.get_write_buffer_size()
        if left > before - self.grace_seconds * MIN_RATE and left:
            self.transport.abort()
        elif left:
            self._watch_reading()


def paced(grace_seconds: float) -> type[Protocol]:
    """The protocol for clients that may take so long over nothing."""
    return type("PacedProtocol", (Protocol,), {"grace_seconds": grace_seconds})
