"""The server as a process: ready, restarted, stopped."""

import json
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tessera.errors import SettingsError
from tessera.server.serve import Running
from tests.server.calls import done, enqueue

ROOT = Path(__file__).parents[2]


class Process:
    """A server in a process of its own."""

    def __init__(self, home: Path) -> None:
        code = "import pathlib, sys, tessera.server.serve as s; s.run(pathlib.Path(sys.argv[1]), port=0)"
        self.process = subprocess.Popen(
            [sys.executable, "-c", code, str(home)],
            cwd=ROOT,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        self.lines: list[str] = []
        assert self.process.stdout is not None
        while not self.lines or not self.lines[-1].startswith("Tessera serves "):
            line = self.process.stdout.readline()
            assert line, self.process.communicate()
            self.lines.append(line.strip())
        self.url = self.lines[-1].split()[-1]

    def end(self, number: int = signal.SIGTERM) -> tuple[int, str]:
        self.process.send_signal(number)
        out, err = self.process.communicate(timeout=30)
        return self.process.returncode, out + err


@pytest.fixture
def home(tmp_path: Path) -> Path:
    return tmp_path / "home"


def _http(process: Process, home: Path) -> httpx.Client:
    secret = (home / "admin.key").read_text().strip()
    return httpx.Client(base_url=process.url, headers={"authorization": f"Bearer {secret}"}, timeout=30)


def test_the_first_start_says_where_the_key_is_and_never_the_key(home: Path) -> None:
    server = Process(home)
    secret = (home / "admin.key").read_text().strip()
    with _http(server, home) as http:
        done(http.get("/v1/whoami"))
    status, rest = server.end()

    assert server.lines[0] == f"A new admin key is in {home / 'admin.key'}"
    assert len(server.lines) == 2
    assert (home / "admin.key").stat().st_mode & 0o777 == 0o600
    assert secret not in "\n".join(server.lines) + rest
    assert status == 0
    assert [json.loads(line)["message"] for line in rest.splitlines()] == ["serving", "closing"]


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_what_was_answered_is_there_after_the_next_start(home: Path, number: int) -> None:
    server = Process(home)
    with _http(server, home) as http:
        store_id = done(http.get("/v1/whoami"))["store_id"]
        task = enqueue(http)
    server.end(number)

    server = Process(home)
    with _http(server, home) as http:
        assert done(http.get(f"/v1/tasks/{task['task_id']}"))["state"] == "queued"
        assert done(http.get("/v1/whoami"))["store_id"] == store_id
    server.end()

    assert len(server.lines) == 1


def test_requests_under_way_are_answered_before_the_end(home: Path) -> None:
    server = Process(home)
    answers: list[int] = []

    def slow() -> None:
        def chunks() -> Iterator[bytes]:
            yield b'{"queue": "q", "kind": "k", '
            time.sleep(1.0)
            yield b'"brief": {}}'

        with _http(server, home) as http:
            answers.append(http.post("/v1/tasks", content=chunks()).status_code)

    sender = threading.Thread(target=slow)
    sender.start()
    time.sleep(0.5)
    status, _ = server.end()
    sender.join()

    assert (status, answers) == (0, [201])


def test_the_log_is_folded_back_at_an_orderly_end(home: Path) -> None:
    server = Process(home)
    with _http(server, home) as http:
        enqueue(http)
    server.end()

    assert sorted(path.name for path in home.iterdir()) == ["admin.key", "tessera.db"]


@pytest.mark.parametrize("started", [True, False], ids=["serving", "about to serve"])
def test_a_port_that_is_taken_is_a_clear_error(tmp_path: Path, started: bool) -> None:
    with Running(tmp_path / "a") as running:
        if started:
            running.start()
        port = int(running.url.rpartition(":")[2])
        with pytest.raises(SettingsError, match=f"port {port}"):
            Running(tmp_path / "b", port=port)


def test_a_home_that_cannot_be_used_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SettingsError, match="home"):
        Running(tmp_path / "file" / "home")


def test_configured_names_are_answered_beside_loopback(tmp_path: Path) -> None:
    with Running(tmp_path, hosts=["store.example"]) as running:
        running.start()
        for host, status in (("store.example:80", 200), ("localhost", 200), ("other.example", 421)):
            assert httpx.get(f"{running.url}/healthz", headers={"host": host}).status_code == status


@pytest.mark.both_databases
def test_a_reader_that_does_not_read_on_holds_no_writer_up(store: Any) -> None:
    import socket

    http = store.http()
    for n in range(30):
        done(
            http.post(
                "/v1/records",
                json={
                    "writes": [
                        {
                            "store": "s",
                            "key": f"k{n}",
                            "expected_version": 0,
                            "category": "c",
                            "tags": [],
                            "body": {"x": "y" * 400_000},
                            "visibility": "shared",
                        }
                    ]
                },
            )
        )
    host, _, port = store.url.removeprefix("http://").rpartition(":")
    stuck = []
    for n in range(12):
        connection = socket.create_connection((host, int(port)))
        head = f"GET /v1/records/s/k{n} HTTP/1.1\r\nHost: localhost\r\n"
        head += f"Authorization: Bearer {store.admin_key}\r\n\r\n"
        connection.sendall(head.encode())
        stuck.append(connection)
    time.sleep(0.2)

    begun = time.monotonic()
    for _ in range(20):
        enqueue(http)
    spent = time.monotonic() - begun

    for connection in stuck:
        connection.close()
    assert spent < 10
