"""The `tessera` command as a program: its exit status, what it prints where, and what it refuses.

Against a scripted store; test_cli_store.py runs it against the real one.
"""

import gzip
import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

KEY = "tsk_9d1c77f0a5b24e0c8e6e5d1f"

Command = Callable[..., subprocess.CompletedProcess[str]]

ATTEMPT = {"source": "s", "task_key": "t", "attempt": 1, "kind": "k", "accepted": True}


@pytest.fixture
def tessera(tmp_path: Path) -> Command:
    """Runs `tessera ARGS` in a folder of its own, with `url` as its store."""

    def run(
        *args: object, url: str = "http://127.0.0.1:1", **environ: str
    ) -> subprocess.CompletedProcess[str]:
        home = tmp_path / "home"
        home.mkdir(exist_ok=True)
        own = {"TESSERA_URL": url, "TESSERA_KEY": KEY, "TESSERA_HOME": str(home), "TERM": "dumb", **environ}
        return subprocess.run(
            [sys.executable, "-m", "tessera.cli", *map(str, args)],
            env={**os.environ, "PYTHONPATH": os.getcwd(), **own},
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=60,
        )

    return run


def said(status: int, body: object) -> tuple[int, dict[str, str], bytes]:
    return status, {}, json.dumps(body).encode()


def lines_of(path: Path, *attempts: object) -> Path:
    text = "".join((each if isinstance(each, str) else json.dumps(each)) + "\n" for each in attempts)
    if path.suffix == ".gz":
        path.write_bytes(gzip.compress(text.encode()))
    else:
        path.write_text(text)
    return path


# The command


@pytest.mark.parametrize(
    "arguments",
    [
        (),
        ("unknown",),
        ("import", "missing.jsonl", "--queue", "q"),
        ("import", "."),
        ("export", "--queue", "q", "--out", "observations.csv"),
        ("keys", "create", "name"),
        ("serve", "--port", "http"),
    ],
    ids=lambda arguments: " ".join(arguments) or "nothing",
)
def test_wrong_usage_ends_with_status_2_and_no_traceback(tessera, arguments):
    ran = tessera(*arguments)

    assert ran.returncode == 2
    assert "Traceback" not in ran.stderr


@pytest.mark.parametrize(
    "arguments", [("stats",), ("keys", "list"), ("export", "--queue", "q", "--out", "o.jsonl")]
)
def test_a_store_that_is_down_is_one_line_on_stderr_and_status_1(tessera, tmp_path, arguments):
    ran = tessera(*arguments)

    assert (ran.returncode, ran.stdout) == (1, "")
    assert ran.stderr.count("\n") == 1
    assert "http://127.0.0.1:1" in ran.stderr
    assert "tessera serve" in ran.stderr
    assert [path.name for path in tmp_path.iterdir()] == ["home"]


def test_a_refusal_is_one_line_with_every_fault(tessera, scripted):
    faults = [
        {"path": "scopes[0]", "message": "must be one of …"},
        {"path": "queues", "message": "is required"},
    ]
    store = scripted(said(422, {"title": "Unprocessable", "detail": "bad key", "errors": faults}))

    ran = tessera("keys", "create", "n", "--scope", "all", "--queue", "q", url=store.url)

    assert ran.returncode == 1
    assert ran.stderr.count("\n") == 1
    assert "bad key; scopes[0]: must be one of …; queues: is required" in ran.stderr


@pytest.mark.parametrize("answer", [(401, {}, KEY.encode()), said(500, {"detail": f"Bearer {KEY}"}), None])
def test_no_output_ever_holds_the_callers_key(tessera, scripted, answer):
    ran = tessera("stats", url=scripted(answer).url, PYTHONDEVMODE="1")

    assert ran.returncode == 1
    assert KEY not in ran.stdout + ran.stderr


def test_a_relative_home_is_refused_by_name(tessera):
    ran = tessera("keys", "list", TESSERA_HOME="here")

    assert ran.returncode == 1
    assert "TESSERA_HOME" in ran.stderr


# Keys


