"""A store server in a process of its own, and bare HTTP to it: what the store lines are measured through.

The connection speaks just enough HTTP for these answers, so that the caller's own work stays out of what is
measured.
"""

import json
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any


class Connection:
    """One kept-alive connection with a key."""

    def __init__(self, port: int, secret: str) -> None:
        self._port = port
        self._head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {secret}\r\n"
        self._socket = socket.socket()
        self.renew()

    def renew(self) -> None:
        """Connect anew: the server ends connections that are idle for long."""
        self._socket.close()
        self._socket = socket.create_connection(("127.0.0.1", self._port))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)

    def prepared(self, method: str, path: str, body: Any = None) -> bytes:
        """The bytes of a request."""
        content = b"" if body is None else json.dumps(body).encode()
        length = f"Content-Length: {len(content)}\r\n" if content else ""
        return f"{method} {path} HTTP/1.1\r\n{self._head}{length}\r\n".encode() + content

    def send(self, request: bytes) -> bytes:
        """The body of the answer; raises RuntimeError for any but a success."""
        self._socket.sendall(request)
        received = self._socket.recv(1 << 20)
        while (end := received.find(b"\r\n\r\n")) < 0:
            received += self._more()
        head, parts = received[:end], [received[end + 4 :]]
        if not head.startswith(b"HTTP/1.1 20"):
            raise RuntimeError(received[:500].decode(errors="replace"))
        left = _length(head) - len(parts[0])
        while left > 0:
            parts.append(self._more())
            left -= len(parts[-1])
        return b"".join(parts)

    def call(self, method: str, path: str, body: Any = None) -> Any:
        """The answer as JSON; None when it has no body."""
        answer = self.send(self.prepared(method, path, body))
        return json.loads(answer) if answer else None

    def close(self) -> None:
        """Close it."""
        self._socket.close()

    def _more(self) -> bytes:
        received = self._socket.recv(1 << 20)
        if not received:
            raise RuntimeError("the server closed the connection")
        return received


class Served:
    """A running server on a fresh store."""

    def __init__(self, port: int, home: Path) -> None:
        self.home = home
        self.url = f"http://127.0.0.1:{port}"
        self.secret = (home / "admin.key").read_text("ascii").strip()
        self._port = port

    def connection(self) -> Connection:
        """A connection with the admin's key."""
        return Connection(self._port, self.secret)


@contextmanager
def served(database_url: str | None = None) -> Iterator[Served]:
    """A server with a store on this machine's disk, gone at the end."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
    if database_url:
        environment["TESSERA_DATABASE_URL"] = database_url
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder) / "home"
        command = [sys.executable, "-m", "tessera.cli", "serve", "--home", str(home), "--port", "0"]
        root = str(Path(__file__).parent.parent)
        process = subprocess.Popen(
            command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=environment, cwd=root
        )
        try:
            assert process.stdout is not None
            line = ""
            while not line.startswith("Tessera serves "):
                line = process.stdout.readline()
                if not line:
                    raise RuntimeError("the server did not start")
            yield Served(int(line.strip().rpartition(":")[2]), home)
        finally:
            process.terminate()
            process.wait(30)


def _length(head: bytes) -> int:
    _, found, rest = head.lower().partition(b"\r\ncontent-length:")
    return int(rest.partition(b"\r\n")[0]) if found else 0
