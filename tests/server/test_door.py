"""What may come in: Host, route, size, key, JSON and fields, in this order (contract, sections 2 and 3)."""

import json
import socket
import time
from pathlib import Path
from typing import Any

import httpx
import pytest

PROBLEM = "application/problem+json"


def _raw(store: Any, data: bytes, *, wait: float = 10.0) -> bytes:
    """Send bytes as they are and read until the server closes or falls silent."""
    host, _, port = store.url.removeprefix("http://").rpartition(":")
    with socket.create_connection((host, int(port)), timeout=wait) as connection:
        connection.sendall(data)
        received = b""
        try:
            while chunk := connection.recv(65536):
                received += chunk
                if b"\r\n\r\n" in received and received.endswith(b"}"):
                    break
        except TimeoutError:
            pass
        return received


def _assert_problem(answer: httpx.Response, status: int) -> dict[str, Any]:
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == PROBLEM
    document: dict[str, Any] = answer.json()
    assert document["status"] == status
    assert {"type", "title", "detail"} <= document.keys()
    return document


def _nothing_stored(store: Any) -> bool:
    with store.running.store.database.read() as session:
        from sqlalchemy import text

        from tessera.store.statements import Statement

        return all(
            session.row(Statement(text(f"SELECT 1 FROM {table} LIMIT 1"))) is None
            for table in ("tasks", "records", "executions", "idempotency")
        )


# Host


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "127.0.0.1:1", "localhost", "LOCALHOST:8765", "[::1]", "[::1]:8765", "localhost:"]
)
def test_loopback_hosts_are_answered_with_or_without_a_port(store: Any, host: str) -> None:
    assert store.http(host=host).get("/healthz").status_code == 200


@pytest.mark.parametrize(
    "host",
    ["evil.example", "localhost.evil.example", "127.0.0.1.evil.example:80", "::1", "127.0.0.1:x", "[::1]x"],
)
def test_another_host_gets_421_before_any_work(store: Any, host: str) -> None:
    http = store.http(host=host)

    _assert_problem(http.get("/healthz"), 421)
    _assert_problem(http.get("/nowhere"), 421)
    _assert_problem(http.post("/v1/tasks", content=b"{" * 2_000_000), 421)


def test_no_host_and_two_hosts_get_421(store: Any) -> None:
    assert b" 421 " in _raw(store, b"GET /healthz HTTP/1.0\r\n\r\n")
    two = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\n\r\n"
    assert b" 421 " in _raw(store, two)


# Routes


def test_unknown_paths_are_problems(store: Any) -> None:
    for path in (
        "/",
        "/v1",
        "/v1/",
        "/v1/nothing",
        "/v1/tasks/",
        "/v1//tasks",
        "/v1/tasks/a/b",
        "/v1/records/%00/k",
    ):
        _assert_problem(store.http().get(path), 404)


def test_an_unknown_method_is_a_problem_that_names_the_known_ones(store: Any) -> None:
    answer = store.http().put("/v1/records", json={})

    _assert_problem(answer, 405)
    assert answer.headers["allow"] == "GET, POST"


def test_what_is_not_http_is_a_problem(store: Any) -> None:
    answer = _raw(store, b"\x16\x03\x01 hello\r\n\r\n")

    assert answer.startswith(b"HTTP/1.1 400 ")
    assert PROBLEM.encode() in answer


def test_a_head_answers_as_its_get_without_a_body(store: Any) -> None:
    answer = store.http().head("/v1/whoami")

    assert answer.status_code == 200
    assert answer.content == b""


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://localhost.evil.example"])
def test_no_answer_carries_a_cors_header(store: Any, origin: str) -> None:
    http = store.http(origin=origin, **{"access-control-request-method": "POST"})

    for answer in (
        http.options("/v1/tasks"),
        http.get("/v1/whoami"),
        http.get("/healthz"),
        http.get("/nope"),
    ):
        assert not [name for name in answer.headers if name.startswith("access-control")]


# Size


def test_a_body_over_a_mebibyte_gets_413_by_its_length_without_a_key(store: Any) -> None:
    head = b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 67108864\r\n\r\n"

    answer = _raw(store, head)

    assert answer.startswith(b"HTTP/1.1 413 ")
    assert PROBLEM.encode() in answer