def test_keys_create_prints_id_and_secret_for_programs(tessera, scripted):
    store = scripted(said(201, {"id": "k1", "secret": "shown-once"}))

    ran = tessera(
        *(
            "keys",
            "create",
            "worker",
            "--scope",
            "read,work",
            "--scope",
            "write",
            "--queue",
            "a",
            "--queue",
            "b*",
        ),
        *("--kind", "x", "--store", "s", "--expires", "2030-01-01T00:00:00Z", "--json"),
        url=store.url,
    )

    assert json.loads(ran.stdout) == {"id": "k1", "secret": "shown-once"}
    assert store.requests[0]["body"] == {
        "name": "worker",
        "scopes": ["read", "work", "write"],
        "queues": ["a", "b*"],
        "kinds": ["x"],
        "stores": ["s"],
        "expires_at": "2030-01-01T00:00:00Z",
    }


def test_a_key_whose_answer_is_lost_is_not_made_twice(tessera, scripted):
    store = scripted(None)

    ran = tessera("keys", "create", "n", "--scope", "read", "--queue", "q", url=store.url)

    assert ran.returncode == 1
    assert len(store.requests) == 1


def test_keys_list_shows_all_pages_and_no_markup_or_control_character(tessera, scripted):
    def key(number: int, name: str) -> dict[str, Any]:
        return {"id": f"k{number}", "name": name, "scopes": ["read"], "queues": ["*"], "kinds": None}

    store = scripted(
        said(200, {"items": [key(1, "[red]one[/]")], "next_after": "k1", "has_more": True}),
        said(200, {"items": [key(2, "two\x1b[2J")], "next_after": "k2", "has_more": False}),
    )

    ran = tessera("keys", "list", url=store.url)

    assert ran.returncode == 0
    assert "[red]one[/]" in ran.stdout
    assert "k2" in ran.stdout
    assert "\x1b" not in ran.stdout


def test_keys_revoke_names_the_key(tessera, scripted):
    store = scripted(said(200, {"id": "k1"}))

    ran = tessera("keys", "revoke", "k1", "--json", url=store.url)

    assert json.loads(ran.stdout) == {"revoked": "k1"}
    assert store.requests[0]["line"] == "DELETE /v1/keys/k1"


# Import


def test_a_faulty_file_is_refused_by_line_and_path_and_nothing_is_sent(tessera, scripted, tmp_path):
    store = scripted(said(200, {}))
    file = lines_of(
        tmp_path / "attempts.jsonl",
        ATTEMPT,
        {**ATTEMPT, "accepted": "yes"},
        "",
        '{"source": "s", "source": "t"}',
        {**ATTEMPT, "attempt": 0, "cost_amount": 1},
    )

    ran = tessera("import", file, "--queue", "q", "--json", url=store.url)

    assert ran.returncode == 1
    assert store.requests == []
    found = [(fault["line"], fault["path"]) for fault in json.loads(ran.stdout)["faults"]]
    assert found[0] == (2, "accepted")
    assert (4, "") in found
    assert (5, "attempt") in found
    assert {line for line, _ in found} == {2, 4, 5}
    assert f"{file}:2: accepted: " in ran.stderr


def test_a_dry_run_checks_and_sends_nothing(tessera, tmp_path):
    ran = tessera("import", lines_of(tmp_path / "a.jsonl.gz", ATTEMPT, ATTEMPT), "--queue", "q", "--dry-run")

    assert ran.returncode == 0
    assert "2 attempts checked" in ran.stdout


def test_attempts_travel_in_calls_of_at_most_500(tessera, scripted, tmp_path):
    store = scripted(said(200, {"imported": 500}))
    file = lines_of(tmp_path / "a.jsonl", *({**ATTEMPT, "task_key": f"t{n}"} for n in range(1200)))

    ran = tessera("import", file, "--queue", "q", url=store.url)

    assert ran.returncode == 0
    assert [len(request["body"]["attempts"]) for request in store.requests] == [500, 500, 200]
    assert store.requests[2]["body"]["attempts"][0]["task_key"] == "t1000"


