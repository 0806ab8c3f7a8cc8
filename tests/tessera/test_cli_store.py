"""The command and the client against the real store: real records in and out, answers lost on the way."""

import asyncio
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tessera.client import AsyncClient, Client
from tessera.errors import Conflict, NotFound, Unauthorized

Tessera = Callable[..., Any]


@pytest.fixture
def tessera(store: Any, tmp_path: Path) -> Tessera:
    """Runs `tessera ARGS --json` on the store with its admin key; the document it printed."""

    def run(*args: object, status: int = 0, **environ: str) -> Any:
        own = {"TESSERA_URL": store.url, "TESSERA_HOME": str(store.home), "TESSERA_KEY": "", **environ}
        ran = subprocess.run(
            [sys.executable, "-m", "tessera.cli", *map(str, args), "--json"],
            env={**os.environ, **own},
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert ran.returncode == status, ran.stderr
        return json.loads(ran.stdout) if ran.stdout else ran.stderr

    return run


class Twin:
    """Either client, its calls made blocking: `twin.enqueue(...)` of the awaited one runs a loop for it."""

    def __init__(self, kind: type[Client] | type[AsyncClient], url: str, key: str) -> None:
        self._runner = asyncio.Runner() if kind is AsyncClient else None
        self._client: Any = kind(url, key)

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._client, name)
        return method if self._runner is None else lambda *args, **named: self._run(method(*args, **named))

    def iter_observations(self, *args: Any, **named: Any) -> list[dict[str, Any]]:
        found = self._client.iter_observations(*args, **named)
        return list(found) if self._runner is None else self._run(gathered(found))

    def _run(self, awaitable: Any) -> Any:
        async def wait() -> Any:
            return await awaitable

        assert self._runner is not None
        return self._runner.run(wait())

    def close(self) -> None:
        closing = self._client.close()
        if self._runner is not None:
            self._run(closing)
            self._runner.close()


async def gathered(items: Any) -> list[Any]:
    return [item async for item in items]


@pytest.fixture(params=[Client, AsyncClient])
def connect(request: pytest.FixtureRequest) -> Iterator[Callable[[str, str], Twin]]:
    made: list[Twin] = []

    def connect(url: str, key: str) -> Twin:
        made.append(Twin(request.param, url, key))
        return made[-1]

    yield connect
    for twin in made:
        twin.close()


def lines(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in gzip.decompress(path.read_bytes()).splitlines()]


def written(path: Path, attempts: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(attempt) + "\n" for attempt in attempts))
    return path


# The client's calls


def test_a_task_goes_all_the_way_through_the_client(store, connect):
    client = connect(store.url, store.admin_key)

    task = client.enqueue("q", "verb.x", {"title": "a title"}, priority=5, max_attempts=2)
    claimed = client.claim("q", kinds=["verb.x"], lease_seconds=60)
    client.heartbeat(claimed["task_id"], claimed["fence"], 120)
    report = {"model": None, "learning": {"outcome": "succeeded", "path": {"method": "m"}}}
    receipt = client.submit(claimed["task_id"], 1, True, output={"n": 1}, execution_report=report)

    assert claimed["task_id"] == task["task_id"]
    assert receipt["result"] == "accepted"
    assert client.get_task(task["task_id"])["state"] == "succeeded"
    assert client.get_execution(receipt["run_id"])["output"] == {"n": 1}
    assert [item["run_id"] for item in client.iter_observations("q")] == [receipt["run_id"]]
    assert client.execution_observations("q")["items"][0]["report"]["learning"] == report["learning"]
    assert json.loads(client.observation_page("q"))["items"] == client.execution_observations("q")["items"]
    assert client.pending("q")["count"] == 1
    assert client.queues()["queues"] == ["q"]
    assert client.claim("q") is None
    assert client.health()


def test_a_cancelled_task_is_cancelled_however_often_it_is_said(store, connect):
    client = connect(store.url, store.admin_key)
    task = client.enqueue("q", "k", {})

    client.cancel(task["task_id"])
    client.cancel(task["task_id"])

    assert client.get_task(task["task_id"])["state"] == "cancelled"


