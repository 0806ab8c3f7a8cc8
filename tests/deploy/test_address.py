"""Several store processes behind one address are one store: what each of them must not keep to itself."""

import re
import ssl
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import anyio
import httpx
import pytest

from tessera import Client
from tessera.errors import Unauthorized
from tests.deploy.address import NAME, Address, Nginx
from tests.deploy.load import rounds
from tests.faults.server import Caller, assert_problem, free_port
from tests.server.mcp_talk import call, talk

pytestmark = pytest.mark.xdist_group("deployed")  # the address that they talk to is set up once
MIB = 1 << 20


@contextmanager
def directly(address: Address, secret: str | None = None) -> Iterator[list[Caller]]:
    """A caller of each process, past nginx."""
    with ExitStack() as closing:
        yield [
            closing.enter_context(store.caller(address.admin_secret if secret is None else secret))
            for store in address.stores
        ]


def test_processes_begun_at_once_on_an_empty_database_are_one_store_with_one_key(address: Address) -> None:
    with directly(address) as callers:
        known = {caller.get("/v1/whoami").json()["store_id"] for caller in callers}
        (key,) = [item for item in callers[0].get("/v1/keys").json()["items"] if item["name"] == "admin"]
    told = "".join(store.log_text() for store in address.stores)

    assert len(known) == 1
    assert key["scopes"] == ["admin", "read", "work", "write"]
    assert told.count("A new admin key is in") == 1


def test_nothing_is_lost_or_doubled_while_processes_die_end_and_come_back(address: Address) -> None:
    """And no worker meets an error that its client can absorb; an orderly end costs nobody anything."""
    found = rounds(address, seconds=0, seed=20_260_101)
    print(found.summary())

    assert found.sentences == []
    assert found.counts["acknowledged"] > 50
    assert found.counts["runs by clients"] > 20


def test_a_revoked_key_is_refused_by_every_process_at_once(address: Address) -> None:
    with address.caller() as admin, directly(address) as direct:
        made = admin.post("/v1/keys", {"name": "brief", "scopes": ["read"], "queues": ["*"]}).json()
        with directly(address, made["secret"]) as callers:
            before = [caller.get("/v1/whoami").status_code for caller in callers]
            direct[0].delete(f"/v1/keys/{made['id']}")
            after = [caller.get("/v1/whoami").status_code for caller in callers]
    with Client(address.url, made["secret"]) as client, pytest.raises(Unauthorized):
        client.whoami()

    assert (before, after) == ([200] * 3, [401] * 3)


def test_an_idempotency_key_sent_to_every_process_at_once_is_used_once(address: Address) -> None:
    secret = address.key()
    with directly(address, secret) as callers, ThreadPoolExecutor(3) as pool:
        for number in range(10):
            body = {"queue": "once", "kind": "k", "brief": {}, "idempotency_key": f"once {number}"}
            answers = list(pool.map(lambda caller, body=body: caller.post("/v1/tasks", body), callers))
            assert sorted(answer.status_code for answer in answers) == [200, 200, 201]
            assert len({answer.json()["task_id"] for answer in answers}) == 1


def test_one_fence_submitted_to_every_process_at_once_is_kept_once(address: Address) -> None:
    secret = address.key()
    with directly(address, secret) as callers, ThreadPoolExecutor(3) as pool:
        for number in range(10):
            callers[0].enqueue("fence", {"n": number})
            task = callers[number % 3].claim("fence")
            assert task is not None
            answers = list(pool.map(lambda caller, task=task: caller.submit(task), callers))
            assert sorted(answer.status_code for answer in answers) == [200, 409, 409]
        assert len(callers[0].walk("fence")) == 10


def test_a_coin_falls_the_same_way_whichever_process_throws_it(address: Address) -> None:
    arms = [{"arm": str(n), "weight": 1 / 32} for n in range(32)]
    with directly(address, address.key()) as callers:
        for number in range(6):
            callers[0].enqueue("coin", {"n": number})
            task = callers[1].claim("coin")
            assert task is not None
            body = {"fence": task["fence"], "dimension": "method", "arms": arms}
            drawn = [caller.post(f"/v1/tasks/{task['task_id']}/draw", body).json() for caller in callers]
            assert drawn[0] == drawn[1] == drawn[2]
            callers[2].submit(task)
    with directly(address) as admins:
        for admin in admins:
            thrown = admin.get("/v1/draws", limit=100).json()["items"]
            assert len(thrown) >= 6
            assert all(draw["agrees"] for draw in thrown)


