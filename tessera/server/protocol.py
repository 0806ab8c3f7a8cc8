"""The HTTP protocol of the listener: uvicorn's over httptools, with bounds that it leaves out.

A connection whose headers do not arrive in time, or are too large, is cut off; what is not HTTP is
answered with a problem document like everything else.
"""

import asyncio

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from tessera.errors import Problem
from tessera.server import answers

HEADER_SECONDS = 10.0
"""How long the headers of a request may take, from the connection or from the end of the answer before."""
MAX_HEADERS = 64 * 1024
"""Bytes of a request line and its headers."""


class Protocol(HttpToolsProtocol):
    """One connection."""

    _late: asyncio.TimerHandle | None = None
    _head_size = 0

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        self._late = self.loop.call_later(HEADER_SECONDS, transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        self._in_time()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self._late is not None:  # the headers are still not complete
            self._head_size += len(data)
            if self._head_size > MAX_HEADERS:
                self.send_400_response("The headers of the request are too large.")

    def on_message_begin(self) -> None:
        super().on_message_begin()
        if self._late is None:
            self._late = self.loop.call_later(HEADER_SECONDS, self.transport.close)

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
        self.transport.close()

    def _in_time(self) -> None:
        self._head_size = 0
        if self._late is not None:
            self._late.cancel()
            self._late = None
