"""The log: JSON lines on stderr, and no key's secret in them at any level."""

import io
import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from tessera.server import logs
from tests.faults.server import Server
from tests.server.calls import done, enqueue

DEBUG = (
    "-c",
    "import sys; sys.argv += ['--log-level', 'debug']; from tessera.cli import main; main()",
)
PART = 12


@pytest.fixture
def stream() -> Iterator[io.StringIO]:
    """A log of its own; the process's is put back afterwards."""
    root, ours = logging.getLogger(), logging.getLogger("tessera")
    before = (root.handlers[:], root.level, ours.level)
    out = io.StringIO()
    logs.configure("debug", out)
    yield out
    root.handlers[:], level, our_level = before
    root.setLevel(level)
    ours.setLevel(our_level)
    logging.captureWarnings(False)


def told(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines() if line.startswith("{")]


def test_a_line_is_one_json_object_whatever_is_told(stream: io.StringIO) -> None:
    log, root = logging.getLogger("tessera.server"), logging.getLogger()
    # Not pytest's own: half a pair in what it captured would end its worker process at the report.
    root.handlers[:] = [each for each in root.handlers if getattr(each, "stream", None) is stream]
    try:
        raise ValueError("line one\nline two \u2028 \ud800")
    except ValueError:
        log.exception("it failed: %s", "a\nb", extra={"fields": {"status": 500}})

    (line,) = told(stream.getvalue())

    assert stream.getvalue().count("\n") == 1
    assert (line["level"], line["logger"], line["message"]) == ("error", "tessera.server", "it failed: a\nb")
    assert line["status"] == 500
    assert "ValueError" in line["traceback"]
    assert line["time"].endswith("Z")


def test_what_looks_like_a_secret_is_blotted_out_whoever_tells_it(stream: io.StringIO) -> None:
    secret = "tsk_" + "Ab9-_" * 8
    logging.getLogger("tessera.server").warning("refused %s", secret)
    logging.getLogger("another").error("Authorization: Bearer %s", "opaque-token-of-another")
    try:
        raise RuntimeError(f"key {secret}")
    except RuntimeError:
        logging.getLogger("tessera.server").exception("x", extra={"fields": {"seen": [secret]}})

    assert secret[4:12] not in stream.getvalue()
    assert "opaque-token" not in stream.getvalue()
    assert stream.getvalue().count("[key]") == 4


def test_at_debug_each_request_is_told_by_route_and_key_and_no_secret_is_anywhere(tmp_path: Path) -> None:
    with Server(tmp_path / "home", launcher=DEBUG) as server:
        good, revoked, wrong = server.key(), server.key(), "tsk_" + "Wr0ng-" * 7
        with server.caller() as admin:
            keys = {key["id"]: key for key in admin.get("/v1/keys").json()["items"]}
            admin.delete(f"/v1/keys/{max(keys, key=lambda key: keys[key]['created_at'])}")
            metrics = admin.get("/metrics").text
        for secret in (good, revoked, wrong):
            with server.caller(secret) as caller:
                caller.get("/v1/whoami")
                caller.post("/v1/tasks", {"queue": "q", "kind": "k", "brief": {}})
                caller.post("/v1/tasks", content=b'{"queue": ')
                caller.get("/v1/nothing", key=secret)
                message = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
                caller.post("/mcp", message, headers={"Accept": "application/json"})
        secrets = (good, revoked, wrong, server.admin_secret)
    text = server.log_text()
    kept = (
        text
        + metrics
        + "".join(
            path.read_bytes().decode("latin-1")
            for path in server.home.rglob("*")
            if path.is_file() and path.name != "admin.key"
        )
    )

    for secret in secrets:
        for start in range(4, len(secret) - PART):
            assert secret[start : start + PART] not in kept
    requests = [line for line in told(text) if line["message"] == "request"]
    assert {"/v1/whoami", "/v1/tasks", "/mcp", "unmatched"} <= {line["route"] for line in requests}
    assert {line["status"] for line in requests} >= {200, 201, 400, 401, 404}
    assert {line["key_id"] for line in requests} <= {None, *keys}
    lines = [line for line in text.splitlines() if not line.startswith(("Tessera ", "A new admin key"))]
    assert all(line.startswith("{") for line in lines), lines


def test_at_info_the_life_of_the_server_and_changes_by_admins_are_told(tmp_path: Path) -> None:
    with Server(tmp_path / "home") as server:
        server.key()
        with server.caller() as admin:
            admin.enqueue("q", {})
    lines = told(server.log_text())

    assert [line["message"] for line in lines] == ["serving", "an admin changed the store", "closing"]
    assert lines[1]["route"] == "/v1/keys"
    assert lines[1]["key_id"].startswith("key_")
    assert lines[0]["store_id"] == lines[2]["store_id"]


def test_a_fault_of_the_store_is_told_whole_in_the_log_and_not_to_the_caller(
    store: Any, stream: io.StringIO, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tessera.store import tasks

    def broken(*_: Any) -> Any:
        raise RuntimeError(f"the disk says {store.admin_key}")

    http: httpx.Client = store.http()
    done(http.get("/v1/whoami"))
    task = enqueue(http)
    monkeypatch.setattr(tasks, "get", broken)

    answer = http.get(f"/v1/tasks/{task['task_id']}")

    assert answer.status_code == 500
    assert "disk" not in answer.text
    errors = [line for line in told(stream.getvalue()) if line["level"] == "error"]
    assert "the disk says [key]" in errors[0]["traceback"]
    assert store.admin_key[4:16] not in stream.getvalue()