def test_a_chunked_body_over_a_mebibyte_gets_413_as_it_streams_without_a_key(store: Any) -> None:
    def chunks() -> Any:
        for _ in range(1024):
            yield b"x" * 65536

    with httpx.Client(base_url=store.url, timeout=30) as http:
        answer = http.post("/v1/tasks", content=chunks())

    _assert_problem(answer, 413)


@pytest.mark.parametrize(
    ("path", "size"), [("/v1/tasks", 1 << 20), ("/v1/records", 16 << 20), ("/v1/executions/import", 16 << 20)]
)
def test_the_bound_is_exact(store: Any, path: str, size: int) -> None:
    http = store.http()

    _assert_problem(http.post(path, content=b" " * size), 400)
    _assert_problem(http.post(path, content=b" " * (size + 1)), 413)


def test_a_slow_sender_is_cut_off(store: Any) -> None:
    host, _, port = store.url.removeprefix("http://").rpartition(":")
    begun = time.monotonic()
    with socket.create_connection((host, int(port)), timeout=20) as connection:
        connection.sendall(b"POST /v1/tasks HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n\r\n")
        received = b""
        connection.settimeout(0.2)
        while time.monotonic() - begun < 15:
            try:
                connection.sendall(b"x")
                chunk = connection.recv(65536)
            except TimeoutError:
                continue
            except (BrokenPipeError, ConnectionResetError):
                break
            if not chunk:
                break
            received += chunk

    assert time.monotonic() - begun < 10
    assert received.startswith(b"HTTP/1.1 408 ")