def test_records_are_written_read_and_listed_through_the_client(store, connect):
    client = connect(store.url, store.admin_key)
    write = {"store": "s", "key": "a:b@20", "expected_version": 0, "category": "noun.x", "tags": ["t"]}

    first = client.write_records([{**write, "body": {"n": 1}, "visibility": "shared"}])
    client.write_records([{**write, "expected_version": 1, "body": {"n": 2}, "visibility": "shared"}])

    assert first["records"][0]["version"] == 1
    assert client.get_record("s", "a:b@20")["body"] == {"n": 2}
    assert client.get_record("s", "a:b@20", 1)["body"] == {"n": 1}
    assert len(client.record_versions("s", "a:b@20")["items"]) == 2
    assert [item["key"] for item in client.list_records(store="s", prefix="a:", tag="t")["items"]] == [
        "a:b@20"
    ]
    with pytest.raises(Conflict) as refused:
        client.write_records([{**write, "body": {}, "visibility": "shared"}])
    assert refused.value.conflicts[0]["current_version"] == 2
    for unsafe in ("..", ".", "absent"):
        with pytest.raises(NotFound):
            client.get_record("s", unsafe)


# Lost answers


def test_writes_whose_answers_are_lost_happen_once(store, losing, connect):
    write = {"store": "s", "key": "k", "expected_version": 0, "category": "c", "tags": [], "body": {"n": 1}}

    published = connect(losing(store.url).url, store.admin_key).write_records(
        [{**write, "visibility": "shared"}]
    )
    task = connect(losing(store.url).url, store.admin_key).enqueue("q", "k", {})
    client = connect(store.url, store.admin_key)
    claimed = client.claim("q")
    receipt = connect(losing(store.url).url, store.admin_key).submit(claimed["task_id"], 1, True)

    assert published["records"][0]["version"] == 1
    assert [item["version"] for item in client.record_versions("s", "k")["items"]] == [1]
    assert claimed["task_id"] == task["task_id"]
    assert client.claim("q") is None
    assert [item["run_id"] for item in client.iter_observations("q")] == [receipt["run_id"]]


# Keys


def test_a_key_is_made_used_listed_and_revoked(store, tessera, connect):
    made = tessera(
        "keys", "create", "worker", "--scope", "read", "--queue", "a*", "--expires", "2100-01-01T00:00:00Z"
    )
    me = connect(store.url, made["secret"]).whoami()
    tessera("keys", "revoke", made["id"])

    assert (me["id"], me["name"], me["scopes"], me["queues"]) == (made["id"], "worker", ["read"], ["a*"])
    (listed,) = [key for key in tessera("keys", "list")["keys"] if key["id"] == made["id"]]
    assert listed["revoked_at"] is not None
    assert made["secret"] not in json.dumps(listed)
    with pytest.raises(Unauthorized):
        connect(store.url, made["secret"]).whoami()


# Files


def test_real_records_import_twice_without_doubling_and_come_out_whole(store, tessera, records, tmp_path):
    file = records / "swebench_verified_paths.jsonl.gz"

    first = tessera("import", file, "--queue", "sw")
    again = tessera("import", file, "--queue", "sw")
    exported = tessera("export", "--queue", "sw", "--out", tmp_path / "sw.jsonl")

    attempts = lines(file)
    assert (first["imported"], first["already_there"]) == (2680, 0)
    assert (again["imported"], again["already_there"]) == (0, 2680)
    assert exported["observations"] == len(attempts) == 2680
    items = [json.loads(line) for line in (tmp_path / "sw.jsonl").read_text("utf-8").splitlines()]
    assert [item["server"]["result"] == "accepted" for item in items] == [a["accepted"] for a in attempts]
    assert [item["brief"]["wording"].get("problem") is None for item in items] == [
        attempt["problem_text"] is None for attempt in attempts
    ]
    queue = {"queue": "sw", "observations": 2680}
    told = tessera("stats")
    assert told["queues"] == [queue]
    assert told["store_id"] == store.store_id
    assert told["database"]["bytes"] > 0
    assert {"table": "executions", "rows": 2680} in told["database"]["tables"]


