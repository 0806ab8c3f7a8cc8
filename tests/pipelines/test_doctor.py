"""`workspace doctor`: a clean bill for what is well; for damage, where it is, what it is and what to do."""

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from assets import pack, specs
from assets.lake import Lake
from pipelines.doctor import COUNTED_AT_ONCE, examine
from pipelines.workspace import run_all
from tessera.client import Client
from tessera.errors import ConnectionFault
from tessera.server.serve import Running
from tessera.settings import Settings
from tessera.transport import Backoff
from tests.pipelines.conftest import work

SPEC = "path_statistics:wilson-grouping:v1"
WEIGHTS = "routing_weights:beta-bandit:v1"
pytestmark = pytest.mark.xdist_group("doctor")  # the home that they copy is filled once


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A store's home and a workspace's: two queues pulled, of which one has two learners' nouns."""
    folder = tmp_path_factory.mktemp("filled")
    with Running(folder / "home", grace_seconds=1.0) as running:
        running.start()
        key = (folder / "home" / "admin.key").read_text("ascii").strip()
        with Client(running.url, key) as client:
            pack.write(folder / "pack")
            specs.install(client, pack.read(folder / "pack"))
            specs.configure(client, SPEC, "packing")
            specs.configure(client, WEIGHTS, "packing", options={"dimension": "method"})
            work(client, "packing", 7)
            work(client, "sorting", 2)
            home = folder / "workspace"
            settings = Settings.from_environment({"TESSERA_HOME": str(home), "TESSERA_URL": running.url})
            ended = run_all(settings, client, ["packing", "sorting"])
            assert [one["error"] for one in ended] == [None, None]
    return folder


@pytest.fixture
def store(filled: Path, copied: None, store: Any) -> Any:
    """The store of those homes, each test's its own."""
    return store


@pytest.fixture
def copied(filled: Path, tmp_path: Path) -> None:
    """Both homes, where the store and the commands of a test have theirs."""
    for name in ("home", "workspace"):
        shutil.copytree(filled / name, tmp_path / name)


@pytest.fixture
def learned(workspace: Any, tmp_path: Path) -> Lake:
    """The copy's lake."""
    return Lake(str(tmp_path / "workspace" / "lake"))


def findings(workspace: Any) -> list[dict[str, str]]:
    found: list[dict[str, str]] = json.loads(workspace("doctor", "--json").out)["findings"]
    return found


def test_what_is_well_gets_a_clean_bill(workspace: Any, learned: Lake) -> None:
    ended = workspace("doctor")
    assert ended.status == 0, ended
    assert "all is well" in ended.out
    looked = json.loads(workspace("doctor", "--json").out)["looked_at"]
    assert (looked["queues"], looked["rows"], looked["rows compared to the bit"]) == (2, 9, 9)
    assert looked["pins"] >= 2
    assert looked["copies of nouns"] == 2


@pytest.mark.parametrize("table", ["observations", "scorecards", "routing_weights"])
def test_a_deleted_file_is_named_with_what_to_do_and_that_mends_it(
    workspace: Any, learned: Lake, table: str
) -> None:
    gone = next(Path(learned.uri(table)).rglob("queue=packing/*.parquet"))
    gone.unlink()
    ended = workspace("doctor")
    assert ended.status == 1
    assert f"! table {table}, queue packing: the file {gone} is gone" in ended.out
    assert "do: workspace rebuild --queue packing" in ended.out
    assert workspace("rebuild", "--queue", "packing").status == 0
    assert workspace("run", "--queue", "packing").status == 0
    assert findings(workspace) == []


def test_a_file_that_was_cut_or_spoiled_is_named(workspace: Any, learned: Lake) -> None:
    file = next(Path(learned.uri("observations")).rglob("queue=sorting/*.parquet"))
    whole = file.read_bytes()
    file.write_bytes(whole[:-10])
    (cut,) = findings(workspace)
    assert cut["problem"] == f"the file {file} has {len(whole) - 10} bytes, {len(whole)} were written"
    file.write_bytes(whole[:-10] + b"0123456789")
    (spoiled,) = findings(workspace)
    assert spoiled["problem"].startswith(f"the file {file} cannot be read")


def test_a_row_that_is_missing_or_differs_is_found(workspace: Any, learned: Lake) -> None:
    table = learned.open("observations")
    assert table is not None
    table.update({"kind": "'verb.forged'"}, predicate="cursor = 3")
    (differs,) = findings(workspace)
    assert differs["where"] == "queue packing"
    assert differs["problem"].startswith("1 rows differ from the store")
    table.delete("cursor = 3")
    (missing,) = findings(workspace)
    assert "the store has 7 readable runs, the lake 6 rows and 0 in quarantine" in missing["problem"]
    assert missing["remedy"] == "workspace rebuild --queue packing"


def test_a_noun_that_pins_what_is_not_there_is_found(workspace: Any, learned: Lake, store: Any) -> None:
    client = store.client()
    record = client.get_record("learn.outputs", f"{SPEC}:packing")
    spec = {**record["body"]["spec"], "sha256": "0" * 64}
    write = {name: record[name] for name in ("store", "key", "category", "tags", "visibility")}
    client.write_records(
        [{**write, "expected_version": record["version"], "body": {**record["body"], "spec": spec}}]
    )
    (found,) = findings(workspace)
    assert found["where"] == f"noun learn.outputs/{SPEC}:packing version 2"
    assert "with digest 000000000000…, the store has" in found["problem"]


def test_a_lake_behind_a_noun_is_to_be_pulled(
    workspace: Any, learned: Lake, store: Any, environment: Any
) -> None:
    environment.setenv("TESSERA_LAKE", str(Path(learned.location).parent / "other"))
    assert workspace("pull", "--queue", "sorting").status == 0
    remedies = {finding["remedy"] for finding in findings(workspace)}
    assert remedies == {"workspace pull --queue packing"}


class Leaving(Client):
    """A client whose store is gone when it is asked to count up to `leaves_at`."""

    leaves_at = 0

    def pending(self, *arguments: Any, **named: Any) -> Any:
        """Is then asked of nobody."""
        if named["cap"] != self.leaves_at:
            return super().pending(*arguments, **named)
        with Client("http://127.0.0.1:9", "key", backoff=Backoff(tries=1)) as gone:
            return gone.pending(*arguments, **named)


@pytest.mark.parametrize("leaves_at", [COUNTED_AT_ONCE, 1], ids=["at a queue's rows", "at a noun's cursor"])
def test_a_store_that_goes_away_is_no_damage_to_rebuild(learned: Lake, store: Any, leaves_at: int) -> None:
    home = str(Path(learned.location).parent)
    settings = Settings.from_environment({"TESSERA_HOME": home, "TESSERA_URL": store.url})

    with Leaving(store.url, store.admin_key) as client:
        client.leaves_at = leaves_at
        with pytest.raises(ConnectionFault):
            examine(settings, client)


def test_compaction_says_what_it_did_and_leaves_all_well(workspace: Any, learned: Lake, worked: Any) -> None:
    for _ in range(3):
        worked("packing", 1)
        assert workspace("pull").status == 0
    ended = workspace("compact", "--keep-hours", "0", "--json")
    assert ended.status == 0
    tables = {one["table"]: one for one in json.loads(ended.out)["tables"]}
    assert (tables["observations"]["files_before"], tables["observations"]["files"]) == (5, 2)
    assert tables["observations"]["removed"] >= 4
    assert findings(workspace) == []
