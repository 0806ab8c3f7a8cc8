"""The `learner` command, as a person or a program runs it."""

import json
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learners.catalog import SPECS
from learners.registry import BUILT_IN
from tessera.client import Client
from tests.assets.working import work
from tests.pipelines.conftest import learner_here

NAME = "path_statistics:wilson-grouping:v1"
Command = Callable[..., subprocess.CompletedProcess[str]]

# runs the command with every socket forbidden and says which of the heavy modules it loaded
OFFLINE = """
import socket, sys
class Forbidden(socket.socket):
    def __init__(self, *args, **kwargs):
        raise AssertionError("a socket was opened")
socket.socket = Forbidden
from pipelines.learner import main
sys.argv[0] = "learner"
try:
    main()
finally:
    assert "dagster" not in sys.modules, "Dagster was loaded"
"""


@pytest.fixture
def learner(store: Any, tmp_path: Path) -> Command:
    """The command against the store; or, offline, in a process of its own with sockets forbidden."""
    environment = {
        "TESSERA_URL": store.url,
        "TESSERA_KEY": store.admin_key,
        "PYTHONPATH": ":".join(path for path in sys.path if path),
        "HOME": str(tmp_path),
    }

    def run(*arguments: str, offline: bool = False) -> subprocess.CompletedProcess[str]:
        if not offline:
            return learner_here(environment, *arguments)
        return subprocess.run(
            [sys.executable, "-c", OFFLINE, *arguments],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env=environment,
        )

    return run


@pytest.fixture
def export(store: Any, tmp_path: Path) -> Path:
    """An export of a queue with five runs."""
    with Client(store.url, store.admin_key) as client:
        work(client, "q", "aaaff")
        path = tmp_path / "q.jsonl"
        path.write_text("".join(json.dumps(item) + "\n" for item in client.iter_observations("q")))
    return path


def test_specs_lists_the_catalog_without_the_network(learner: Command) -> None:
    told, table = learner("specs", "--json", offline=True), learner("specs", offline=True)

    specs = {spec["key"]: spec["status"] for spec in json.loads(told.stdout)["specs"]}
    assert specs == {key: spec["status"] for key, spec in SPECS.items()}
    assert {key for key, status in specs.items() if status == "implemented"} == set(BUILT_IN)
    assert all(key in table.stdout for key in specs)


def test_a_pack_is_written_without_the_network_and_installed_once(learner: Command, tmp_path: Path) -> None:
    made = learner("pack", "--output", str(tmp_path / "pack"), "--json", offline=True)
    first = learner("install", str(tmp_path / "pack"), "--json")
    again = learner("install", str(tmp_path / "pack"), "--json")

    assert made.returncode == 0, made.stderr
    assert "manifest.json" in json.loads(made.stdout)["files"]
    assert len(json.loads(first.stdout)["records"]) == len(SPECS) + 1
    assert json.loads(again.stdout) == {"records": [], "unchanged": len(SPECS) + 1}


def test_configure_sets_an_entry_and_says_who_sees_what_is_learned(learner: Command, tmp_path: Path) -> None:
    learner("pack", "--output", str(tmp_path / "pack"))
    learner("install", str(tmp_path / "pack"))

    told = learner("configure", NAME, "--queue", "q", "--surface", "--option", 'dimensions=["method"]')
    off = learner(
        "configure", NAME, "--queue", "q", "--mode", "off", "--option", 'dimensions=["method"]', "--json"
    )

    assert "readers of q" in told.stdout
    assert json.loads(off.stdout) == {
        "version": 3,
        "entry": {"spec": NAME, "mode": "off", "queue": "q", "options": {"dimensions": ["method"]}},
    }


