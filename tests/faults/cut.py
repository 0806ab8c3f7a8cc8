"""A TCP relay to a database that cuts one connection at a message that the test names.

Chunks from the store count as messages: the driver sends one statement, or one batch of them, at a time.
"""

import contextlib
import socket
import threading
import time
from types import TracebackType
from typing import Self


class Relay:
    """Listens on ``port``. ``arm`` it to cut a connection at a message from then on."""

    def __init__(self, upstream: int) -> None:
        self._upstream = upstream
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.port = int(self._listener.getsockname()[1])
        self._lock = threading.Lock()
        self._left = 0
        self._holding = b""
        self._deliver = False
        self.cut = False
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, message: int, holding: bytes = b"", *, deliver: bool) -> None:
        """Cut at the n-th message that holds these bytes: before it arrives, or when it was delivered but
        its answer has not.
        """
        with self._lock:
            self._left, self._holding, self._deliver, self.cut = message, holding, deliver, False

    def disarm(self) -> bool:
        """Cut no more; whether the cut has been made."""
        with self._lock:
            self._left = 0
            return self.cut

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._listener.close()

    def _accept(self) -> None:
        while True:
            try:
                store, _ = self._listener.accept()
            except OSError:
                return
            database = socket.create_connection(("127.0.0.1", self._upstream))
            mute = threading.Event()
            for pump in (self._forward, self._back):
                threading.Thread(target=pump, args=(store, database, mute), daemon=True).start()

    def _forward(self, store: socket.socket, database: socket.socket, mute: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := store.recv(1 << 20):
                if not self._due(chunk):
                    database.sendall(chunk)
                    continue
                mute.set()
                if self._deliver:
                    database.sendall(chunk)
                    time.sleep(0.05)  # so that it is done
                break
        _end(store, database)

    def _back(self, store: socket.socket, database: socket.socket, mute: threading.Event) -> None:
        with contextlib.suppress(OSError):
            while chunk := database.recv(1 << 20):
                if not mute.is_set():
                    store.sendall(chunk)
        _end(store, database)

    def _due(self, chunk: bytes) -> bool:
        with self._lock:
            if not self._left or self._holding not in chunk:
                return False
            self._left -= 1
            self.cut = not self._left
            return self.cut


def _end(*ends: socket.socket) -> None:
    for end in ends:
        with contextlib.suppress(OSError):
            end.shutdown(socket.SHUT_RDWR)
        end.close()