def test_headers_without_end_are_cut_off(store: Any) -> None:
    answer = _raw(store, b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n" + b"X: " + b"y" * 200_000)

    assert answer.startswith(b"HTTP/1.1 400 ")


# Keys


def _bearer(store: Any, *values: bytes) -> httpx.Response:
    headers = [(b"authorization", value) for value in values]
    with httpx.Client(base_url=store.url) as http:
        return http.get("/v1/whoami", headers=headers)


def test_a_good_key_is_let_in_and_told_what_it_is(store: Any) -> None:
    answer = _bearer(store, b"Bearer " + store.admin_key.encode())

    assert answer.status_code == 200
    me = answer.json()
    assert me["scopes"] == ["admin", "read", "work", "write"]
    assert me["queues"] == ["*"]
    assert me["kinds"] is None
    assert me["stores"] is None
    assert me["expires_at"] is None
    assert me["store_id"] == store.store_id


def test_none_unknown_twice_and_not_ascii_get_401_in_the_same_words(store: Any) -> None:
    good = b"Bearer " + store.admin_key.encode()
    refused = [
        _bearer(store),
        _bearer(store, b"Bearer tsk_unknown"),
        _bearer(store, good, good),
        _bearer(store, good + "é".encode()),
        _bearer(store, b"Basic " + store.admin_key.encode()),
        _bearer(store, b"Bearer"),
        _bearer(store, good + b" more"),
    ]

    for answer in refused:
        _assert_problem(answer, 401)
        assert answer.headers["www-authenticate"] == "Bearer"
        assert answer.content == refused[0].content


def test_a_revoked_key_gets_401(store: Any) -> None:
    key = store.key()
    http = store.http(key["secret"])
    assert http.get("/v1/whoami").status_code == 200

    store.http().delete(f"/v1/keys/{key['id']}")

    _assert_problem(http.get("/v1/whoami"), 401)


def test_a_key_gets_401_from_the_moment_it_expires(store: Any) -> None:
    from tessera.store.clock import now, rfc3339

    http = store.http(store.key(expires_at=rfc3339(now() + 60_000))["secret"])
    assert http.get("/v1/whoami").status_code == 200

    store.clock.move(61)

    _assert_problem(http.get("/v1/whoami"), 401)


def test_the_key_is_judged_before_the_json_and_the_scope_before_the_fields(store: Any) -> None:
    with httpx.Client(base_url=store.url) as http:
        _assert_problem(http.post("/v1/tasks", content=b"{"), 401)
    _assert_problem(store.http_for(["read"]).post("/v1/tasks", content=b"{"), 403)
    _assert_problem(store.http_for(["write"]).post("/v1/tasks", content=b"{"), 400)


# JSON


@pytest.mark.parametrize(
    ("body", "where"),
    [
        (b"", "line 1"),
        (b'{\n  "queue": }', "line 2 column"),
        (b'{"a": 1, "\\u0061": 2}', "line 1 column"),
        (b'{"a": NaN}', "line 1 column"),
        (b'{"a": Infinity}', "line 1 column"),
        (b'{"a": "\\ud800"}', "line 1 column"),
        (b'{"a": "\xff"}', "line 1 column"),
        (b"{} {}", "line 1 column"),
    ],
)
def test_what_is_no_json_gets_400_with_line_and_column(store: Any, body: bytes, where: str) -> None:
    document = _assert_problem(store.http().post("/v1/tasks", content=body), 400)

    assert where in document["detail"]
    assert _nothing_stored(store)


@pytest.mark.parametrize(
    ("value", "path"),
    [
        ("1e999", "brief.a[0]"),
        ("9007199254740992", "brief.a[0]"),
        ("1e300", "brief.a[0]"),
        ("-9007199254740993.0", "brief.a[0]"),
    ],
)
def test_numbers_out_of_bounds_get_422_with_their_path(store: Any, value: str, path: str) -> None:
    body = f'{{"queue": "q", "kind": "k", "brief": {{"a": [{value}]}}}}'

    document = _assert_problem(store.http().post("/v1/tasks", content=body.encode()), 422)

    assert document["errors"][0]["path"] == path
    assert _nothing_stored(store)


def test_nesting_over_64_gets_422(store: Any) -> None:
    body = b'{"queue": "q", "kind": "k", "brief": ' + b'{"a":' * 63 + b"{}" + b"}" * 64
    http = store.http()

    _assert_problem(http.post("/v1/tasks", content=body), 422)
    inside = b'{"queue": "q", "kind": "k", "brief": ' + b'{"a":' * 62 + b"{}" + b"}" * 63
    assert http.post("/v1/tasks", content=inside).status_code == 201


# Fields


def test_lax_types_are_refused_each_with_its_path(store: Any) -> None:
    body = {
        "queue": 5,
        "kind": True,
        "brief": [],
        "private": 1,
        "priority": "1",
        "max_attempts": True,
        "pins": [
            {"store": "s", "key": "k", "version": 1},
            {"store": "s", "key": "a/b", "version": "1", "extra": 0},
        ],
        "b.c/d": 1,
    }

    document = _assert_problem(store.http().post("/v1/tasks", json=body), 422)

    assert document["errors"] == [
        {"path": "queue", "message": "must be a string"},
        {"path": "kind", "message": "must be a string"},
        {"path": "brief", "message": "must be an object"},
        {"path": "private", "message": "must be a boolean"},
        {"path": "priority", "message": "must be an integer"},
        {"path": "max_attempts", "message": "must be an integer"},
        {"path": "pins[1].key", "message": "must be of A-Z a-z 0-9 . _ : @ + = - and not . or .."},
        {"path": "pins[1].version", "message": "must be an integer"},
        {"path": "pins[1].extra", "message": "is not a known field"},
        {"path": "b.c/d", "message": "is not a known field"},
    ]
    assert _nothing_stored(store)


@pytest.mark.parametrize("body", [b"[]", b"null", b"1", b'"a"'])
def test_a_body_that_is_no_object_is_refused(store: Any, body: bytes) -> None:
    document = _assert_problem(store.http().post("/v1/tasks", content=body), 422)

    assert document["errors"] == [{"path": "", "message": "must be an object"}]


@pytest.mark.parametrize(
    ("field", "value", "fine"),
    [
        ("queue", "a" * 65, "a" * 64),
        ("queue", "", "a"),
        ("queue", "a b", "a.b_c-D9"),
        ("kind", "é" * 33, "é" * 32),
        ("kind", "a\tb", "a b"),
        ("kind", " ", "a"),
        ("priority", 101, 100),
        ("priority", -101, -100),
        ("priority", 1.5, 1.0),
        ("max_attempts", 0, 1),
        ("max_attempts", 101, 100),
        ("idempotency_key", "", "a"),
        ("idempotency_key", "é" * 129, "é" * 128),
        ("idempotency_key", None, "b"),
    ],
)
def test_bounds_of_an_enqueue(store: Any, field: str, value: Any, fine: Any) -> None:
    body = {"queue": "q", "kind": "k", "brief": {}}
    http = store.http()

    document = _assert_problem(http.post("/v1/tasks", json={**body, field: value}), 422)

    assert [error["path"] for error in document["errors"]] == [field]
    assert http.post("/v1/tasks", json={**body, field: fine}).status_code == 201


@pytest.mark.parametrize("lease", [0, 86_401, "60", True, 0.5, None])
def test_bounds_of_a_lease(store: Any, lease: Any) -> None:
    http = store.http()

    document = _assert_problem(http.post("/v1/tasks/claim", json={"queue": "q", "lease_seconds": lease}), 422)

    assert document["errors"][0]["path"] == "lease_seconds"
    for fine in (1, 86_400, 60.0):
        assert http.post("/v1/tasks/claim", json={"queue": "q", "lease_seconds": fine}).status_code == 204


@pytest.mark.parametrize(
    ("query", "path"),
    [
        ("", "queue"),
        ("queue=a b", "queue"),
        ("queue=q&limit=0", "limit"),
        ("queue=q&limit=101", "limit"),
        ("queue=q&limit=ten", "limit"),
        ("queue=q&limit=-1", "limit"),
        ("queue=q&limit=1.0", "limit"),
        ("queue=q&after=-1", "after"),
        ("queue=q&after=x", "after"),
        ("queue=q&after=", "after"),
        ("queue=q&after=01", "after"),
        ("queue=q&after=%D9%A1", "after"),
        ("queue=q&after=9223372036854775808", "after"),
        ("queue=q&after=1", "after"),
        ("queue=q&kind=", "kind"),
        ("queue=q&queue=q", "queue"),
        ("queue=q&color=blue", "color"),
    ],
)
def test_query_parameters_are_refused_by_name(store: Any, query: str, path: str) -> None:
    document = _assert_problem(store.http().get(f"/v1/executions?{query}"), 422)

    assert [error["path"] for error in document["errors"]] == [path]


def test_a_query_that_is_no_utf8_is_refused(store: Any) -> None:
    _assert_problem(store.http().get("/v1/executions?queue=%FF"), 422)


def test_long_texts_of_one_character_are_judged_fast(store: Any) -> None:
    http = store.http()
    for field in ("queue", "kind", "idempotency_key", "owner_key_id"):
        body = {"queue": "q", "kind": "k", "brief": {}, field: "a" * 50_000 + "\t"}
        begun = time.monotonic()
        answer = http.post("/v1/tasks", json=body)
        assert time.monotonic() - begun < 1
        _assert_problem(answer, 422)


# Faults of our own


def test_a_fault_of_the_store_is_a_problem_without_internals(
    store: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from tessera.store import keys

    def broken(*_: Any) -> None:
        raise RuntimeError("inside /secret/place")

    monkeypatch.setattr(keys, "whoami", broken)

    answer = store.http().get("/v1/whoami")

    _assert_problem(answer, 500)
    assert "secret" not in answer.text
    assert "RuntimeError" in caplog.text
    assert store.admin_key not in caplog.text


def test_no_secret_is_kept_in_the_files(store: Any) -> None:
    key = store.key()
    store.http(key["secret"]).get("/v1/whoami")
    store.http("tsk_wrong_wrong_wrong").get("/v1/whoami")

    kept = b"".join(path.read_bytes() for path in Path(store.home).glob("tessera.db*"))
    for secret in (key["secret"], store.admin_key, "tsk_wrong_wrong_wrong"):
        assert secret.encode() not in kept


def test_the_open_calls_need_no_key(store: Any) -> None:
    with httpx.Client(base_url=store.url) as http:
        assert http.get("/healthz").json() == {"status": "ok"}
        document = http.get("/openapi.json").json()

    assert document["openapi"].startswith("3.")
    assert "/v1/tasks/{task_id}/submit" in document["paths"]
    json.dumps(document)
