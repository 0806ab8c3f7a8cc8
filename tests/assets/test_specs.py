"""Specs and config in a real store, and the pack they are installed from."""

import json
import socket
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from assets import pack, specs
from learners.catalog import SPECS
from learners.contract import OptionsError
from learners.registry import BUILT_IN
from tessera.canonical import digest, dumps
from tessera.client import Client

NAME = "path_statistics:wilson-grouping:v1"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A pack."""
    pack.write(tmp_path / "pack")
    return tmp_path / "pack"


def test_a_pack_is_made_without_the_network_and_is_the_same_each_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def forbidden(*args: object, **kwargs: object) -> None:
        raise AssertionError("a socket was opened")

    monkeypatch.setattr(socket, "socket", forbidden)

    pack.write(tmp_path / "one")
    pack.write(tmp_path / "two")

    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.json"))
    runs = [path.stem.replace(".", ":") for path in files if path.parts[0] == "runs"]
    assert runs == sorted(BUILT_IN)
    assert len(files) == len(SPECS) + len(runs) + 2
    for path in files:
        assert (tmp_path / "one" / path).read_bytes() == (tmp_path / "two" / path).read_bytes()
    assert [noun["key"] for noun in pack.read(tmp_path / "one")] == [*sorted(SPECS), "config"]


def test_a_manifest_holds_the_digest_of_each_file(folder: Path) -> None:
    manifest = json.loads((folder / "manifest.json").read_bytes())

    for path, sha256 in manifest["files"].items():
        assert digest(json.loads((folder / path).read_bytes())) == sha256


@pytest.mark.parametrize(
    ("path", "text", "message"),
    [
        ("config.json", b"{}", "is not what the manifest says"),
        ("manifest.json", b"{", "400"),
        ("manifest.json", b'{"schema":"x"}', "make one with `learner pack`"),
        (
            "manifest.json",
            b'{"schema":"tessera.learner-pack.v1","files":{"../../x":"0"}}',
            "lies outside the pack",
        ),
        (
            "manifest.json",
            b'{"schema":"tessera.learner-pack.v1","files":{"specs/a.json":"0"}}',
            "cannot be read",
        ),
    ],
)
def test_a_folder_that_is_no_whole_pack_is_refused(
    folder: Path, path: str, text: bytes, message: str
) -> None:
    (folder / path).write_bytes(text)

    with pytest.raises(pack.PackError, match=message):
        pack.read(folder)


def test_installing_writes_what_differs_once_and_activates_nothing(admin: Client, folder: Path) -> None:
    nouns = pack.read(folder)

    first = specs.install(admin, nouns)
    again = specs.install(admin, nouns)

    assert len(first) == len(SPECS) + 1
    assert again == []
    record = admin.get_record("learn.specs", NAME)
    assert (record["visibility"], record["category"], record["body"]) == (
        "shared",
        "noun.skill_pack",
        SPECS[NAME],
    )
    assert specs.entries_of(admin, "q") == []


def test_installing_again_leaves_a_config_that_is_there_and_renews_a_changed_spec(
    admin: Client, folder: Path
) -> None:
    nouns = pack.read(folder)
    specs.install(admin, nouns)
    specs.configure(admin, NAME, "q")
    changed = [
        {**noun, "body": {**noun["body"], "trigger": {"on_demand": True}}} if noun["key"] == NAME else noun
        for noun in nouns
    ]

    (record,) = specs.install(admin, changed)

    assert (record["key"], record["version"]) == (NAME, 2)
    assert len(specs.entries_of(admin, "q")) == 1


def test_configuring_sets_one_entry_and_repeats_without_a_new_version(admin: Client, folder: Path) -> None:
    specs.install(admin, pack.read(folder))

    version, entry = specs.configure(admin, NAME, "q", surface=True, options={"last": 5})
    again, _ = specs.configure(admin, NAME, "q", surface=True, options={"last": 5})

    assert entry == {
        "spec": NAME,
        "mode": "active",
        "queue": "q",
        "options": {"last": 5},
        "surface": {"queue": "q"},
    }
    assert (version, again) == (2, 2)
    assert specs.entries_of(admin, "q") == [entry]


def test_other_options_of_the_same_noun_replace_its_entry_and_other_dimensions_stand_beside_it(
    admin: Client, folder: Path
) -> None:
    specs.install(admin, pack.read(folder))
    specs.configure(admin, NAME, "q", options={"last": 5})

    specs.configure(admin, NAME, "q", options={"last": 6})
    specs.configure(admin, NAME, "q", options={"dimensions": ["method", "category"]})

    assert [entry["options"] for entry in specs.entries_of(admin, "q")] == [
        {"last": 6},
        {"dimensions": ["method", "category"]},
    ]


def test_a_kind_has_an_entry_of_its_own_beside_the_queues(admin: Client, folder: Path) -> None:
    specs.install(admin, pack.read(folder))
    specs.configure(admin, NAME, "q")

    _, first = specs.configure(admin, NAME, "q", kind="verb.a")
    version, entry = specs.configure(admin, NAME, "q", kind="verb.a", surface=True, options={"last": 5})
    specs.configure(admin, NAME, "q", kind="verb.b")

    of_kind = {"queue": "q", "kind": "verb.a"}
    assert "surface" not in first
    assert (version, entry["options"], entry["surface"]) == (4, {"last": 5}, of_kind)
    assert [one.get("kind") for one in specs.entries_of(admin, "q")] == [None, "verb.a", "verb.b"]
    with pytest.raises(specs.ConfigError, match=r"body\.entries\[0\]\.kind: must be at most 64 UTF-8 bytes"):
        specs.configure(admin, NAME, "q", kind="k" * 65)


def test_an_entry_that_is_off_no_longer_runs(admin: Client, folder: Path) -> None:
    specs.install(admin, pack.read(folder))
    specs.configure(admin, NAME, "q")

    specs.configure(admin, NAME, "q", mode="off")

    assert specs.entries_of(admin, "q") == []
    assert specs.config(admin)[1]["entries"][0]["mode"] == "off"


def test_two_writers_of_the_config_lose_nothing(store: Any, admin: Client, folder: Path) -> None:
    specs.install(admin, pack.read(folder))

    def set_one(number: int) -> None:
        with Client(store.url, store.admin_key) as client:
            specs.configure(client, NAME, f"q{number}")

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(set_one, range(4)))

    assert {entry["queue"] for entry in specs.config(admin)[1]["entries"]} == {"q0", "q1", "q2", "q3"}


def test_a_spec_that_is_missing_or_proposed_cannot_be_configured(admin: Client, folder: Path) -> None:
    with pytest.raises(specs.SpecError, match=r"is not installed.*learner pack"):
        specs.configure(admin, NAME, "q")
    specs.install(admin, pack.read(folder))

    with pytest.raises(specs.SpecError, match="is proposed"):
        specs.configure(admin, "shim:injection-uplift:v1", "q")


def test_what_cannot_stand_is_refused_with_its_path_and_nothing_is_written(
    admin: Client, folder: Path
) -> None:
    specs.install(admin, pack.read(folder))

    with pytest.raises(OptionsError, match=r"options\.dimensions\[0\]"):
        specs.configure(admin, NAME, "q", options={"dimensions": ["colour"]})
    with pytest.raises(specs.ConfigError, match=r"body\.entries\[0\]\.queue: must not begin with learn\."):
        specs.configure(admin, NAME, "learn.runs")

    assert specs.config(admin) == (1, {"schema": "tessera.learner-config.v1", "entries": []})


def test_a_config_written_by_hand_with_two_entries_for_one_noun_is_refused_when_read(
    admin: Client, folder: Path
) -> None:
    specs.install(admin, pack.read(folder))
    entry = {"spec": NAME, "mode": "active", "queue": "q", "options": {}}
    noun = pack.noun("config", {"schema": "tessera.learner-config.v1", "entries": [entry, entry]})
    admin.write_records([{**noun, "expected_version": 1}])

    with pytest.raises(
        specs.ConfigError, match=r"body\.entries\[1\]: writes the same noun as body\.entries\[0\]"
    ):
        specs.entries_of(admin, "q")


def test_canonical_files_are_what_the_door_takes(folder: Path) -> None:
    for path in folder.rglob("*.json"):
        held = path.read_bytes()
        assert dumps(json.loads(held)) == held