def test_a_kind_of_work_is_configured_enqueued_and_published_by_itself(
    learner: Command, store: Any, export: Path, tmp_path: Path
) -> None:
    learner("pack", "--output", str(tmp_path / "pack"))
    learner("install", str(tmp_path / "pack"))
    client = store.client()
    work(client, "q", "af", kind="verb.b")

    told = learner("configure", NAME, "--queue", "q", "--kind", "verb.b", "--surface")
    learner("enqueue", NAME, "--queue", "q")
    ran = json.loads(learner("run-one", "--json").stdout)["run"]

    assert "is active on verb.b in q" in told.stdout
    assert "for readers of verb.b in q" in told.stdout
    assert [one["key"] for one in ran["records"]] == [f"{NAME}:q:kind=verb.b"]
    reader = store.client(["read"], ["q"], kinds=["verb.b"])
    record = reader.get_record("learn.outputs", f"{NAME}:q:kind=verb.b")
    assert record["body"]["window"]["count"] == 2
    assert record["surface"] == {"queue": "q", "kind": "verb.b"}


def test_a_preview_of_a_file_opens_no_socket_and_gives_what_the_store_gives(
    learner: Command, export: Path, tmp_path: Path
) -> None:
    learner("pack", "--output", str(tmp_path / "pack"))
    learner("install", str(tmp_path / "pack"))
    arguments = ("preview", NAME, "--option", 'dimensions=["category","template"]', "--json")

    offline = learner(*arguments, "--from", str(export), offline=True)
    online = learner(*arguments, "--queue", "q")

    assert offline.returncode == 0, offline.stderr
    (noun,) = json.loads(offline.stdout)["nouns"]
    assert set(noun) == {"store", "key", "body"}
    assert noun["key"] == f"{NAME}:q:category+template"
    assert [(g["dimensions"]["template"], g["attempts"], g["accepted"]) for g in noun["body"]["groups"]] == [
        ("t-a", 3, 3),
        ("t-f", 2, 0),
    ]
    assert json.loads(online.stdout) == json.loads(offline.stdout)


def test_runs_by_hand_are_enqueued_once_and_publish_what_the_preview_showed(
    learner: Command, store: Any, export: Path, tmp_path: Path
) -> None:
    learner("pack", "--output", str(tmp_path / "pack"))
    learner("install", str(tmp_path / "pack"))
    learner("configure", NAME, "--queue", "q")
    learner("configure", NAME, "--queue", "q", "--option", 'dimensions=["method"]')
    previewed = json.loads(learner("preview", NAME, "--queue", "q", "--json").stdout)["nouns"]

    first = json.loads(learner("enqueue", NAME, "--queue", "q", "--json").stdout)["runs"]
    again = json.loads(learner("enqueue", NAME, "--queue", "q", "--json").stdout)["runs"]
    done = [json.loads(learner("run-one", "--json").stdout)["run"] for _ in range(3)]
    nothing = learner("enqueue", NAME, "--queue", "q")

    assert first == again
    assert [one["task_id"] for one in first] == [done[0]["task_id"], done[1]["task_id"]]
    assert [one and one["status"] for one in done] == ["published", "published", None]
    with Client(store.url, store.admin_key) as client:
        record = client.get_record("learn.outputs", f"{NAME}:q")
    assert record["body"] == previewed[0]["body"]
    assert record["sha256"] == done[0]["records"][0]["sha256"]
    assert nothing.stdout.count("nothing is new since version 1") == 2


def test_runs_by_hand_are_told_to_people(learner: Command, export: Path, tmp_path: Path) -> None:
    learner("pack", "--output", str(tmp_path / "pack"))
    learner("install", str(tmp_path / "pack"))
    learner("configure", NAME, "--queue", "q")

    asked, done, nothing = learner("enqueue", NAME, "--queue", "q"), learner("run-one"), learner("run-one")

    assert f"{NAME}:q: new observations; run task-" in asked.stdout.replace("task_", "task-")
    assert "`learner run-one` does one of them" in asked.stdout
    assert f"{NAME} on q: published" in done.stdout
    assert f"learn.outputs/{NAME}:q version 1" in done.stdout
    assert nothing.stdout == "no run is waiting for this key\n"
    assert (done.stderr, nothing.returncode) == ("", 0)