@pytest.mark.parametrize("era", ["legacy", "auto"])
def test_a_model_talks_to_whichever_process_it_meets(address: Address, era: str) -> None:
    """Each message of the SDK's client goes where nginx sends it: there is no session to miss."""
    secret = address.key()

    async def work() -> dict[str, Any]:
        async with talk(("http", era), address.url, secret) as client:
            for number in range(4):
                await call(client, "enqueue", queue=f"mcp.{era}", kind="k", brief={"n": number})
            for _ in range(4):
                task = (await call(client, "claim", queue=f"mcp.{era}", lease_seconds=60))["data"]
                await call(client, "submit", task_id=task["task_id"], fence=task["fence"], ok=True)
            return await call(client, "list_execution_observations", queue=f"mcp.{era}")

    listed = anyio.run(work)

    assert len(listed["data"]["items"]) == 4
    log = address.nginx.log("access.log").splitlines()
    asked = {line.split()[-1] for line in log if '"POST /mcp"' in line}
    assert asked == {f"127.0.0.1:{store.port}" for store in address.stores}


def test_a_host_that_is_not_configured_is_refused(address: Address) -> None:
    for host, status in ((NAME, 200), (f"{NAME}:8080", 200), ("other.example", 421), ("127.0.0.1", 200)):
        assert httpx.get(f"{address.url}/healthz", headers={"host": host}).status_code == status


def test_a_body_may_be_as_large_as_the_store_takes_and_no_larger(address: Address) -> None:
    with address.caller() as admin:
        whole = admin.post("/v1/records", content=b"[" + b" " * (16 * MIB - 1))
        larger = admin.post("/v1/records", content=b"[" + b" " * 16 * MIB)
        largest = admin.post("/v1/records", content=b"[" + b" " * 17 * MIB)

    assert whole.status_code == 400  # read to its end, which is not JSON's
    assert_problem(larger, 413)
    assert assert_problem(largest, 413)["detail"] == larger.json()["detail"]


def test_the_metrics_of_each_process_are_asked_at_its_own_port(address: Address) -> None:
    with address.caller() as admin, directly(address) as callers:
        answer = admin.get("/metrics")
        each = [caller.get("/metrics").status_code for caller in callers]

    assert "its own port" in assert_problem(answer, 404)["detail"]
    assert each == [200] * 3


def test_the_log_of_nginx_tells_no_query_and_no_key(address: Address) -> None:
    with Client(address.url, address.admin_secret) as client:
        client.list_records(store="hush", prefix="quiet")
    told = address.nginx.log("access.log")

    assert re.search(r'"GET /v1/records" 200', told)
    assert not re.search(r"quiet|tsk_|\?", told)


def test_the_lines_for_tls_are_right_when_the_comment_is_taken_away(
    nginx_program: str, tmp_path: Path
) -> None:
    key, certificate = tmp_path / "tls.key", tmp_path / "tls.crt"
    subprocess.run(
        [
            "openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=tessera",
            "-addext", "subjectAltName=IP:127.0.0.1", "-keyout", str(key), "-out", str(certificate),
        ],
        check=True,
        capture_output=True,
    )  # fmt: skip
    plain, port = free_port(), free_port()
    nginx = Nginx(
        tmp_path / "nginx",
        {
            "listen 127.0.0.1:8080;": f"listen 127.0.0.1:{plain};",
            "/var/log/nginx/tessera.log": str(tmp_path / "access.log"),
            "# listen 443 ssl;": f"listen 127.0.0.1:{port} ssl;",
            "# ssl_certificate /etc/tessera/tls.crt;": f"ssl_certificate {certificate};",
            "# ssl_certificate_key /etc/tessera/tls.key;": f"ssl_certificate_key {key};",
            **{
                f"server 127.0.0.1:{port} ": f"server 127.0.0.1:{free_port()} " for port in (8765, 8766, 8767)
            },
        },
    )
    nginx.start(port)
    try:
        trusted = ssl.create_default_context(cafile=certificate)
        answer = httpx.get(f"https://127.0.0.1:{port}/v1/whoami", verify=trusted)
    finally:
        nginx.stop()

    assert "went away" in assert_problem(answer, 502)["detail"]  # no store listens
    assert answer.headers["retry-after"] == "1"
