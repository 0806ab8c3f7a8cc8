"""Secrets and foreign origins: a key's secret is with its holder alone, and no page elsewhere may call."""

import socket
from pathlib import Path

import httpx
import pytest

from tests.faults.server import Caller, Server, assert_problem

SHORT = 12  # of a secret's 47 characters; a part as long as this would be a find


def test_no_secret_nor_part_of_one_is_in_a_log_an_answer_a_metric_or_the_database(tmp_path: Path) -> None:
    answers: list[str] = []
    with Server(tmp_path / "home") as server:
        secret, revoked = server.key(), server.key()
        wrong = "tsk_" + "Wr0ng-" * 7
        with server.caller() as admin:
            keys = admin.get("/v1/keys").json()["items"]
            admin.delete(f"/v1/keys/{keys[-1]['id']}")
            for path in ("/metrics", "/v1/keys", "/openapi.json", "/v1/whoami"):
                answers.append(admin.get(path).text)
        for one in (secret, revoked, wrong):
            with server.caller(one) as caller:
                answers += [
                    caller.get("/v1/whoami").text,
                    caller.post("/v1/tasks", {"queue": one[:5]}).text,
                    caller.post("/v1/tasks", content=b"{").text,
                    caller.get("/v1/executions", queue="q", after="1").text,
                    caller.get("/v1/nothing").text,
                    caller.post("/v1/keys", {}).text,
                ]
            with socket.create_connection(("127.0.0.1", server.port), timeout=5) as connection:
                connection.sendall(
                    f"POST /v1/tasks HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer {one}\r\n"
                    f"Authorization: Bearer {one}\r\nContent-Length: 99999999999999999999\r\n\r\n".encode()
                )
                answers.append(connection.recv(65536).decode())
        admin_secret = server.admin_secret
        files = [path for path in server.home.rglob("*") if path.is_file() and path.name != "admin.key"]
        held = b"".join(path.read_bytes() for path in files)
    held += b"".join(path.read_bytes() for path in tmp_path.rglob("*.db*"))
    kept = server.log_text().encode() + held + "".join(answers).encode()

    for one in (secret, revoked, wrong, admin_secret):
        for start in range(4, len(one) - SHORT):
            assert one[start : start + SHORT].encode() not in kept
    assert (server.home / "admin.key").stat().st_mode & 0o777 == 0o600


ORIGINS = [
    "https://evil.example",
    "null",
    "http://localhost.evil.example",
    "http://127.0.0.1.evil.example",
    "http://localhost",
    "http://127.0.0.1:8765",
]


@pytest.mark.parametrize("origin", ORIGINS)
def test_no_origin_is_allowed_unless_configured(caller: Caller, origin: str) -> None:
    preflight = {
        "Origin": origin,
        "Access-Control-Request-Method": "POST",
        "Access-Control-Request-Headers": "authorization,content-type",
    }
    plain = {"Origin": origin}
    answers = [
        caller.send("OPTIONS", "/v1/tasks", headers=preflight),
        caller.send("OPTIONS", "/healthz", headers=preflight),
        caller.send("GET", "/healthz", headers=plain),
        caller.send("GET", "/v1/queues", headers=plain),
        caller.send("GET", "/v1/queues", headers={**plain, "Authorization": "Bearer unknown"}),
    ]

    for answer in answers:
        assert not [name for name in answer.headers if name.startswith("access-control-")]


@pytest.mark.parametrize(
    "host",
    [
        "evil.example",
        "localhost.evil.example",
        "127.0.0.1.evil.example",
        "127.0.0.2",
        "127.1",
        "2130706433",
        "[::2]",
        "127.0.0.1@evil.example",
        "127.0.0.1:80:80",
        "127.0.0.1, evil.example",
        "",
    ],
)
def test_another_host_is_misdirected_before_any_work(caller: Caller, host: str) -> None:
    answer = caller.post("/v1/tasks", content=b"{", headers={"Host": host})

    assert answer.status_code in (400, 421)
    assert_problem(answer, 400, 421)


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "LOCALHOST:1", "[::1]", "[::1]:8765"])
def test_loopback_names_are_answered(caller: Caller, host: str) -> None:
    assert caller.send("GET", "/v1/whoami", headers={"Host": host}).status_code == 200


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"Authorization": ""},
        {"Authorization": "Bearer"},
        {"Authorization": "Basic dXNlcjpwYXNz"},
        {"Authorization": "Bearer tsk_unknown"},
        {"Authorization": b"Bearer tsk_\xc3\xa9"},
        {"Authorization": "Bearer {secret} {secret}"},
        {"Authorization": "{secret}"},
        [("Authorization", "Bearer {secret}"), ("Authorization", "Bearer {secret}")],
        [("Authorization", "Bearer {secret}"), ("Authorization", "Basic x")],
    ],
)
def test_a_key_that_is_none_is_unauthorized_in_the_same_words(
    server: Server, headers: dict[str, str | bytes] | list[tuple[str, str]]
) -> None:
    pairs = headers.items() if isinstance(headers, dict) else headers
    filled = [
        (
            name.encode(),
            value if isinstance(value, bytes) else value.format(secret=server.admin_secret).encode(),
        )
        for name, value in pairs
    ]

    answer = httpx.get(f"{server.url}/v1/whoami", headers=filled, trust_env=False)

    document = assert_problem(answer, 401)
    assert document["detail"] == "the key is missing, unknown, revoked or expired"
    assert answer.headers["www-authenticate"] == "Bearer"
