"""Runs the store as a server: ``tessera serve``, and the same in a thread for those that embed it.

Promises one line with the URL once connections are accepted, the place of a new admin key but never the
secret, and an end within END_SECONDS in which every request that has come in is answered and the database is
closed whole; a client that is still sending or reading then is cut off.
"""

import asyncio
import logging
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import Self

import uvicorn

from tessera.errors import SettingsError
from tessera.server import logs
from tessera.server.app import App, create_app
from tessera.server.protocol import paced
from tessera.server.receiving import GRACE_SECONDS
from tessera.store.clock import Clock, now
from tessera.store.opening import Store, open_store

log = logging.getLogger("tessera.server")

DEFAULT_HOST = "127.0.0.1"
DEFAULT_PORT = 8765
_WILDCARDS = ("0.0.0.0", "::", "")  # noqa: S104 - recognised, not bound
END_SECONDS = 8
"""How long the end waits for what is under way; a transaction that began is finished all the same."""
_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_BACKLOG = 2048  # connections that may wait while the store opens; uvicorn's own figure
_BEHIND_MILLISECONDS = 1_000  # by which clocks may differ without a word
_SETTLE_SECONDS = 0.005  # until connections that came or went just before the end are known as such
_SWITCH_SECONDS = 0.0005  # how soon a thread back from the disk gets its turn


def run(
    home: Path,
    host: str = DEFAULT_HOST,
    port: int = DEFAULT_PORT,
    database_url: str | None = None,
    *,
    hosts: Sequence[str] = (),
    drain_seconds: float = 0.0,
    log_level: str = "info",
) -> None:
    """Serve until SIGINT or SIGTERM; port 0 takes a free one. Prints the URL when ready, logs to stderr.

    ``hosts`` are names beside loopback and ``host`` that requests may name. ``drain_seconds``: see Running.
    """
    logs.configure(log_level)
    sys.setswitchinterval(_SWITCH_SECONDS)
    with Running(home, host, port, database_url, hosts=hosts, drain_seconds=drain_seconds) as running:
        if running.store.new_admin_key is not None:
            _say(f"A new admin key is in {running.store.new_admin_key}")
        about = {"url": running.url, "store_id": running.store.store_id}
        log.info("serving", extra={"fields": about})
        if running.store.time.ahead > _BEHIND_MILLISECONDS:
            log.warning(
                "the machine's clock is behind what the store has seen; the store's time goes on from there",
                extra={"fields": {"milliseconds": running.store.time.ahead}},
            )
        running.serve(ready=lambda: _say(f"Tessera serves {running.url}"))
        log.info("closing", extra={"fields": about})


class Running:
    """An open store on an open port. ``serve`` blocks; ``start`` serves in a thread until ``stop``.

    Told to end, it takes no new connection, and for up to ``drain_seconds`` answers one more request on each
    open one. A proxy that forgets idle connections sooner then meets no connection closed under its request.
    """

    def __init__(
        self,
        home: Path,
        host: str = DEFAULT_HOST,
        port: int = 0,
        database_url: str | None = None,
        *,
        hosts: Sequence[str] = (),
        clock: Clock = now,
        grace_seconds: float = GRACE_SECONDS,
        drain_seconds: float = 0.0,
    ) -> None:
        self._socket = _listen(host, port)
        try:
            self.store: Store = open_store(home, database_url, clock=clock)
        except BaseException:
            self._socket.close()
            raise
        known = [*hosts] if host in _WILDCARDS else [*hosts, f"[{host}]" if ":" in host else host]
        self._app: App = create_app(self.store, hosts=known, grace_seconds=grace_seconds)
        self._server = _Server(_config(self._app, grace_seconds), self._app, drain_seconds)
        self._thread: threading.Thread | None = None
        shown = f"[{host}]" if ":" in host else host
        self.url = f"http://{shown}:{self._socket.getsockname()[1]}"

    def serve(self, ready: Callable[[], None]) -> None:
        """Serve until told to stop; ``ready`` is called once connections are accepted."""
        self._server.ready = ready
        self._server.run(sockets=[self._socket])

    def start(self) -> Self:
        """Serve in a thread; returns once connections are accepted."""
        begun = threading.Event()
        self._thread = threading.Thread(target=self.serve, args=(begun.set,), name="tessera")
        self._thread.start()
        begun.wait(timeout=30)
        return self

    def refuse_new(self) -> None:
        """From now on answer 503, as at the beginning of the end."""
        self._app.refuse_new()

    def stop(self) -> None:
        """Answer what is under way, then close everything."""
        if self._thread is not None:
            self._server.tell_to_end()
            self._thread.join()
            self._thread = None
        self._socket.close()
        self._app.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()