def test_corrected_costs_conflict_by_line_and_write_nothing(store, tessera, records, tmp_path):
    prior = lines(records / "openhands_prior_costs.jsonl.gz")[:700]
    corrected = [{**attempt, "cost_amount": 123.5, "cost_currency": "USD"} for attempt in prior[:600]]
    tessera("import", written(tmp_path / "corrected.jsonl", corrected), "--queue", "oh")

    told = tessera("import", written(tmp_path / "prior.jsonl", prior), "--queue", "oh", status=1)

    assert [conflict["line"] for conflict in told["conflicts"]] == list(range(1, 601))
    assert (told["imported"], told["already_there"], told["held_back"]) == (0, 0, 100)
    with store.client() as client:
        assert client.pending("oh")["count"] == 600


@pytest.mark.slow
def test_fifty_thousand_attempts_import_in_under_two_minutes(tessera, records):
    import time

    file = records / "openhands_index.jsonl.gz"
    started = time.monotonic()

    told = tessera("import", file, "--queue", "oh")

    assert told["imported"] == 50974
    assert time.monotonic() - started < 120


def test_exported_parquet_is_the_workspaces_table_of_observations(store, tessera, tmp_path):
    table = pytest.importorskip("schemas.observations", reason="the workspace's tables are not here yet")
    import polars as pl

    with store.client() as client:
        client.enqueue("q", "k", {"title": "t", "tags": ["b", "a"], "goal": 3})
        claimed = client.claim("q")
        learning = {"duration_seconds": 2, "unknowns": [{"field": "cost", "reason": "none"}], "cost": None}
        usage = {"input_tokens": 5.0}
        client.submit(
            *(claimed["task_id"], 1, False),
            failure="no",
            execution_report={"model": None, "usage": usage, "learning": learning},
        )
        items = client.execution_observations("q")["items"]

    tessera("export", "--queue", "q", "--out", tmp_path / "q.parquet")

    assert pl.read_parquet(tmp_path / "q.parquet").equals(table.frame(items))
    assert dict(pl.read_parquet_schema(tmp_path / "q.parquet")) == dict(table.SCHEMA)


def test_stats_weighs_only_the_store_that_answered(store, tessera, tmp_path):
    (tmp_path / "elsewhere").mkdir()

    told = tessera("stats", TESSERA_HOME=str(tmp_path / "elsewhere"), TESSERA_KEY=store.admin_key)

    assert told["database"] is None


@pytest.mark.both_databases
def test_stats_weighs_the_database_of_the_store_that_answered(store, tessera, database_url):
    with store.client() as client:
        client.enqueue("q", "k", {"goal": "go"})

    weighed = tessera("stats", TESSERA_DATABASE_URL=database_url or "")["database"]

    assert weighed["bytes"] > 0
    assert (weighed["log_bytes"] is None) == (database_url is not None)
    assert {"table": "tasks", "rows": 1} in weighed["tables"]


def test_stats_tells_what_operations_write_without_a_store(store, tessera):
    told = tessera("stats", "--write-cost", TESSERA_URL="http://127.0.0.1:9")

    assert {row["operation"] for row in told["write_cost"]} >= {"enqueue", "claim", "submit with a report"}
    assert all(row["entries"] <= row["promised"] for row in told["write_cost"])


# The server's command


def test_serve_says_where_it_is_never_the_secret_and_ends_cleanly(tmp_path):
    home = tmp_path / "home"
    server = subprocess.Popen(
        [sys.executable, "-u", "-m", "tessera.cli", "serve", "--home", str(home), "--port", "0"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )
    assert server.stdout is not None
    said = ""
    while not (where := re.search(r"http://127\.0\.0\.1:[0-9]+", said)):
        said += server.stdout.readline()
    secret = (home / "admin.key").read_text().strip()
    with Client(where[0], secret) as client:
        name = client.whoami()["name"]
    server.send_signal(signal.SIGTERM)
    said += server.communicate(timeout=60)[0]

    assert name == "admin"
    assert (home / "admin.key").stat().st_mode & 0o777 == 0o600
    assert secret not in said
    assert "Traceback" not in said
    assert server.returncode in (0, -signal.SIGTERM)
