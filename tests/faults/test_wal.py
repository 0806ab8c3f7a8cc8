"""The write-ahead log stays small while readers are slow, and falls back when they go."""

import socket
from pathlib import Path

from tests.faults.server import Server

MIB = 1 << 20


def log_size(home: Path) -> int:
    return sum(path.stat().st_size for path in home.glob("*-wal"))


def test_slow_readers_neither_stop_writers_nor_grow_the_log(tmp_path: Path) -> None:
    """Sixty pages of 100 runs are asked for and left unread while 60 MiB of records are written."""
    with Server(tmp_path / "home") as server, server.caller(server.admin_secret) as caller:
        attempts = [
            {
                "source": "s",
                "task_key": f"{number}",
                "attempt": 1,
                "kind": "verb.test",
                "accepted": True,
                "problem_text": "p" * 20_000,
            }
            for number in range(100)
        ]
        answer = caller.post("/v1/executions/import", {"queue": "q", "attempts": attempts})
        assert answer.status_code == 200, answer.text
        ask = (
            "GET /v1/executions?queue=q HTTP/1.1\r\nHost: 127.0.0.1\r\n"
            f"Authorization: Bearer {server.admin_secret}\r\n\r\n"
        )
        readers = []
        for _ in range(60):
            reader = socket.socket()
            reader.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            reader.connect(("127.0.0.1", server.port))
            reader.sendall(ask.encode())
            reader.recv(100)
            readers.append(reader)
        largest = 0
        for number in range(60):
            writes = [
                {
                    "store": "s",
                    "key": f"k{key}",
                    "expected_version": number,
                    "category": "noun.eval_run",
                    "tags": [],
                    "body": {"filling": "x" * 100_000},
                    "visibility": "shared",
                }
                for key in range(10)
            ]
            assert caller.post("/v1/records", {"writes": writes}).status_code == 201
            largest = max(largest, log_size(server.home))
        for reader in readers:
            reader.close()
        after = log_size(server.home)

    assert largest < 16 * MIB
    assert after < 16 * MIB
    assert log_size(server.home) == 0  # a proper end folds the log back
