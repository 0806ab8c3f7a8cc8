"""A real S3 server for tests, in a process of its own: what it was asked, and faults and holds on demand.

moto's S3 behind one lock, so that a conditional put is decided and done at once, as a real service does it
(moto alone looks first and writes later, and its server has a thread for each connection). Signatures are
checked. Beside S3 it answers under ``/-/``: what it was asked, and orders to fail, to be slow, or to hold a
request before or after it was done. It ends when the process that started it does.
"""

import json
import os
import select
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx

ROOT = Path(__file__).parent.parent
BUCKET = "lakes"
REGION = "eu-test-1"
START_SECONDS = 60.0
_POLICY = {
    "Version": "2012-10-17",
    "Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}],
}

Asked = dict[str, Any]


class ObjectStore:
    """A running server with an empty bucket ``lakes``."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.object_store"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        ready = self._process.stdout is not None and select.select(
            [self._process.stdout], [], [], START_SECONDS
        )
        if not ready or not ready[0]:
            self.stop()
            raise TimeoutError(f"the S3 server did not start within {START_SECONDS:.0f} s")
        assert self._process.stdout is not None
        told = json.loads(self._process.stdout.readline())
        self.url: str = told["url"]
        self.access_key: str = told["access_key"]
        self.secret: str = told["secret"]
        self._http = httpx.Client(base_url=self.url, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._http.close()
        self.stop()

    def stop(self) -> None:
        """End the server."""
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()

    def environment(self, **changes: str | None) -> dict[str, str]:
        """The variables that lead a client here; None leaves one out."""
        usual: dict[str, str | None] = {
            "AWS_ACCESS_KEY_ID": self.access_key,
            "AWS_SECRET_ACCESS_KEY": self.secret,
            "AWS_REGION": REGION,
            "AWS_ENDPOINT_URL": self.url,
            "AWS_ALLOW_HTTP": "true",
        }
        return {name: value for name, value in {**usual, **changes}.items() if value is not None}

    def asked(self) -> list[Asked]:
        """The requests since the last call: ``{method, key, query, condition, status, client}`` each."""
        found: list[Asked] = self._http.get("/-/asked").json()
        return found

    def order(self, **order: Any) -> None:
        """Do something to requests that fit ``method`` and whose key holds ``key``, after ``skip`` of them.

        ``status`` and ``code`` answer ``times`` of them with an error, although it was done if ``done``;
        ``careless`` puts them whatever their condition; ``seconds`` delays them; ``hold``, ``before`` or
        ``after`` it is done, keeps one until `calm`.
        """
        self._http.post("/-/order", json=order).raise_for_status()

    def calm(self) -> None:
        """Forget all orders and let go what is held."""
        self._http.post("/-/calm").raise_for_status()

    def await_held(self, seconds: float = 30.0) -> bool:
        """Wait until a request is held; whether one is."""
        return bool(self._http.get("/-/held", params={"seconds": seconds}).json())

    def objects(self, prefix: str = "") -> list[str]:
        """The keys of the bucket's objects."""
        found: list[str] = self._http.get("/-/objects", params={"prefix": prefix}).json()
        return found

    def read(self, key: str) -> bytes:
        """An object's bytes."""
        return self._http.get("/-/object", params={"key": key}).raise_for_status().content

    def delete(self, key: str) -> None:
        """Delete an object behind everybody's back."""
        self._http.delete("/-/object", params={"key": key}).raise_for_status()


# --- the server's own process -----------------------------------------------------------------------------

Environ = dict[str, Any]
Answer = Callable[[str, list[tuple[str, str]]], Any]