def test_conflicts_are_named_by_line_and_the_rest_of_the_file_goes_on(tessera, scripted, tmp_path):
    conflicts = [{"index": 3, "path": "attempts[3]"}, {"index": 7, "path": "attempts[7]"}]
    store = scripted(
        said(409, {"title": "Conflict", "detail": "2 of 500", "conflicts": conflicts}),
        said(200, {"imported": 90}),
    )
    file = lines_of(tmp_path / "a.jsonl", "", *({**ATTEMPT, "task_key": f"t{n}"} for n in range(600)))

    ran = tessera("import", file, "--queue", "q", "--json", url=store.url)

    assert ran.returncode == 1
    told = json.loads(ran.stdout)
    assert [conflict["line"] for conflict in told["conflicts"]] == [5, 9]
    assert (told["imported"], told["already_there"], told["held_back"]) == (90, 10, 498)
    assert f"{file}:5: conflicts with" in ran.stderr


def test_what_only_the_store_refuses_is_named_by_line_too(tessera, scripted, tmp_path):
    faults = [{"path": "attempts[1].kind", "message": "is not granted"}]
    store = scripted(said(422, {"detail": "bad", "errors": faults}))
    file = lines_of(tmp_path / "a.jsonl", ATTEMPT, "", {**ATTEMPT, "task_key": "u"})

    ran = tessera("import", file, "--queue", "q", url=store.url)

    assert ran.returncode == 1
    assert f"{file}:3: kind: is not granted" in ran.stderr


@pytest.mark.parametrize("content", [b"", b"\n \n"])
def test_an_empty_file_is_nothing_to_import(tessera, scripted, tmp_path, content):
    store = scripted(said(200, {}))
    (tmp_path / "empty.jsonl").write_bytes(content)

    ran = tessera("import", tmp_path / "empty.jsonl", "--queue", "q", "--json", url=store.url)

    assert ran.returncode == 0
    assert json.loads(ran.stdout)["attempts"] == 0
    assert store.requests == []


def test_damaged_gzip_is_one_clear_line(tessera, scripted, tmp_path):
    store = scripted(said(200, {}))
    whole = lines_of(tmp_path / "a.jsonl.gz", *({**ATTEMPT, "task_key": f"t{n}"} for n in range(50)))
    whole.write_bytes(whole.read_bytes()[:-20])

    ran = tessera("import", whole, "--queue", "q", url=store.url)

    assert ran.returncode == 1
    assert "gzip" in ran.stderr
    assert ran.stderr.count("\n") == 1
    assert store.requests == []


