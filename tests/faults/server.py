"""A real store server as a process of its own, to be killed, starved and asked over HTTP.

Promises: one home, one port for life, so that a restart is met at the same address; the process ends with the
``with`` block; nothing of the caller's TESSERA_* settings leaks into it. Leaves out every convenience of the
client: requests are sent once, as written, so that a lost answer stays visible.
"""

import http.client
import os
import signal
import socket
import ssl
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

ROOT = Path(__file__).resolve().parents[2]
READY_SECONDS = 60.0
_NO_TLS = ssl.SSLContext(
    ssl.PROTOCOL_TLS_CLIENT
)  # made once: by default each client would read all certificates


class Server:
    """``tessera serve`` on a home, with further options and settings. ``launcher`` replaces the module for
    tests that change its insides.
    """

    def __init__(
        self,
        home: Path,
        *,
        database_url: str | None = None,
        launcher: tuple[str, ...] = (),
        options: tuple[str, ...] = (),
        **environment: str,
    ) -> None:
        self.home = home
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = home.parent / f"{home.name}.{self.port}.log"
        self.database_url = database_url
        self._launcher = launcher or ("-m", "tessera.cli")
        self._options = options
        self._environment = environment
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    @property
    def pid(self) -> int:
        """The server's process id; raises when it is not running."""
        if self._process is None:
            raise RuntimeError("the server is not running")
        return self._process.pid

    def start(self, *, wait: bool = True) -> None:
        """Start the process, and by default wait until it answers."""
        environment = {name: value for name, value in os.environ.items() if not name.startswith("TESSERA_")}
        environment["PYTHONPATH"] = os.pathsep.join([str(ROOT), environment.get("PYTHONPATH", "")])
        if self.database_url:
            environment["TESSERA_DATABASE_URL"] = self.database_url
        environment |= self._environment
        command = [
            sys.executable,
            *self._launcher,
            "serve",
            "--home",
            str(self.home),
            "--port",
            str(self.port),
            *self._options,
        ]
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                command,
                env=environment,
                cwd=self.home.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        if wait:
            self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Return when ``/healthz`` answers 200; raise with the end of the log when it never does."""
        deadline = time.monotonic() + READY_SECONDS
        while time.monotonic() < deadline:
            if self._process is None or self._process.poll() is not None:
                raise RuntimeError(f"the server ended by itself:\n{self.log_text()[-2000:]}")
            connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=2.0)
            try:
                connection.request("GET", "/healthz")
                if connection.getresponse().status == 200:
                    return
            except (OSError, http.client.HTTPException):
                time.sleep(0.03)
            finally:
                connection.close()
        raise RuntimeError(f"the server did not answer within {READY_SECONDS} s:\n{self.log_text()[-2000:]}")

    def kill(self) -> None:
        """SIGKILL: no handler runs, no buffer is flushed, no answer on its way is finished."""
        if self._process is not None:
            self._process.kill()
            self._process.wait()
            self._process = None

    def stop(self, *, patience: float = 15.0) -> int | None:
        """SIGTERM, and SIGKILL after ``patience`` seconds; the exit status, None when it was not running."""
        process, self._process = self._process, None
        if process is None:
            return None
        process.send_signal(signal.SIGTERM)
        try:
            return process.wait(patience)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
            return None

    def log_text(self) -> str:
        """Everything that the server wrote to stdout and stderr so far."""
        return self.log.read_text("utf-8", "replace") if self.log.exists() else ""

    @property
    def admin_secret(self) -> str:
        """The secret that the first start left in the home."""
        return (self.home / "admin.key").read_text("ascii").strip()

    def caller(self, secret: str | None = None, *, timeout: float = 30.0) -> "Caller":
        """A caller with the admin's key, or another."""
        return Caller(self.url, self.admin_secret if secret is None else secret, timeout=timeout)

    def key(self, **grants: Any) -> str:
        """The secret of a new key; by default it may read, work and write in every queue."""
        with self.caller() as admin:
            answer = admin.post(
                "/v1/keys", {"name": "test", "scopes": ["read", "work", "write"], "queues": ["*"], **grants}
            )
            assert answer.status_code == 201, answer.text
            return str(answer.json()["secret"])

    def resident_bytes(self) -> int:
        """The server's resident memory, from /proc."""
        for line in Path(f"/proc/{self.pid}/status").read_text().splitlines():
            if line.startswith("VmRSS:"):
                return int(line.split()[1]) * 1024
        raise RuntimeError("no VmRSS in /proc")


