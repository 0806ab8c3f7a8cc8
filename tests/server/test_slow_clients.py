"""Clients that do not read what they asked for, or stop sending half way, are cut off."""

import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from tessera.server import protocol, receiving
from tessera.server.serve import Running
from tests.faults.server import until
from tests.server.calls import done, enqueue, write

LARGE = 8_000_000  # more than the kernel's buffers take


def asking(address: str, key: str, rest: str = "GET /v1/records/s/large") -> socket.socket:
    """A connection with small buffers that has sent a request, or the beginning of one."""
    host, port = address.removeprefix("http://").split(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 16_384)
    connection.connect((host, int(port)))
    connection.settimeout(20)
    line, _, more = rest.partition("\r\n")
    head = f"{line} HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n{more}\r\n\r\n"
    connection.sendall(head.encode())
    return connection


def connected(running: Running) -> int:
    """How many connections the server holds; from outside one cannot tell without reading."""
    return len(running._server.server_state.connections)


def taken(connection: socket.socket, pause: float = 0.0) -> bytes:
    """What comes until an answer of LARGE bytes or the connection is over."""
    pieces = []
    while sum(map(len, pieces)) < LARGE and (piece := connection.recv(65_536)):
        pieces.append(piece)
        time.sleep(pause)
    return b"".join(pieces)


@pytest.fixture
def large(store: Any) -> Any:
    done(write(store.http(), "large", body={"text": "x" * LARGE}))
    return store


def test_a_client_that_never_reads_is_cut_off_and_one_that_takes_its_time_is_not(large: Any) -> None:
    stuck = [asking(large.url, large.admin_key) for _ in range(3)]
    patient = asking(large.url, large.admin_key)

    answer = taken(patient, pause=0.01)
    patient.close()

    assert answer.startswith(b"HTTP/1.1 200 OK")
    assert len(answer) >= LARGE
    assert until(lambda: connected(large.running) <= 1)  # the one that wrote the record
    assert all(len(taken(connection)) < LARGE for connection in stuck)
    for connection in stuck:
        connection.close()


@pytest.mark.parametrize(
    "rest", ["GET /v1/records/s/large", 'POST /v1/tasks\r\nContent-Length: 1000\r\n\r\n{"queue":']
)
def test_the_end_waits_for_no_client_beyond_its_time_and_keeps_what_was_acknowledged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, rest: str
) -> None:
    monkeypatch.setattr(receiving, "CLOSING_SECONDS", 0.3)
    monkeypatch.setattr(protocol, "CLOSING_SECONDS", 1.0)
    running = Running(tmp_path)
    key = (tmp_path / "admin.key").read_text("ascii").strip()
    with running, httpx.Client(base_url=running.url, headers={"authorization": f"Bearer {key}"}) as http:
        running.start()
        done(write(http, "large", body={"text": "x" * LARGE}))
        stuck = [asking(running.url, key, rest) for _ in range(3)]
        task = enqueue(http)["task_id"]
        ending = threading.Thread(target=running.stop)
        ending.start()
        answers = [taken(connection) for connection in stuck] if rest.startswith("POST") else []
        ending.join(20)
        assert not ending.is_alive()

    assert all(b" 503 " in answer and b"the store is closing" in answer for answer in answers)
    assert not (tmp_path / "tessera.db-wal").exists()
    with Running(tmp_path) as again, httpx.Client(base_url=again.url, headers=http.headers) as http:
        again.start()
        assert http.get(f"/v1/tasks/{task}").json()["state"] == "queued"
    for connection in stuck:
        connection.close()
