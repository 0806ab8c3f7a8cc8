"""The end of the server: what is under way is answered, what comes in is refused, the file is whole."""

import http.client
import json
import sqlite3
import threading
import time
from pathlib import Path
from typing import Any

from tests.faults.server import Server, until


def test_a_request_under_way_is_finished_and_kept_when_the_server_is_told_to_end(tmp_path: Path) -> None:
    server = Server(tmp_path / "home")
    with server:
        body = json.dumps({"queue": "q", "kind": "k", "brief": {"n": 1}}).encode()
        connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=20)
        connection.putrequest("POST", "/v1/tasks")
        connection.putheader("Authorization", f"Bearer {server.admin_secret}")
        connection.putheader("Content-Length", str(len(body)))
        connection.endheaders(body[:10])
        time.sleep(0.2)
        ended: list[int | None] = []
        ending = threading.Thread(target=lambda: ended.append(server.stop()))
        ending.start()
        assert until(lambda: not _accepts(server.port))

        connection.send(body[10:])
        answer = connection.getresponse()
        task = json.loads(answer.read())
        connection.close()
        ending.join()

    assert answer.status == 201
    assert ended == [0]
    rows = sqlite3.connect(server.home / "tessera.db")
    assert rows.execute("SELECT queue FROM tasks").fetchall() == [("q",)]
    rows.close()
    assert task["state"] == "queued"
    assert not (server.home / "tessera.db-wal").exists()


def _accepts(port: int) -> bool:
    probe = http.client.HTTPConnection("127.0.0.1", port, timeout=1)
    try:
        probe.connect()
    except OSError:
        return False
    finally:
        probe.close()
    return True


def test_what_comes_in_while_the_server_ends_is_503_and_told_when_to_come_back(store: Any) -> None:
    store.running.refuse_new()

    for path in ("/v1/whoami", "/healthz", "/mcp"):
        answer = store.http().get(path)
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "1"
        assert answer.headers["connection"] == "close"
        assert answer.json()["detail"] == "the store is closing; try again"


def test_a_server_that_drains_answers_once_more_on_open_connections_and_takes_no_new_one(
    tmp_path: Path,
) -> None:
    server = Server(tmp_path / "home", options=("--drain", "20"))
    with server:
        kept, unused = (http.client.HTTPConnection("127.0.0.1", server.port, timeout=20) for _ in "ab")
        for connection in (kept, unused):
            connection.request("GET", "/healthz")
            connection.getresponse().read()
        ended: list[int | None] = []
        begun = time.monotonic()
        ending = threading.Thread(target=lambda: ended.append(server.stop(patience=30)))
        ending.start()
        assert until(lambda: not _accepts(server.port))

        kept.request("GET", "/healthz")
        answer = kept.getresponse()
        answer.read()
        unused.close()
        ending.join()

    assert (answer.status, answer.headers["connection"]) == (200, "close")
    assert ended == [0]
    assert time.monotonic() - begun < 15  # nobody was left to wait for
