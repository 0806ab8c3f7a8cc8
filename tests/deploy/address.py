"""Three store processes on one PostgreSQL behind a real nginx, by the files of deploy/ as they are shipped.

Promises: nothing of deploy/nginx.conf is changed but ports and a path, each of which must stand once between
its two marks; the stores share a home as deploy/store.env has it; all of it ends with the ``with`` block, and
nginx also when the tests are killed. nginx is found on the PATH or where Debian keeps it.
"""

import os
import re
import shutil
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

from pipelines.embedded import listens
from tests.faults.server import Caller, Server, free_port, until
from tests.postgres import KEEPER

ROOT = Path(__file__).resolve().parents[2]
DEPLOY = ROOT / "deploy"
PROCESSES = 3
DRAIN = ("--drain", "3")
NAME = "tessera.example"
_SHIPPED_PORTS = (8765, 8766, 8767)
_MAIN = """\
daemon off;
{user}
worker_processes 2;
pid {folder}/nginx.pid;
error_log {folder}/error.log info;
events {{ worker_connections 512; }}
http {{
    client_body_temp_path {folder}/body;
    proxy_temp_path {folder}/proxy;
    fastcgi_temp_path {folder}/fastcgi;
    uwsgi_temp_path {folder}/uwsgi;
    scgi_temp_path {folder}/scgi;
    include {folder}/tessera.conf;
}}
"""


class Unusable(Exception):
    """There is no nginx on this machine."""


def found() -> str:
    """nginx's program."""
    program = shutil.which("nginx", path=f"{os.environ.get('PATH', '')}:/usr/sbin:/usr/local/sbin")
    if program is None:
        raise Unusable("nginx is not on this machine")
    return program


def settings() -> dict[str, str]:
    """What deploy/store.env sets."""
    lines = (DEPLOY / "store.env").read_text("utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))


def configured(replaced: dict[str, str]) -> str:
    """deploy/nginx.conf with what is an operator's to set replaced; each must be there once."""
    shipped = (DEPLOY / "nginx.conf").read_text("utf-8")
    before, ours, after = re.split(r"(?m)^# ---- yours to set.*\n", shipped)
    for text, other in replaced.items():
        assert ours.count(text) == 1, f"{text!r} is not there once"
        ours = ours.replace(text, other)
    return before + ours + after


class Nginx:
    """nginx on a folder, with deploy/nginx.conf in its http block."""

    def __init__(self, folder: Path, replaced: dict[str, str]) -> None:
        folder.mkdir()
        self._folder = folder
        self._program = found()
        (folder / "tessera.conf").write_text(configured(replaced), "utf-8")
        main = _MAIN.format(folder=folder, user="user root;" if os.geteuid() == 0 else "")
        (folder / "nginx.conf").write_text(main, "utf-8")
        self._process: subprocess.Popen[bytes] | None = None

    def start(self, port: int) -> None:
        """Start it, and wait until it listens."""
        command = [self._program, "-p", str(self._folder), "-c", str(self._folder / "nginx.conf")]
        keeper = [sys.executable, "-c", KEEPER, "", "", str(self._folder), *command]
        with (self._folder / "output").open("ab") as output:
            self._process = subprocess.Popen(
                keeper, stdin=subprocess.PIPE, stdout=output, stderr=output, start_new_session=True
            )
        if not until(
            lambda: listens("127.0.0.1", port) or self._process is None or self._process.poll() is not None
        ):
            raise RuntimeError("nginx did not listen in time")
        if self._process.poll() is not None:
            raise RuntimeError(f"nginx ended by itself: {(self._folder / 'output').read_text()}")

    def stop(self) -> None:
        """End it in order."""
        process, self._process = self._process, None
        if process is not None:
            process.communicate(f"{signal.SIGQUIT:d}\n".encode(), timeout=30)

    def log(self, name: str) -> str:
        """One of its logs."""
        file = self._folder / name
        return file.read_text("utf-8", "replace") if file.exists() else ""


class Address:
    """The stores and their one address. ``url``, ``key`` and ``caller`` are like those of one server."""

    def __init__(self, folder: Path, database_url: str) -> None:
        self.home = folder / "home"
        hosts = settings()["TESSERA_HOSTS"]
        self.stores = [
            Server(self.home, database_url=database_url, options=DRAIN, TESSERA_HOSTS=hosts)
            for _ in range(PROCESSES)
        ]
        self.port = free_port()
        self.url = f"http://127.0.0.1:{self.port}"
        servers = {
            f"server 127.0.0.1:{shipped} ": f"server 127.0.0.1:{store.port} "
            for shipped, store in zip(_SHIPPED_PORTS, self.stores, strict=True)
        }
        places = {
            "listen 127.0.0.1:8080;": f"listen 127.0.0.1:{self.port};",
            "/var/log/nginx/tessera.log": str(folder / "nginx" / "access.log"),
        }
        self.nginx = Nginx(folder / "nginx", servers | places)
        self._ending = ExitStack()

    def __enter__(self) -> Self:
        with ExitStack() as ending:
            ending.callback(self._stop_stores)
            for store in self.stores:
                store.start(wait=False)  # all at once, on a database that may be empty
            ending.callback(self.nginx.stop)
            self.nginx.start(self.port)
            for store in self.stores:
                store.wait_until_ready()
            self._ending = ending.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ending.close()

    def _stop_stores(self) -> None:
        """At once: each may drain for seconds."""
        with ThreadPoolExecutor(PROCESSES) as pool:
            list(pool.map(Server.stop, self.stores))

    @property
    def admin_secret(self) -> str:
        """The secret that the first of the first starts left in the home."""
        return (self.home / "admin.key").read_text("ascii").strip()

    def caller(self, secret: str | None = None, *, timeout: float = 30.0) -> Caller:
        """A caller through the address that is told of a lost process as of a lost connection."""
        return _Through(self.url, self.admin_secret if secret is None else secret, timeout=timeout)

    def key(self, **grants: Any) -> str:
        """The secret of a new key; by default it may read, work and write in every queue."""
        body = {"name": "test", "scopes": ["read", "work", "write"], "queues": ["*"], **grants}
        with self.caller() as admin:
            answer = admin.post("/v1/keys", body)
            assert answer.status_code == 201, answer.text
            return str(answer.json()["secret"])


class _Through(Caller):
    """nginx answers 502 where a caller without it would have met the end of its connection."""

    def post(self, path: str, body: Any = None, **options: Any) -> httpx.Response:
        return _answered(super().post(path, body, **options))

    def get(self, path: str, **query: Any) -> httpx.Response:
        return _answered(super().get(path, **query))


def _answered(answer: httpx.Response) -> httpx.Response:
    if answer.status_code == 502:
        raise httpx.RemoteProtocolError("a process went away")
    return answer