class Caller:
    """Sends each request once with one key; ``post`` and ``get`` give the bare answer."""

    def __init__(self, url: str, secret: str, *, timeout: float = 30.0) -> None:
        self._http = httpx.Client(
            base_url=url,
            timeout=timeout,
            trust_env=False,
            verify=_NO_TLS,
            headers={"Authorization": f"Bearer {secret}"},
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        """POST a JSON value, or ``content=`` bytes."""
        if "content" not in options:
            return self._http.post(path, json=body, **options)
        options["headers"] = {"Content-Type": "application/json", **options.get("headers", {})}
        return self._http.post(path, **options)

    def get(self, path: str, **query: Any) -> httpx.Response:
        """GET with query parameters; those that are None are left out."""
        return self._http.get(
            path, params={name: value for name, value in query.items() if value is not None}
        )

    def send(self, method: str, path: str, **options: Any) -> httpx.Response:
        """Any request; ``headers`` replace those of the key."""
        return self._http.request(method, path, **options)

    def delete(self, path: str) -> httpx.Response:
        """DELETE."""
        return self._http.delete(path)

    def enqueue(self, queue: str, brief: Any, **more: Any) -> dict[str, Any]:
        """Enqueue a task of kind ``verb.test`` that must be taken; the answer's body."""
        return _taken(self.post("/v1/tasks", {"queue": queue, "kind": "verb.test", "brief": brief, **more}))

    def claim(self, queue: str, lease_seconds: float = 300, **more: Any) -> dict[str, Any] | None:
        """Claim; None when the queue has nothing."""
        answer = self.post("/v1/tasks/claim", {"queue": queue, "lease_seconds": lease_seconds, **more})
        return None if answer.status_code == 204 else _taken(answer)

    def submit(self, task: Mapping[str, Any], ok: bool = True, **more: Any) -> httpx.Response:
        """Submit under the fence of a claim."""
        return self.post(f"/v1/tasks/{task['task_id']}/submit", {"fence": task["fence"], "ok": ok, **more})

    def walk(self, queue: str, after: str = "0", limit: int = 100) -> list[dict[str, Any]]:
        """All items after a cursor, page by page."""
        items: list[dict[str, Any]] = []
        while True:
            page = _taken(self.get("/v1/executions", queue=queue, after=after, limit=limit))
            items += page["items"]
            after = page["next_after"]
            if not page["has_more"]:
                return items


def _taken(answer: httpx.Response) -> dict[str, Any]:
    assert answer.status_code in (200, 201), f"{answer.request.method} {answer.request.url}: {answer.text}"
    body: dict[str, Any] = answer.json()
    return body


def assert_problem(answer: httpx.Response, *statuses: int) -> dict[str, Any]:
    """The problem document of an answer that must be one, with one of the statuses."""
    assert answer.status_code in statuses, f"{answer.status_code} {answer.text[:500]}"
    assert answer.headers["content-type"].split(";")[0] == "application/problem+json"
    document: dict[str, Any] = answer.json()
    assert {"type", "title", "status", "detail"} <= document.keys()
    assert document["status"] == answer.status_code
    return document


def free_port() -> int:
    """A TCP port of 127.0.0.1 that nobody listens on at the moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def until(condition: Callable[[], bool], seconds: float = 60.0, pause: float = 0.02) -> bool:
    """Wait until a condition holds; whether it came to."""
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(pause)
    return condition()
