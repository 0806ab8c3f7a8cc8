"""The asset `observations`: what a person sees of a pull in Dagster."""

import dagster as dg
import polars as pl
import pytest

from assets.observations import failures, markdown, observations
from assets.partitions import scopes
from tests.observation_items import observation


def materialize(client, lake, instance):
    return dg.materialize(
        [observations],
        partition_key="packing",
        instance=instance,
        resources={"store": client, "lake": lake},
        raise_on_error=False,
        run_config={"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}},
    )


@pytest.fixture
def history():
    with dg.DagsterInstance.ephemeral() as instance:
        instance.add_dynamic_partitions("queue", ["packing"])
        yield instance


def test_a_materialization_says_what_came_and_where_the_lake_stands(lake, pages, client, history):
    bad = observation(3, server__fence=0)
    pages.items = [observation(1), observation(2, server__failure_text=None, report=None), bad]
    result = materialize(client, lake, history)
    assert result.success
    [made] = result.asset_materializations_for_node("observations")
    shown = {name: value.value for name, value in made.metadata.items()}
    assert (shown["rows_added"], shown["quarantined"], shown["rows"]) == (2, 1, 2)
    assert (shown["cursor"], shown["lag"], shown["lake_version"]) == ("3", 0, 1)
    assert "| 2 | run_2 | verb.pack | accepted | – | – |" in shown["newest_runs"]


def test_the_data_version_moves_only_when_rows_did(lake, pages, client, history):
    pages.items = [observation(1)]
    versions = []
    for count in (1, 1, 2):
        pages.items = [observation(i) for i in range(1, count + 1)]
        [made] = materialize(client, lake, history).asset_materializations_for_node("observations")
        versions.append(made.tags["dagster/data_version"])
    assert versions[0] == versions[1] != versions[2]


def test_a_pull_that_fails_materializes_nothing(lake, pages, client, history):
    pages.items = [observation(1)]
    pages.spoil = lambda page: {**page, "items": None}
    result = materialize(client, lake, history)
    assert not result.success
    assert result.asset_materializations_for_node("observations") == []


def test_why_runs_failed_is_counted_by_reason_and_drawn(lake, pages, client, history):
    said = ["Timeout after 30s", "timeout after 7s", None, "disk full"]
    pages.items = [
        observation(place, server__result="failed", server__failure_text=text)
        for place, text in enumerate(said, 1)
    ]
    [made] = materialize(client, lake, history).asset_materializations_for_node("observations")
    assert failures(lake, "packing") == [("timeout after #s", 2), ("disk full", 1), ("no reason given", 1)]
    assert made.metadata["failure_reasons"].value.startswith("![why runs failed](data:image/png;base64,")
    assert made.metadata["files"].value == 1


def test_a_table_for_metadata_is_bounded_and_unbreakable():
    """D17."""
    rows = pl.DataFrame({"text": ["a|b\n<i>", "x" * 5_000_000, None], "n": [float("nan"), 3e9, None]})
    shown = markdown(rows).splitlines()
    assert shown[2] == "| a\\|b &lt;i> | – |"
    assert shown[4] == "| – | – |"
    assert max(map(len, shown)) < 100
    assert markdown(rows.clear()) == "no rows"


def test_the_learners_own_queues_are_no_scopes():
    assert scopes({"queues": ["learn.runs", "learning", "packing"]}) == ["learning", "packing"]