def test_a_pipe_is_read_once_and_still_checked_before_it_is_sent(scripted, tmp_path):
    store = scripted(said(200, {"imported": 1}))

    ran = subprocess.run(
        [sys.executable, "-m", "tessera.cli", "import", "/dev/stdin", "--queue", "q", "--json"],
        input=json.dumps(ATTEMPT),
        env={**os.environ, "TESSERA_URL": store.url, "TESSERA_KEY": KEY, "TESSERA_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        timeout=60,
    )

    assert json.loads(ran.stdout)["imported"] == 1
    assert len(store.requests) == 1


# Export


def item(cursor: int, report: dict[str, Any] | None, **server: Any) -> dict[str, Any]:
    return {
        "schema": "execution-observation-v1",
        "run_id": f"r{cursor}",
        "cursor": str(cursor),
        "brief": {
            "template": None,
            "phrasing": None,
            "tags": [],
            "wording": {"title": "é"},
            "wording_truncated": False,
            "shape": {"title": "str"},
            "shape_truncated": False,
            "input_type": '{"title":str}',
        },
        "input_digest": None,
        "server": {
            **dict.fromkeys(("claimed_at", "submitted_at", "lease_seconds", "failure_text", "state_after")),
            "origin": "live",
            "private": False,
            "task_id": "t",
            "kind": "k",
            "queue": "q",
            "fence": 1,
            "lapsed": 0,
            "key_id": "me",
            "result": "accepted",
            "receipt_sha256": None,
            "retry": False,
            "draws": [],
            **server,
        },
        "report": report,
        "trust": {"telemetry": "worker_reported"},
        "use_policy": {"training_corpus": "excluded_by_default"},
    }


def pages(*items: dict[str, Any]) -> list[tuple[int, dict[str, str], bytes]]:
    count = {"count": len(items), "capped": False, "last": "9", "store_id": "S"}
    page = {"store_id": "S", "items": list(items), "next_after": "9", "has_more": False}
    return [said(200, count), said(200, page)]


@pytest.mark.parametrize("suffix", [".jsonl", ".jsonl.gz"])
def test_exported_lines_are_the_items_as_they_were_served(tessera, scripted, tmp_path, suffix):
    served = [item(1, None), item(2, {"model": "m", "learning": {"cost": {"amount": 0.1}}})]
    out = tmp_path / f"o{suffix}"

    ran = tessera("export", "--queue", "q", "--out", out, "--json", url=scripted(*pages(*served)).url)

    assert json.loads(ran.stdout)["observations"] == 2
    content = gzip.decompress(out.read_bytes()) if suffix.endswith("gz") else out.read_bytes()
    assert [json.loads(line) for line in content.splitlines()] == served


def test_an_export_that_fails_leaves_the_old_file_as_it_was(tessera, scripted, tmp_path):
    out = tmp_path / "o.jsonl"
    out.write_text("old\n")
    first = {"items": [item(1, None)], "next_after": "1", "has_more": True, "store_id": "S"}
    store = scripted(pages()[0], said(200, first), said(403, {"detail": "revoked"}))

    ran = tessera("export", "--queue", "q", "--out", out, url=store.url)

    assert ran.returncode == 1
    assert "revoked" in ran.stderr
    assert out.read_text() == "old\n"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["home", "o.jsonl"]


def test_parquet_has_typed_columns_also_where_all_is_null(tessera, scripted, tmp_path):
    import pyarrow as pa
    import pyarrow.parquet as pq

    arms = [{"arm": "a", "weight": 0.25}, {"arm": "b", "weight": 0.75}]
    draw = {"dimension": "method", "arm": "b", "propensity": 0.75, "arms": arms, "policy": None}
    report = {
        "summaries": {"problem": "p"},
        "harness": "h",
        "model": None,
        "model_reported": True,
        "usage": None,
        "learning": {
            "outcome": "partial",
            "cost": {"amount": 1, "currency": "USD", "source": "s"},
            "duration_seconds": 2,
        },
    }
    time = "2026-10-29T10:00:00.250Z"
    out = tmp_path / "o.parquet"

    ran = tessera(
        *("export", "--queue", "q", "--out", out),
        url=scripted(*pages(item(1, None), item(2, report, claimed_at=time, draws=[draw]))).url,
    )

    assert ran.returncode == 0, ran.stderr
    table = pq.read_table(out)
    assert table.schema.field("claimed_at").type == pa.timestamp("us", tz="UTC")
    assert table.schema.field("input_digest").type == pa.string()
    assert table.schema.field("total_tokens").type == pa.int64()
    empty, full = table.to_pylist()
    assert (empty["has_report"], empty["cost_amount"], empty["model_reported"]) == (False, None, False)
    assert (full["cost_amount"], full["reported_duration_seconds"], full["worker_outcome"]) == (
        1.0,
        2.0,
        "partial",
    )
    assert full["draws"] == [draw]
    assert full["claimed_at"].isoformat() == "2026-10-29T10:00:00.250000+00:00"
    assert full["wording"]["title"] == "é"


def test_an_empty_queue_is_a_readable_parquet_file_with_all_columns(tessera, scripted, tmp_path):
    import pyarrow.parquet as pq

    from tessera.cli import parquet

    ran = tessera("export", "--queue", "q", "--out", tmp_path / "o.parquet", url=scripted(*pages()).url)

    assert ran.returncode == 0, ran.stderr
    table = pq.read_table(tmp_path / "o.parquet")
    assert (table.num_rows, table.schema.names) == (0, parquet.schema().names)


def test_parquet_without_its_packages_says_what_to_install(tessera, tmp_path):
    (tmp_path / "pyarrow.py").write_text("raise ModuleNotFoundError('no pyarrow', name='pyarrow')\n")
    path = os.pathsep.join([str(tmp_path), os.getcwd()])

    ran = tessera("export", "--queue", "q", "--out", "o.parquet", PYTHONPATH=path)

    assert ran.returncode == 1
    assert "tessera[workspace]" in ran.stderr
