"""The asset `memory_index`: from runs in a real store to nouns, the lake's entries, and its checks."""

from collections.abc import Callable, Iterator
from typing import Any

import dagster as dg
import polars as pl
import pytest

from assets import pack, specs
from assets.lake import Lake
from assets.memory_index import COVERAGE, SHOWN
from assets.pull import pull
from assets.rebuild import rebuild
from learners.memory import LEARNER
from pipelines.definitions import definitions
from tessera.advice import Cache, recall
from tessera.client import Client
from tests.assets.working import work

NAME = "memory:minhash-lsh:v1"
HEAD = f"{NAME}:q:head"
CHECKS = [check.name for check in LEARNER.checks]
Materialize = Callable[..., dg.ExecuteInProcessResult]


@pytest.fixture
def admin(store: Any) -> Iterator[Client]:
    """A client with the specs installed and the memory switched on for queue `q`."""
    with Client(store.url, store.admin_key) as client:
        specs.install(client, [pack.noun(key, spec) for key, spec in pack.SPECS.items()])
        specs.configure(client, NAME, "q")
        yield client


@pytest.fixture
def materialize(admin: Client, lake: Lake) -> Materialize:
    """Run the memory's assets of queue `q` in this process."""

    def run(client: Client = admin, **options: Any) -> dg.ExecuteInProcessResult:
        job = dg.define_asset_job(
            "memory", dg.AssetSelection.assets("observations", "fingerprints", "memory_index")
        )
        made = definitions({"store": client, "lake": lake})
        merged = dg.Definitions.merge(made, dg.Definitions(jobs=[job]))
        with dg.DagsterInstance.ephemeral() as instance:
            instance.add_dynamic_partitions("queue", ["q"])
            return merged.resolve_job_def("memory").execute_in_process(
                instance=instance, partition_key="q", raise_on_error=False, **options
            )

    return run


def evaluated(result: dg.ExecuteInProcessResult) -> dict[str, bool]:
    return {one.check_name: one.passed for one in result.get_asset_check_evaluations()}


def made(result: dg.ExecuteInProcessResult) -> dict[str, Any]:
    (event,) = result.asset_materializations_for_node("learning")
    return {name: value.value for name, value in event.metadata.items()}


def stored(lake: Lake) -> pl.DataFrame:
    return lake.scan("memory_entries").sort("cursor").collect()


def test_a_queue_becomes_an_index_with_every_check_passed(
    admin: Client, lake: Lake, materialize: Materialize
) -> None:
    work(admin, "q", "aafa")

    result = materialize()

    assert result.success
    assert evaluated(result) == {**dict.fromkeys(CHECKS, True), COVERAGE: True}
    record = admin.get_record("learn.outputs", HEAD)
    told = made(result)
    assert (told["record"], told["record_version"], told["sha256"]) == (
        f"learn.outputs/{HEAD}",
        1,
        record["sha256"],
    )
    assert (told["entries"], told["cursor"]) == (4, str(lake.cursor("q")))
    assert told["plot"].startswith("![entries of the newest segments](data:image/png;base64,")
    (event,) = result.asset_materializations_for_node("learning")
    assert event.tags["dagster/data_version"] == record["sha256"]
    assert record["visibility"] == "private"
    assert sorted(record["tags"]) == [NAME, "queue:q"]
    segment = admin.get_record("learn.outputs", f"{NAME}:q:seg:000001")
    assert segment["version"] == 1
    assert [entry["result"] for entry in segment["body"]["entries"]] == [
        "accepted",
        "accepted",
        "failed",
        "accepted",
    ]
    entries = stored(lake)
    assert entries["run_id"].to_list() == [entry["run_id"] for entry in segment["body"]["entries"]]
    assert entries["minhash"].to_list() == [entry["minhash"] for entry in segment["body"]["entries"]]


def test_the_next_run_adds_only_what_is_new_and_nothing_makes_no_version(
    admin: Client, lake: Lake, materialize: Materialize
) -> None:
    work(admin, "q", "aa")
    materialize()
    idle = materialize()
    work(admin, "q", "fa")

    second = materialize()

    assert (made(idle)["record_version"], made(idle)["entries_added"]) == (1, 0)
    assert (made(second)["record_version"], made(second)["entries_added"]) == (2, 2)
    head = admin.get_record("learn.outputs", HEAD)["body"]
    assert [pin["entries"] for pin in head["segments"]] == [2, 2]
    assert admin.get_record("learn.outputs", f"{NAME}:q:seg:000001")["version"] == 1
    assert stored(lake)["cursor"].to_list() == [int(item["cursor"]) for item in admin.iter_observations("q")]


