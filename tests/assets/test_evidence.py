"""The window of a run, from the lake, the store and a file."""

import gzip
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assets import evidence
from assets.lake import Lake
from assets.pull import pull
from learners.contract import Reading, Scope
from tessera.client import Client
from tests.assets.working import work

LAST = Reading(last=3, columns=("cursor", "run_id", "kind"))


@pytest.fixture
def filled(admin: Client, tmp_path: Path) -> tuple[Client, Lake]:
    """Six runs of two kinds in queue ``q``, in the store and in a lake."""
    for kind in ("verb.a", "verb.b"):
        work(admin, "q", "afa", kind=kind)
    work(admin, "other", "a")
    lake = Lake(str(tmp_path / "lake"))
    pull(admin, lake, "q")
    return admin, lake


@pytest.mark.parametrize(
    "reading", [LAST, Reading(last=100), Reading(after="0", limit=2), Reading(after="3")]
)
@pytest.mark.parametrize("scope", [Scope("q"), Scope("q", "verb.a"), Scope("q", "verb.none")])
def test_lake_store_and_file_give_the_same_window(
    filled: tuple[Client, Lake], tmp_path: Path, scope: Scope, reading: Reading
) -> None:
    admin, lake = filled
    export = tmp_path / "q.jsonl"
    export.write_bytes(b"".join(json.dumps(item).encode() + b"\n" for item in admin.iter_observations("q")))

    read = [
        evidence.from_lake(lake, scope, reading),
        evidence.from_api(admin, scope, reading),
        evidence.of_frame(evidence.from_file(export), scope, reading),
    ]

    for other in read[1:]:
        assert other.after == read[0].after
        assert other.upto == read[0].upto
        assert other.frame.equals(read[0].frame)


def test_the_window_is_the_newest_and_names_the_observation_before_it(filled: tuple[Client, Lake]) -> None:
    admin, lake = filled
    cursors = [item["cursor"] for item in admin.iter_observations("q")]

    window = evidence.from_lake(lake, Scope("q"), LAST)

    assert [str(cursor) for cursor in window.frame["cursor"]] == cursors[-3:]
    assert (window.after, window.upto) == (cursors[-4], cursors[-1])


def test_nothing_new_leaves_the_cursor_where_it_was(filled: tuple[Client, Lake]) -> None:
    _, lake = filled
    newest = evidence.from_lake(lake, Scope("q"), LAST).upto

    nothing = evidence.from_lake(lake, Scope("q"), Reading(after=newest, limit=10))

    assert nothing.frame.height == 0
    assert nothing.upto == newest


def test_the_export_of_the_product_is_read_whole(
    store: Any, filled: tuple[Client, Lake], tmp_path: Path
) -> None:
    admin, _ = filled
    out = tmp_path / "q.jsonl.gz"
    subprocess.run(
        [sys.executable, "-m", "tessera.cli", "export", "--queue", "q", "--out", str(out)],
        check=True,
        capture_output=True,
        env={"TESSERA_URL": store.url, "TESSERA_KEY": store.admin_key, "PYTHONPATH": ":".join(sys.path)},
    )

    rows = evidence.from_file(out)

    assert rows["run_id"].to_list() == [item["run_id"] for item in admin.iter_observations("q")]


def item_lines(client: Client) -> list[bytes]:
    return [json.dumps(item).encode() for item in client.iter_observations("q")]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda lines: [*lines[:2], b"{"], "line 3: is not well-formed JSON"),
        (
            lambda lines: [lines[0], b"", lines[1].replace(b'"q"', b"7")],
            "line 3: server.queue must be a string",
        ),
        (lambda lines: [lines[0], b"[]"], "line 2: .*must be an object"),
        (lambda lines: [lines[0][:-1] + b',"schema":"x"}'], "line 1: is not well-formed JSON"),
        (lambda lines: [lines[0], lines[0]], "more than once"),
        (
            lambda lines: [lines[0].replace(b'"fence": 1', b'"fence": 0')],
            "line 1: server.fence must be at least 1",
        ),
    ],
)
def test_a_file_that_is_no_export_is_refused_by_line(
    filled: tuple[Client, Lake], tmp_path: Path, change: Any, message: str
) -> None:
    path = tmp_path / "bad.jsonl"
    path.write_bytes(b"\n".join(change(item_lines(filled[0]))))

    with pytest.raises(evidence.ExportError, match=message):
        evidence.from_file(path)


def test_a_broken_gzip_file_and_an_empty_one_are_told_apart(tmp_path: Path) -> None:
    broken, empty = tmp_path / "broken.jsonl.gz", tmp_path / "empty.jsonl"
    broken.write_bytes(gzip.compress(b"{}\n" * 1000)[:-20])
    empty.write_bytes(b"")

    with pytest.raises(evidence.ExportError, match="not a whole gzip file"):
        evidence.from_file(broken)
    assert isinstance(rows := evidence.from_file(empty), pl.DataFrame)
    assert rows.height == 0
