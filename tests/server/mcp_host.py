"""``tessera mcp`` as a process, spoken to line by line, and messages that a strict door must refuse."""

import json
import subprocess
import sys
from typing import Any

from tests.server.mcp_talk import ROOT, environment

ARGUMENTS = '{"queue": "q", "kind": "k", "brief": {"n": %s}}'
DOOR = {
    '1, "n": 2': (-32700, "is not well-formed JSON"),
    "NaN": (-32700, "is not well-formed JSON"),
    '"\\ud800"': (-32700, "is not well-formed JSON"),
    "9007199254740992": (-32602, "brief.n"),
    "1e999": (-32602, "brief.n"),
    "[" * 63 + "]" * 63: (-32602, "brief.n"),
    '"%s"' % ("x" * (1 << 20)): (-32602, "over 1048576 bytes"),
}
FINE = ["9007199254740991", "[" * 62 + "]" * 62, '"\\ud83d\\ude00"']


def message(value: str, id_: int = 7) -> str:
    params = '{"name": "enqueue", "arguments": %s}' % (ARGUMENTS % value)
    return f'{{"jsonrpc": "2.0", "id": {id_}, "method": "tools/call", "params": {params}}}'


INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {
        "protocolVersion": "2025-06-18",
        "capabilities": {},
        "clientInfo": {"name": "by hand", "version": "1"},
    },
}
INITIALIZED = {"jsonrpc": "2.0", "method": "notifications/initialized"}


class Host:
    """``tessera mcp`` and the two ends of its pipes."""

    def __init__(self, url: str, secret: str | None, *options: str, **more: str) -> None:
        command = [sys.executable, *options[:2], "-m", "tessera.cli", "mcp", *options[2:]]
        self.process = subprocess.Popen(
            command,
            env=environment(url, secret, **more),
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def say(self, *lines: str | bytes) -> None:
        """Write lines."""
        assert self.process.stdin is not None
        for line in lines:
            self.process.stdin.write((line.encode() if isinstance(line, str) else line) + b"\n")
        self.process.stdin.flush()

    def hear(self) -> dict[str, Any]:
        """The next line of stdout, which must be JSON-RPC."""
        assert self.process.stdout is not None
        return protocol(self.process.stdout.readline())

    def end(self, number: int | None = None) -> tuple[int, list[dict[str, Any]], str]:
        """Close stdin, or send a signal; status, the rest of stdout, stderr."""
        if number is not None:
            self.process.send_signal(number)
            out, err = self.process.stdout, self.process.stderr
            assert out is not None
            assert err is not None
            rest, complaints = out.read(), err.read()
            self.process.wait(timeout=60)
            assert self.process.stdin is not None
            self.process.stdin.close()
            out.close()
            err.close()
        else:
            rest, complaints = self.process.communicate(timeout=60)
        return self.process.returncode, [protocol(line) for line in rest.splitlines()], complaints.decode()


def protocol(line: bytes) -> dict[str, Any]:
    """A line of stdout, which must be one JSON-RPC message."""
    said: dict[str, Any] = json.loads(line)
    assert said["jsonrpc"] == "2.0", line
    assert "result" in said or "error" in said or "method" in said
    return said
