"""A stand-in for the store's reading side: a real HTTP server whose pages a test can spoil.

The real store cannot send what these tests need: items that are no observations, a null list, a cursor that
goes back, a page in the middle of which it dies.
"""

import json
import threading
import time
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

Body = dict[str, Any]
Spoil = Callable[[Body], Body | bytes | int | None]


class PageStore:
    """Serves `items` (of increasing cursor) as pages of observations of whatever queue is asked for.

    `spoil(page)` may return another body, bytes, or a status in place of the page; `whoami` may be changed.
    """

    def __init__(self, items: list[Body] | None = None) -> None:
        self.items = items if items is not None else []
        self.whoami: Body = {
            "id": "key_1",
            "name": "reader",
            "scopes": ["read"],
            "queues": ["*"],
            "kinds": None,
            "stores": None,
            "expires_at": None,
            "store_id": "store_1",
        }
        self.queues = ["packing"]
        self.newest = 0  # runs that the key may not read count here
        self.spoil: Spoil | None = None
        self.delay = 0.0
        self.pages_served = 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), _handler(self))
        self._server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> "PageStore":
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        """Stop answering; connections are refused from here on."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()

    def answer(self, path: str, query: dict[str, str]) -> Body | bytes | int:
        match path:
            case "/v1/whoami":
                return self.whoami
            case "/v1/queues":
                return {"queues": self.queues, "store_id": self.whoami["store_id"]}
            case "/v1/executions/pending":
                later = [item for item in self.items if int(item["cursor"]) > int(query.get("after", 0))]
                return {
                    "count": len(later),
                    "capped": False,
                    "last": str(self._newest()),
                    "store_id": "store_1",
                }
            case "/v1/executions":
                return self._page(int(query.get("after", 0)), int(query.get("limit", 100)))
        return 404

    def _page(self, after: int, limit: int) -> Body | bytes | int:
        time.sleep(self.delay)
        self.pages_served += 1
        later = [item for item in self.items if int(item["cursor"]) > after]
        items, more = later[:limit], len(later) > limit
        last = int(items[-1]["cursor"]) if more else max(self._newest(), after)
        page: Body = {
            "store_id": self.whoami["store_id"],
            "items": items,
            "next_after": str(last),
            "has_more": more,
        }
        spoilt = self.spoil(page) if self.spoil is not None else None
        return page if spoilt is None else spoilt

    def _newest(self) -> int:
        return max([self.newest, *(int(item["cursor"]) for item in self.items[-1:])])


def _handler(store: PageStore) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            address = urlsplit(self.path)
            query = {name: values[0] for name, values in parse_qs(address.query).items()}
            answer = store.answer(address.path, query)
            status = answer if isinstance(answer, int) else 200
            body = answer if isinstance(answer, bytes) else b"{}"
            if isinstance(answer, dict):
                body = json.dumps(answer, separators=(",", ":")).encode()
            self.send_response(status)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *args: object) -> None:
            pass

    return Handler
