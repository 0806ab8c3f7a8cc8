"""Bodies that are too large, come too slowly or never end: refused early, and the memory stays flat."""

import contextlib
import json
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.faults.server import Caller, Server, assert_problem

MIB = 1 << 20
FLOOD = 64 * MIB


def flood(server: Server, path: str, *, key: str | None, declared: bool) -> tuple[int, int]:
    """Send 64 MiB until an answer comes or the connection breaks: the status (0 = none), the bytes sent."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    head += f"Authorization: Bearer {key}\r\n" if key else ""
    head += f"Content-Length: {FLOOD}\r\n\r\n" if declared else "Transfer-Encoding: chunked\r\n\r\n"
    piece = b" " * 65536 if declared else b"10000\r\n" + b" " * 65536 + b"\r\n"
    sent = 0
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as connection:
        connection.sendall(head.encode())
        connection.setblocking(False)
        received = b""
        deadline = time.monotonic() + 10
        rest = piece
        while sent < FLOOD and time.monotonic() < deadline:
            try:
                received += connection.recv(4096)
                break
            except BlockingIOError:
                pass
            except ConnectionError:
                break
            try:
                count = connection.send(rest)
            except BlockingIOError:
                time.sleep(0.001)
                continue
            except ConnectionError:
                break
            sent += count
            rest = rest[count:] or piece
    return (int(received.split()[1]) if received.startswith(b"HTTP/1.1 ") else 0), sent


@pytest.mark.parametrize("declared", [True, False], ids=["with a length", "chunked"])
@pytest.mark.parametrize("keyed", [True, False], ids=["with a key", "without a key"])
@pytest.mark.parametrize("path", ["/v1/tasks", "/v1/tasks/claim"])
def test_a_flood_is_refused_early_and_takes_no_memory(
    server: Server, path: str, keyed: bool, declared: bool
) -> None:
    before = server.resident_bytes()

    status, sent = flood(server, path, key=server.admin_secret if keyed else None, declared=declared)

    assert status == 413 or (status == 401 and not keyed)
    assert sent < 16 * MIB  # what the socket's buffers take, and no more
    assert server.resident_bytes() - before < 24 * MIB


@pytest.mark.parametrize("path", ["/v1/records", "/v1/executions/import"])
def test_a_bulk_flood_is_refused_at_its_own_bound(server: Server, path: str) -> None:
    status, sent = flood(server, path, key=server.admin_secret, declared=False)

    assert status == 413
    assert sent < 40 * MIB


def test_many_large_bodies_without_a_key_are_not_kept_waiting_in_memory(server: Server) -> None:
    """Forty callers without a key, each with most of an allowed batch on its way and no end of it."""
    before = server.resident_bytes()
    callers = []
    for _ in range(40):
        caller = socket.create_connection(("127.0.0.1", server.port), timeout=5)
        caller.sendall(
            f"POST /v1/records HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {16 * MIB}\r\n\r\n".encode()
        )
        caller.settimeout(0.5)
        with contextlib.suppress(OSError):
            for _ in range(15):
                caller.sendall(b" " * MIB)
        callers.append(caller)
    grown = server.resident_bytes() - before
    for caller in callers:
        caller.close()

    assert grown < 64 * MIB


def test_requests_sent_at_once_on_one_connection_are_answered_in_order(server: Server, name: str) -> None:
    head = f"Host: 127.0.0.1\r\nAuthorization: Bearer {server.admin_secret}\r\n"
    asked = "".join(
        f"GET /v1/tasks/{name}.{number} HTTP/1.1\r\n{head}\r\n"
        f"GET /v1/records/{name}/k{number} HTTP/1.1\r\n{head}\r\nGET /healthz HTTP/1.1\r\n{head}\r\n"
        for number in range(10)
    )
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
        connection.sendall(asked.encode())
        answered = b""
        while answered.count(b"HTTP/1.1 ") < 30 or not answered.endswith(b"}"):
            answered += connection.recv(65536)

    assert [part[:3] for part in answered.split(b"HTTP/1.1 ")[1:]] == [b"404", b"404", b"200"] * 10


@pytest.mark.parametrize(("over", "status"), [(0, 201), (1, 413)])
def test_a_body_of_one_mebibyte_is_the_largest(caller: Caller, name: str, over: int, status: int) -> None:
    body = {"queue": name, "kind": "verb.test", "brief": {"filling": ""}}
    filling = MIB - len(json.dumps(body)) + over
    body["brief"] = {"filling": "x" * filling}
    content = json.dumps(body).encode()
    assert len(content) == MIB + over

    assert caller.post("/v1/tasks", content=content).status_code == status


@pytest.mark.parametrize(("over", "status"), [(0, 201), (1, 413)])
def test_a_batch_of_sixteen_mebibytes_is_the_largest(
    caller: Caller, name: str, over: int, status: int
) -> None:
    write = {
        "store": name,
        "key": "k",
        "expected_version": 0,
        "category": "noun.eval_run",
        "tags": [],
        "body": {"filling": ""},
        "visibility": "shared",
    }
    filling = 16 * MIB - len(json.dumps({"writes": [write]})) + over
    write["body"] = {"filling": "x" * filling}

    assert caller.post("/v1/records", content=json.dumps({"writes": [write]}).encode()).status_code == status


def dripping(server: Server, connection: socket.socket, head: str, body: bytes) -> Iterator[None]:
    """Send a request byte by byte; ends when the server ends the connection."""
    try:
        for byte in head.encode() + body:
            connection.sendall(bytes([byte]))
            yield
    except ConnectionError:
        return


IMPATIENT = """
from tessera.server import receiving
receiving.GRACE_SECONDS = 3.0  # not 10: before what takes it for granted is loaded
from tessera.server import protocol
protocol.HEADER_SECONDS = 3.0
from tessera.cli import main
main()
"""


@pytest.fixture
def impatient(tmp_path: Path) -> Iterator[Server]:
    """A server that waits three seconds for headers and bodies, so that its end of patience comes soon."""
    with Server(tmp_path / "home", launcher=("-c", IMPATIENT)) as running:
        yield running


def test_senders_that_drip_are_cut_off_and_hold_nobody_up(impatient: Server, name: str) -> None:
    server, caller = impatient, impatient.caller()
    head = (
        "POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 1000\r\n"
        f"Authorization: Bearer {server.admin_secret}\r\n\r\n"
    )
    connections = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(60)]
    for number, connection in enumerate(connections):  # half drip their headers, half their bodies
        connection.sendall((head[:20] if number % 2 else head).encode())
    begun = time.monotonic()
    open_ = set(range(len(connections)))
    slowest = 0.0
    while open_ and time.monotonic() - begun < 45:
        for number in sorted(open_):
            connection = connections[number]
            connection.settimeout(0.001)
            try:
                if connection.recv(4096) == b"":
                    open_.discard(number)
                    continue
            except TimeoutError:
                pass
            except ConnectionError:
                open_.discard(number)
                continue
            try:
                connection.sendall(b"x")
            except OSError:
                open_.discard(number)
        asked = time.monotonic()
        caller.enqueue(name, {})
        slowest = max(slowest, time.monotonic() - asked)
        time.sleep(0.3)
    caller.close()
    for connection in connections:
        connection.close()

    assert not open_, f"{len(open_)} connections still drip after {time.monotonic() - begun:.0f} s"
    assert slowest < 2.0


def test_a_thousand_idle_connections_do_not_keep_others_out(
    server: Server, caller: Caller, name: str
) -> None:
    idle = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(400)]

    task = caller.enqueue(name, {})

    for connection in idle:
        connection.close()
    assert task["state"] == "queued"


def test_what_is_no_http_is_answered_with_a_problem_or_closed(server: Server, caller: Caller) -> None:
    for noise in (b"\x16\x03\x01\x02\x00\x01\x00", b"GET\r\n\r\n", b"\0" * 100, b"GET / HTTP/9.9\r\n\r\n"):
        with socket.create_connection(("127.0.0.1", server.port), timeout=12) as connection:
            connection.sendall(noise)
            connection.shutdown(socket.SHUT_WR)
            answer = connection.recv(4096)
            assert answer == b"" or answer.split()[1][:1] == b"4", answer

    assert caller.get("/v1/whoami").status_code == 200


@pytest.mark.parametrize("path", ["/v1/nothing", "/", "/v1/tasks//", "/v1/records/a/b/c/d", "/v2/tasks"])
def test_an_unknown_path_is_a_problem_document(caller: Caller, path: str) -> None:
    assert_problem(caller.get(path), 404)
