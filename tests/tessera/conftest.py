"""The public vectors and the real records, beside the checkout; tests that need them skip without.

And servers that fail on purpose, over real HTTP: a scripted store, and a proxy that loses answers.
"""

import http.client
import json
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Hypothesis' deadline measures how busy the machine is, not what a test claims.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.fixture(scope="session")
def vectors() -> "Vectors":
    return Vectors(SHARED / "vectors")


@pytest.fixture(scope="session")
def records() -> Path:
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real execution records are not beside this checkout")
    return folder


class Vectors:
    """The vectors by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def text(self, name: str) -> str:
        if not self._folder.is_dir():
            pytest.skip("the public vectors are not beside this checkout")
        return (self._folder / name).read_text("utf-8")

    def cases(self, name: str) -> list[dict[str, Any]]:
        cases: list[dict[str, Any]] = json.loads(self.text(f"{name}.json"))
        assert cases
        return cases


Scripted = tuple[int, dict[str, str], bytes] | None


class Serving:
    """A handler's server on a free port of this machine, until it is stopped."""

    def __init__(self, handler: type[BaseHTTPRequestHandler]) -> None:
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.01,), daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


class ScriptedStore(Serving):
    """A real HTTP server that gives its scripted answers in turn, the last one for ever; None hangs up."""

    def __init__(self, *script: Scripted) -> None:
        self.requests: list[dict[str, Any]] = []
        remaining = list(script)

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def answer(handler) -> None:
                length = int(handler.headers.get("content-length") or 0)
                body = handler.rfile.read(length)
                self.requests.append(
                    {
                        "line": f"{handler.command} {handler.path}",
                        "headers": {name.lower(): value for name, value in handler.headers.items()},
                        "body": json.loads(body) if body else None,
                    }
                )
                scripted = remaining.pop(0) if len(remaining) > 1 else remaining[0]
                if scripted is None:
                    handler.close_connection = True
                    return
                status, headers, content = scripted
                handler.send_response(status)
                for name, value in headers.items():
                    handler.send_header(name, value)
                handler.send_header("content-length", str(len(content)))
                handler.end_headers()
                handler.wfile.write(content)

            do_GET = do_POST = do_DELETE = answer

            def log_message(handler, *args: object) -> None:
                pass

        super().__init__(Handler)


class LosingProxy(Serving):
    """Passes calls on to a store, but loses the first `lose` answers that the store gave to a POST."""

    def __init__(self, target: str, lose: int) -> None:
        self.lost = 0

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def pass_on(handler) -> None:
                body = handler.rfile.read(int(handler.headers.get("content-length") or 0))
                server = http.client.HTTPConnection(target.removeprefix("http://"))
                headers = {name: value for name, value in handler.headers.items() if name.lower() != "host"}
                server.request(handler.command, handler.path, body, headers)
                answer = server.getresponse()
                content = answer.read()
                server.close()
                if handler.command == "POST" and self.lost < lose:
                    self.lost += 1
                    handler.close_connection = True
                    return
                handler.send_response(answer.status)
                handler.send_header("content-type", answer.getheader("content-type") or "")
                handler.send_header("content-length", str(len(content)))
                handler.end_headers()
                handler.wfile.write(content)

            do_GET = do_POST = do_DELETE = pass_on

            def log_message(handler, *args: object) -> None:
                pass

        super().__init__(Handler)


@pytest.fixture
def scripted() -> Iterator[Callable[..., ScriptedStore]]:
    started: list[ScriptedStore] = []

    def start(*script: Scripted) -> ScriptedStore:
        started.append(ScriptedStore(*script))
        return started[-1]

    yield start
    for store in started:
        store.stop()


@pytest.fixture
def losing() -> Iterator[Callable[..., LosingProxy]]:
    started: list[LosingProxy] = []

    def start(target: str, lose: int = 1) -> LosingProxy:
        started.append(LosingProxy(target, lose))
        return started[-1]

    yield start
    for proxy in started:
        proxy.stop()