class _Server(uvicorn.Server):
    """uvicorn, saying when it accepts connections, and ending in order."""

    ready: Callable[[], None]

    def __init__(self, config: uvicorn.Config, app: App, drain_seconds: float) -> None:
        super().__init__(config)
        self._app = app
        self._drain_seconds = drain_seconds
        self._told = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None

    def tell_to_end(self) -> None:
        """End, at once and not at uvicorn's next tick; from another thread."""
        self.should_exit = True
        if self._loop is not None:
            with suppress(RuntimeError):  # it has ended already
                self._loop.call_soon_threadsafe(self._told.set)

    async def main_loop(self) -> None:
        """Until told to end; uvicorn looks for signals ten times a second."""
        waiting = (asyncio.ensure_future(super().main_loop()), asyncio.ensure_future(self._told.wait()))
        done, left = await asyncio.wait(waiting, return_when=asyncio.FIRST_COMPLETED)
        for task in left:
            task.cancel()
        for task in done:
            task.result()

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Finish what is under way, within the configured time; what still comes in gets 503."""
        for listener in (*self.servers, *(sockets or ())):
            listener.close()
        if self._drain_seconds:
            await self._drain()
        self._app.refuse_new()
        self._app.hurry()
        await asyncio.sleep(_SETTLE_SECONDS)
        if self.server_state.connections or self.server_state.tasks:
            await super().shutdown(sockets)  # which waits a tenth of a second at least
        await self._app.end()

    async def _drain(self) -> None:
        """Each answer from now on is the last of its connection."""
        state = self.server_state
        state.default_headers = [*state.default_headers, (b"connection", b"close")]
        for connection in state.connections:
            cycle = getattr(connection, "cycle", None)
            if cycle is not None:  # its answer is under way: it began without that header
                cycle.keep_alive = False
        end = time.monotonic() + self._drain_seconds
        while state.connections and time.monotonic() < end and not self.force_exit:
            await asyncio.sleep(0.02)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        self._loop = asyncio.get_running_loop()
        await super().startup(sockets)
        self.ready()

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop on SIGINT and SIGTERM, without raising them again: the end is an orderly one, status 0."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {number: signal.signal(number, self.handle_exit) for number in _SIGNALS}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def _config(app: App, grace_seconds: float) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=paced(grace_seconds),
        loop="uvloop",
        ws="none",
        lifespan="off",
        interface="asgi3",
        access_log=False,
        log_config=None,
        server_header=False,
        timeout_keep_alive=75,
        timeout_graceful_shutdown=END_SECONDS,
    )


def _listen(host: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(_BACKLOG)  # at once: two sockets that only bind may share a port, and uvloop hides it
    except OSError as error:
        listener.close()
        raise SettingsError(
            f"cannot listen on {host} port {port}: {error.strerror or error}. "
            "Another server may be there, or the address be another machine's: choose another --port, or 0 "
            "for a free one, or another --host."
        ) from None
    return listener


def _say(line: str) -> None:
    sys.stdout.write(line + "\n")
    sys.stdout.flush()