class _Server:
    """S3 behind one lock, with a log and orders."""

    def __init__(self) -> None:
        from moto.moto_server.werkzeug_app import create_backend_app

        self._s3 = create_backend_app("s3")
        self._one_at_a_time = threading.Lock()
        self._asked: list[Asked] = []
        self._orders: list[dict[str, Any]] = []
        self._changed = threading.Condition()
        self._held = 0

    def __call__(self, environ: Environ, start: Answer) -> Iterable[bytes]:
        path = environ["PATH_INFO"].encode("latin-1").decode()
        if path.startswith("/-/"):
            return self._told(path.removeprefix("/-/"), environ, start)
        # Whole, before the lock: a client that dies while it sends must not keep the others waiting.
        body = environ["wsgi.input"].read(int(environ.get("CONTENT_LENGTH") or 0))
        if len(body) < int(environ.get("CONTENT_LENGTH") or 0):
            return []
        return self._served(environ, body, path, start)

    def _served(self, environ: Environ, body: bytes, path: str, start: Answer) -> Iterable[bytes]:
        import io

        order = self._order_for(environ["REQUEST_METHOD"], path)
        time.sleep(order.get("seconds", 0))
        self._hold(order, "before")
        asked = {
            "method": environ["REQUEST_METHOD"],
            "key": path.removeprefix(f"/{BUCKET}").removeprefix("/"),
            "query": environ.get("QUERY_STRING", ""),
            "condition": environ.get("HTTP_IF_NONE_MATCH"),
            "client": environ.get("HTTP_USER_AGENT", "").partition("/")[0],
        }
        answered = _error(order) if "status" in order else None
        if answered is None or order.get("done"):
            with self._one_at_a_time:
                if order.get("careless") and asked["key"] in self._bucket().keys:
                    self._bucket().keys.pop(asked["key"])
                by_s3 = self._by_s3({**environ, "wsgi.input": io.BytesIO(body)})
            answered = answered or by_s3
        self._asked.append({**asked, "status": int(answered[0].split()[0])})
        self._hold(order, "after")
        start(answered[0], answered[1])
        return [answered[2]]

    def _by_s3(self, environ: Environ) -> tuple[str, list[tuple[str, str]], bytes]:
        head: list[Any] = []
        body = b"".join(self._s3(environ, lambda status, headers, _=None: head.extend((status, headers))))
        return head[0], head[1], body

    def _order_for(self, method: str, path: str) -> dict[str, Any]:
        with self._changed:
            for order in self._orders:
                if order.get("method", method) != method or order.get("key", "") not in path:
                    continue
                if order.get("skip", 0):
                    order["skip"] -= 1
                elif order.setdefault("times", 1 if "hold" in order else 1 << 30):
                    order["times"] -= 1
                    return order
        return {}

    def _hold(self, order: Mapping[str, Any], when: str) -> None:
        if order.get("hold") != when:
            return
        with self._changed:
            self._held += 1
            self._changed.notify_all()
            self._changed.wait_for(lambda: order not in self._orders, timeout=120)
            self._held -= 1

    def _told(self, what: str, environ: Environ, start: Answer) -> Iterable[bytes]:
        from urllib.parse import parse_qs

        query = {name: values[0] for name, values in parse_qs(environ.get("QUERY_STRING", "")).items()}
        answer: Any = None
        if what == "asked":
            answer, self._asked = self._asked, []
        elif what == "order":
            order = json.loads(environ["wsgi.input"].read(int(environ["CONTENT_LENGTH"])))
            with self._changed:
                self._orders.append(order)
        elif what == "calm":
            with self._changed:
                self._orders = []
                self._changed.notify_all()
        elif what == "held":
            with self._changed:
                answer = self._changed.wait_for(lambda: self._held > 0, timeout=float(query["seconds"]))
        elif what == "objects":
            with self._one_at_a_time:
                answer = [name for name in self._bucket().keys if name.startswith(query.get("prefix", ""))]
        elif environ["REQUEST_METHOD"] == "DELETE":
            with self._one_at_a_time:
                self._bucket().keys.pop(query["key"])
        else:
            start("200 OK", [])
            return [self._bucket().keys[query["key"]].value]
        start("200 OK", [("Content-Type", "application/json")])
        return [json.dumps(answer).encode()]

    def _bucket(self) -> Any:
        from moto.core import DEFAULT_ACCOUNT_ID
        from moto.s3.models import s3_backends

        return s3_backends[DEFAULT_ACCOUNT_ID]["aws"].buckets[BUCKET]


def _error(order: Mapping[str, Any]) -> tuple[str, list[tuple[str, str]], bytes]:
    code = order.get("code", "InternalError")
    body = f"<?xml version='1.0'?><Error><Code>{code}</Code><Message>as ordered</Message></Error>"
    return f"{order['status']} {code}", [("Content-Type", "application/xml")], body.encode()


def _prepare() -> dict[str, str]:
    """The bucket, and a user who may use it; from then on every request must be signed by one."""
    from moto import settings
    from moto.core import DEFAULT_ACCOUNT_ID
    from moto.iam.models import iam_backends
    from moto.s3.models import s3_backends

    s3_backends[DEFAULT_ACCOUNT_ID]["aws"].create_bucket(BUCKET, REGION)
    users = iam_backends[DEFAULT_ACCOUNT_ID]["aws"]
    users.create_user(REGION, "lake")
    users.put_user_policy("lake", "all", json.dumps(_POLICY))
    made = users.create_access_key("lake")
    settings.INITIAL_NO_AUTH_ACTION_COUNT = 0
    return {"access_key": made.access_key_id, "secret": made.secret_access_key}


def _end_with_parent() -> None:
    sys.stdin.read()
    os._exit(0)


def main() -> None:
    """Serve on a free port of 127.0.0.1 until standard input ends."""
    from werkzeug.serving import WSGIRequestHandler, make_server

    class Handler(WSGIRequestHandler):
        protocol_version = "HTTP/1.1"  # connections stay open, as those of a real service do

        def log(self, *_: Any) -> None:
            """Say nothing: what was asked is kept."""

    keys = _prepare()
    server = make_server("127.0.0.1", 0, _Server(), threaded=True, request_handler=Handler)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    print(json.dumps({"url": f"http://127.0.0.1:{server.server_port}", **keys}), flush=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