def test_a_run_that_fails_ends_with_one_and_its_reason(
    learner: Command, store: Any, export: Path, tmp_path: Path
) -> None:
    learner("pack", "--output", str(tmp_path / "pack"))
    learner("install", str(tmp_path / "pack"))
    learner("configure", NAME, "--queue", "q")
    learner("enqueue", NAME, "--queue", "q")
    learner("configure", NAME, "--queue", "q", "--mode", "off")

    ended = learner("run-one")

    assert ended.returncode == 1
    assert ended.stderr.startswith(f"learner: no config entry runs {NAME} on queue q")


@pytest.mark.parametrize("spec", ["evaluation:off-policy:v1", "lessons:review-and-learn:v1"])
def test_what_reads_nouns_is_previewed_from_the_store_only(learner: Command, export: Path, spec: str) -> None:
    option = ("--option", 'dimension="method"') if spec.startswith("evaluation") else ()

    ended = learner("preview", spec, "--from", str(export), *option, offline=True)

    assert ended.returncode == 1
    assert "which no export holds: preview it with --queue" in ended.stderr


def test_a_preview_is_a_table_for_people(learner: Command, export: Path) -> None:
    told = learner("preview", NAME, "--from", str(export))

    assert f"learn.outputs/{NAME}:q" in told.stdout
    assert "0.439 – 1.000" in told.stdout


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("preview", NAME), "exactly one of --queue and"),
        (("preview", NAME, "--queue", "q", "--from", "x.jsonl"), "exactly one of --queue and"),
        (("preview", "no:such:v1", "--queue", "q"), "no learner 'no:such:v1' is installed"),
        (("preview", NAME, "--queue", "q", "--option", "last"), "is not NAME=JSON"),
        (("preview", NAME, "--queue", "q", "--option", "last={"), "last: is not well-formed JSON"),
        (("preview", NAME, "--queue", "q", "--option", "last=0"), "options.last: must be at least 1"),
        (
            ("preview", NAME, "--queue", "q", "--option", 'dimensions=["x"]'),
            "options.dimensions[0]: must be one",
        ),
        (("configure", NAME, "--queue", "q", "--mode", "on"), "not one of active, shadow, off"),
        (("nonsense",), "No such command"),
    ],
)
def test_wrong_usage_ends_with_two_and_one_clear_line(
    learner: Command, arguments: tuple[str, ...], message: str
) -> None:
    ended = learner(*arguments)

    assert ended.returncode == 2
    assert message in " ".join(ended.stderr.replace("│", "").split())
    assert "Traceback" not in ended.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("preview", "shim:injection-uplift:v1", "--queue", "q"), "is proposed"),
        (("preview", NAME, "--queue", "q"), "is not installed"),
        (("preview", NAME, "--from", "/nowhere/q.jsonl"), "/nowhere/q.jsonl"),
        (("install", "/nowhere"), "manifest.json cannot be read"),
        (("configure", NAME, "--queue", "q"), "is not installed"),
        (("enqueue", NAME, "--queue", "q"), "is not installed"),
        (("enqueue", "shim:injection-uplift:v1", "--queue", "q"), "is not installed"),
    ],
)
def test_a_failure_ends_with_one_and_one_clear_line(
    learner: Command, arguments: tuple[str, ...], message: str
) -> None:
    ended = learner(*arguments)

    assert ended.returncode == 1
    assert message in ended.stderr
    assert len(ended.stderr.strip().splitlines()) == 1


def test_an_export_of_nothing_is_refused_with_a_sentence(learner: Command, tmp_path: Path) -> None:
    (tmp_path / "empty.jsonl").write_text("")

    ended = learner("preview", NAME, "--from", str(tmp_path / "empty.jsonl"), offline=True)

    assert ended.returncode == 1
    assert "a preview needs an export of one queue" in ended.stderr


def test_a_store_that_does_not_answer_is_named(store: Any, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{taken.getsockname()[1]}"
        ended = subprocess.run(
            [sys.executable, "-m", "pipelines.learner", "preview", NAME, "--queue", "q"],
            capture_output=True,
            text=True,
            cwd=Path(__file__).parents[2],
            env={"TESSERA_URL": url, "TESSERA_KEY": "none", "PYTHONPATH": ":".join(p for p in sys.path if p)},
        )

    assert ended.returncode == 1
    assert url in ended.stderr
    assert "Traceback" not in ended.stderr