def test_a_backlog_over_the_budget_takes_several_runs_in_one_materialization(
    admin: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    small = {**LEARNER.spec, "budget": {**LEARNER.spec["budget"], "observations": 3}}
    monkeypatch.setattr(type(LEARNER), "spec", small)
    work(admin, "q", "aaaaaaa")
    pull(admin, lake, "q")

    (found,) = SHOWN.learn(admin, lake, "q")

    assert (found.runs, found.notes["added"]) == (3, 7)
    assert [pin["entries"] for pin in found.body["segments"]] == [3, 3, 1]
    assert found.standing["version"] == 3


def test_without_a_config_entry_nothing_is_made(
    store: Any, lake: Lake, materialize: Materialize, admin: Client
) -> None:
    specs.configure(admin, NAME, "q", mode="off")
    work(admin, "q", "a")

    result = materialize()

    assert result.success
    assert result.asset_materializations_for_node("learning") == []


def test_a_new_surface_starts_anew_without_private_runs_and_readers_recall(
    store: Any, admin: Client, lake: Lake, materialize: Materialize
) -> None:
    work(admin, "q", "a", private=True)
    work(admin, "q", "aa")
    materialize()
    specs.configure(admin, NAME, "q", surface=True)

    shown = materialize()

    assert shown.success
    head = admin.get_record("learn.outputs", HEAD)
    assert (head["version"], head["visibility"], head["body"]["entries"]) == (2, "surface_only", 2)
    assert [pin["key"] for pin in head["body"]["segments"]] == [f"{NAME}:q:seg:000002"]
    assert stored(lake)["segment"].unique().to_list() == [f"{NAME}:q:seg:000002"]
    reader = store.client(["read"], ["q"])
    assert recall("q", "verb.a", {}, client=reader, cache=Cache())["index"]["entries"] == 2


def test_a_table_that_fell_behind_is_read_anew_from_the_store(
    admin: Client, lake: Lake, materialize: Materialize, monkeypatch: pytest.MonkeyPatch
) -> None:
    work(admin, "q", "aa")
    with monkeypatch.context() as patch:
        patch.setattr("assets.memory_entries.append", lambda *_: False)  # as if it died in between
        patch.setattr("assets.memory_entries.read_anew", lambda *_: None)
        materialize()
    work(admin, "q", "f")

    result = materialize()

    assert result.success
    assert stored(lake)["result"].to_list() == ["accepted", "accepted", "failed"]


def test_entries_whose_row_a_rebuild_took_away_are_reported_and_nothing_fails(
    store: Any, admin: Client, lake: Lake, materialize: Materialize
) -> None:
    work(admin, "q", "a", kind="verb.b")
    work(admin, "q", "aa")
    materialize()
    narrow = store.client(["read", "write", "work", "admin"], ["q"], kinds=["verb.a"])
    rebuild(narrow, lake, "q")

    result = materialize(narrow)

    assert result.success
    (found,) = [one for one in result.get_asset_check_evaluations() if one.check_name == COVERAGE]
    assert found.passed
    assert found.metadata["entries_without_a_row"].value == 1


def test_a_row_without_an_entry_fails_by_name(
    store: Any, admin: Client, lake: Lake, materialize: Materialize
) -> None:
    narrow = store.client(
        ["read", "write", "work", "admin"], ["q", "learn.runs"], kinds=["verb.a", "verb.ingest"]
    )
    work(admin, "q", "a", kind="verb.b")
    work(admin, "q", "a")
    materialize(narrow)
    rebuild(admin, lake, "q")

    result = materialize(admin)

    hidden = next(item for item in admin.iter_observations("q") if item["server"]["kind"] == "verb.b")
    assert not result.success
    (found,) = [one for one in result.get_asset_check_evaluations() if not one.passed]
    assert found.check_name == COVERAGE
    assert f"run {hidden['run_id']} was captured before" in str(found.metadata["rows"].value)
    assert result.asset_materializations_for_node("learning") == []


def test_a_failed_check_publishes_nothing_and_names_the_row(
    admin: Client, lake: Lake, materialize: Materialize, monkeypatch: pytest.MonkeyPatch
) -> None:
    from learners import memory

    work(admin, "q", "aa")
    honest = memory.entries
    monkeypatch.setattr(memory, "entries", lambda frame: honest(frame)[:1])

    result = materialize()

    assert not result.success
    assert evaluated(result)["every_run_has_one_entry"] is False
    assert admin.list_records(store="learn.outputs")["items"] == []
