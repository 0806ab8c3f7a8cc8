"""The asset, materialized in process over a real store and a real lake."""

import base64
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import pack, specs
from assets.lake import Lake
from assets.learning import learning
from assets.partitions import queues
from assets.path_scorecard import SHOWN
from assets.pull import pull
from learners.contract import Check, name_of
from learners.path_statistics import LEARNER, PathStatistics
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import NotFound
from tests.assets.working import work

NAME = name_of(LEARNER)
KEY = SHOWN.key
RECORD = ("learn.outputs", f"{NAME}:q")


@pytest.fixture
def filled(admin: Client, tmp_path: Path) -> Lake:
    """Specs installed, five runs in queue ``q``, pulled."""
    pack.write(tmp_path / "pack")
    specs.install(admin, pack.read(tmp_path / "pack"))
    work(admin, "q", "aaaf")
    work(admin, "q", "f", private=True)
    filled = Lake(str(tmp_path / "lake"))
    pull(admin, filled, "q")
    return filled


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as found:
        found.add_dynamic_partitions(str(queues.name), ["q"])
        yield found


def materialize(instance: dg.DagsterInstance, client: Client, lake: Lake) -> dg.ExecuteInProcessResult:
    return dg.materialize(
        [learning],
        selection=["path_scorecard"],
        partition_key="q",
        instance=instance,
        resources={"store": client, "lake": lake},
        raise_on_error=False,
    )


def materialization(result: dg.ExecuteInProcessResult) -> dg.AssetMaterialization:
    (event,) = result.asset_materializations_for_node("learning")
    return event


def test_without_an_entry_it_does_nothing_and_says_so(
    instance: dg.DagsterInstance, admin: Client, filled: Lake, capfd: pytest.CaptureFixture[str]
) -> None:
    result = materialize(instance, admin, filled)

    assert result.success
    assert result.asset_materializations_for_node("learning") == []
    assert "no config entry of path_statistics:wilson-grouping:v1 for queue q" in capfd.readouterr().err
    with pytest.raises(NotFound):
        admin.get_record(*RECORD)


def test_it_publishes_and_the_materialization_says_what(
    instance: dg.DagsterInstance, admin: Client, filled: Lake
) -> None:
    specs.configure(admin, NAME, "q")

    result = materialize(instance, admin, filled)

    record = admin.get_record(*RECORD)
    made = materialization(result)
    told = {name: value.value for name, value in made.metadata.items()}
    newest = [item["cursor"] for item in admin.iter_observations("q")][-1]
    assert result.success
    assert made.tags is not None
    assert made.tags["dagster/data_version"] == record["sha256"]
    assert made.tags["dagster/code_version"] == "v1"
    assert told["record"] == "/".join(RECORD)
    assert (told["record_version"], told["sha256"]) == (1, record["sha256"])
    assert (told["cursor"], record["body"]["cursor"]) == (newest, newest)
    assert (told["runs"], told["accepted"], told["groups"]) == (5, 3, 2)
    assert told["lake_version"] == filled.version("observations")
    assert "| attempts | accepted |" in told["table"]
    image = told["plot"].split("base64,")[1].rstrip(")")
    assert base64.b64decode(image).startswith(b"\x89PNG")
    assert record["body"]["spec"]["sha256"] == admin.get_record("learn.specs", NAME)["sha256"]


def test_the_groups_are_in_the_lake_as_they_are_in_the_noun(
    instance: dg.DagsterInstance, admin: Client, filled: Lake
) -> None:
    specs.configure(admin, NAME, "q", options={"dimensions": ["category", "method"]})

    materialize(instance, admin, filled)

    record = admin.get_record(RECORD[0], f"{RECORD[1]}:category+method")
    rows = filled.scan("scorecards").collect()
    assert rows.select(
        "key", "version", "sha256", "dimensions", "attempts", "accepted", "wilson_low"
    ).rows() == [
        (
            record["key"],
            1,
            record["sha256"],
            '{"category":"verb.a","method":"m"}',
            5,
            3,
            record["body"]["groups"][0]["wilson_low"],
        )
    ]


def test_a_surface_leaves_the_private_run_out_and_shows_the_noun_to_readers(
    store: Any, instance: dg.DagsterInstance, admin: Client, filled: Lake
) -> None:
    specs.configure(admin, NAME, "q", surface=True)

    materialize(instance, admin, filled)

    body = store.client(["read"], ["q"]).get_record(*RECORD)["body"]
    assert body["window"]["count"] == 4
    assert sum(group["attempts"] for group in body["groups"]) == 4


def test_two_entries_give_two_nouns_and_the_digest_of_both(
    instance: dg.DagsterInstance, admin: Client, filled: Lake
) -> None:
    specs.configure(admin, NAME, "q")
    specs.configure(admin, NAME, "q", options={"dimensions": []})

    made = materialization(materialize(instance, admin, filled))

    keys = [RECORD[1], f"{RECORD[1]}:"]
    both = {key: admin.get_record(RECORD[0], key)["sha256"] for key in keys}
    assert made.tags is not None
    assert made.tags["dagster/data_version"] == digest(both)
    assert [one["key"] for one in made.metadata["records"].value] == keys  # type: ignore[union-attr]


def test_nothing_new_publishes_no_new_version(
    instance: dg.DagsterInstance, admin: Client, filled: Lake
) -> None:
    specs.configure(admin, NAME, "q")
    first = materialization(materialize(instance, admin, filled))

    again = materialization(materialize(instance, admin, filled))

    assert first.tags == again.tags
    assert again.metadata["status"].value == "unchanged"
    assert admin.get_record(*RECORD)["version"] == 1


def test_the_same_noun_comes_out_of_a_preview_of_the_store(
    instance: dg.DagsterInstance, admin: Client, filled: Lake
) -> None:
    from assets.preview import from_queue

    specs.configure(admin, NAME, "q", surface=True)
    materialize(instance, admin, filled)

    (noun,) = from_queue(admin, NAME, "q", {}).outcome.nouns

    assert noun.sha256() == admin.get_record(*RECORD)["sha256"]


def test_a_failed_check_materializes_nothing_and_writes_nothing(
    instance: dg.DagsterInstance, admin: Client, filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs.configure(admin, NAME, "q")
    failing: list[Check] = [
        replace(LEARNER.checks[0], find=lambda outcome: ["low 2 above high 1"]),
        *LEARNER.checks[1:],
    ]
    monkeypatch.setattr(PathStatistics, "checks", failing)

    result = materialize(instance, admin, filled)

    evaluations = {one.check_name: one.passed for one in result.get_asset_check_evaluations()}
    assert not result.success
    assert result.asset_materializations_for_node("learning") == []
    assert evaluations == {check.name: check.name != LEARNER.checks[0].name for check in failing}
    assert filled.version("scorecards") is None
    with pytest.raises(NotFound):
        admin.get_record(*RECORD)


def test_every_check_is_declared_by_the_asset_and_blocks() -> None:
    declared = {spec.name: spec.blocking for spec in learning.check_specs if spec.asset_key == KEY}

    assert declared == {check.name: True for check in LEARNER.checks}


def test_no_runs_give_metadata_without_a_nan(
    store: Any, instance: dg.DagsterInstance, admin: Client, filled: Lake
) -> None:
    specs.configure(admin, NAME, "q", options={"dimensions": [], "last": 1})
    specs.configure(admin, NAME, "q", surface=True, options={"dimensions": []})

    made = materialization(materialize(instance, admin, filled))

    assert made.metadata["runs"].value == 4
    assert "nan" not in str(made.metadata["table"].value).lower()
