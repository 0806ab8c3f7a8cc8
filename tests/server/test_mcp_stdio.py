"""``tessera mcp``: what it takes from stdin, and that nothing but the protocol is on its stdout."""

import json
import signal
import time
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import text

from tessera.server.tools import INSTRUCTIONS
from tessera.store.statements import Statement
from tests.server.mcp_host import DOOR, FINE, INITIALIZE, INITIALIZED, Host, message


def test_each_line_passes_the_strict_door_and_what_is_refused_stores_nothing(store: Any) -> None:
    host = Host(store.url, store.admin_key)
    host.say(json.dumps(INITIALIZE), json.dumps(INITIALIZED))
    assert host.hear()["result"]["instructions"] == INSTRUCTIONS
    for value, (code, told) in DOOR.items():
        host.say(message(value))
        answer = host.hear()
        assert answer["error"]["code"] == code, value[:40]
        assert told in json.dumps(answer["error"]), value[:40]
        assert answer["id"] == (None if len(value) > 1 << 20 else 7)
    with store.running.store.database.read() as session:
        assert session.row(Statement(text("SELECT count(*) FROM tasks"))) == (0,)
    for value in FINE:
        host.say(message(value))
        assert host.hear()["result"]["structuredContent"]["status"] == 201

    status, rest, _ = host.end()

    assert (status, rest) == (0, [])


# X08: only JSON-RPC on stdout


@pytest.mark.parametrize("ending", ["end of input", "interrupt"])
def test_only_the_protocol_is_on_stdout_whatever_happens(store: Any, ending: str) -> None:
    host = Host(
        store.url,
        store.admin_key,
        "-X",
        "dev",
        "--log-level",
        "debug",
        PYTHONWARNINGS="always",
        PYTHONUNBUFFERED="1",
    )
    host.say(json.dumps(INITIALIZE), json.dumps(INITIALIZED))
    heard = [host.hear()]
    host.say(
        b"", b"not json", b"\xff\xfe", b"[]", b'{"jsonrpc": "2.0"}', b"{" * 300, message("1"), message("NaN")
    )
    missing = {"name": "get_execution", "arguments": {"run_id": "run-9-x"}}
    host.say(json.dumps({"jsonrpc": "2.0", "id": 99, "method": "tools/call", "params": missing}))
    while heard[-1].get("id") != 99:
        heard.append(host.hear())

    status, rest, complaints = host.end(signal.SIGINT if ending == "interrupt" else None)

    assert heard[-1]["result"]["structuredContent"]["status"] == 404
    assert rest == []
    assert status == 0
    assert "Traceback" not in complaints
    assert store.admin_key[4:16] not in complaints


def test_an_interrupt_while_a_call_is_under_way_ends_at_once(store: Any) -> None:
    host = Host("http://127.0.0.1:9", store.admin_key)
    host.say(json.dumps(INITIALIZE), json.dumps(INITIALIZED))
    host.hear()
    host.say(message("1"))
    time.sleep(0.1)
    begun = time.monotonic()

    status, _, complaints = host.end(signal.SIGINT)

    assert status == 0
    assert time.monotonic() - begun < 5
    assert "Traceback" not in complaints


def test_without_a_key_it_says_what_to_do_on_stderr_and_nothing_on_stdout(store: Any, tmp_path: Path) -> None:
    host = Host(store.url, None, TESSERA_HOME=str(tmp_path))

    status, heard, complaints = host.end()

    assert (status, heard) == (1, [])
    assert "TESSERA_KEY" in complaints
