"""Rebuild: whole or not at all, and never smaller by accident."""

import json

import pytest

from assets.lake import Lake
from assets.pull import pull
from assets.rebuild import FewerRowsError, rebuild
from assets.views import AnotherStoreError, AnotherViewError
from tests.observation_items import observation


def runs(*cursors, **changes):
    return [observation(cursor, **changes) for cursor in cursors]


def cursors(lake, queue="packing"):
    return lake.observations(queue, columns=["cursor"])["cursor"].to_list()


def test_a_rebuild_reads_everything_anew_and_pulls_go_on_from_there(lake, pages, client):
    """L11: no old bound is kept."""
    pages.items = runs(*range(1, 501))
    pull(client, lake, "packing")
    pages.items = runs(*range(1, 521))
    result = rebuild(client, lake, "packing")
    assert (result.rows_before, result.rows, result.cursor) == (500, 520, 520)
    pages.items = runs(*range(1, 531))
    assert pull(client, lake, "packing").rows == 10
    assert cursors(lake) == list(range(1, 531))


def test_a_rebuild_leaves_other_queues_and_nothing_beside(lake, pages, client):
    pages.items = runs(*range(1, 11))
    pull(client, lake, "packing")
    pages.items = runs(*range(1, 6), server__queue="other")
    pull(client, lake, "other")
    rebuild(client, lake, "other")
    assert (len(cursors(lake)), len(cursors(lake, "other"))) == (10, 5)
    assert lake.beside("rebuild/other").queues() == []


def test_a_lake_without_the_queue_is_filled_by_a_rebuild(lake, pages, client):
    pages.items = runs(1, 2)
    assert rebuild(client, lake, "packing").rows == 2
    assert rebuild(client, lake, "packing").rows == 2
    assert cursors(lake) == [1, 2]


def test_a_smaller_replacement_is_refused_unless_allowed(lake, pages, client):
    """L11."""
    pages.items = runs(*range(1, 11))
    pull(client, lake, "packing")
    pages.items = runs(*range(1, 9))
    with pytest.raises(FewerRowsError, match="--allow-fewer"):
        rebuild(client, lake, "packing")
    assert cursors(lake) == list(range(1, 11))
    assert rebuild(client, lake, "packing", allow_fewer=True).rows == 8
    assert cursors(lake) == list(range(1, 9))
    assert lake.cursor("packing") == 8


@pytest.mark.parametrize(
    "change",
    [
        {"id": "key_2"},
        {"kinds": ["verb.pack"]},
        {"stores": ["learn.outputs"]},
        {"scopes": ["read", "admin"]},
    ],
)
def test_another_key_or_other_grants_are_refused_until_a_rebuild(lake, pages, client, change):
    pages.items = runs(*range(1, 11))
    pull(client, lake, "packing")
    pages.whoami = {**pages.whoami, **change}
    pages.items = runs(*range(1, 8))
    with pytest.raises(AnotherViewError, match="workspace rebuild --queue packing") as refused:
        pull(client, lake, "packing")
    assert "key_1 (read; all kinds; all stores)" in str(refused.value)
    assert cursors(lake) == list(range(1, 11))
    assert rebuild(client, lake, "packing").rows == 7
    assert pull(client, lake, "packing").rows == 0
    assert cursors(lake) == list(range(1, 8))


def test_a_scope_that_decides_no_reading_is_no_other_view(lake, pages, client):
    pages.items = runs(1)
    pull(client, lake, "packing")
    pages.whoami = {**pages.whoami, "scopes": ["work", "read"], "name": "renamed"}
    assert pull(client, lake, "packing").rows == 0


def test_another_store_is_refused_by_the_rebuild_too(lake, pages, client):
    pages.items = runs(1, 2)
    pull(client, lake, "packing")
    pages.whoami = {**pages.whoami, "store_id": "store_2"}
    for act in (pull, rebuild):
        with pytest.raises(AnotherStoreError, match="TESSERA_LAKE"):
            act(client, lake, "packing")
    assert cursors(lake) == [1, 2]


def test_a_rebuild_empties_the_quarantine_of_what_is_good_now(lake, pages, client):
    pages.items = runs(1, 2, server__fence=0) + runs(3)
    pull(client, lake, "packing")
    pages.items = runs(1) + runs(2, server__fence=0) + runs(3)
    result = rebuild(client, lake, "packing")
    rejected = lake.scan("quarantine").collect()
    assert (result.rows, result.quarantined) == (2, 1)
    assert rejected["cursor"].to_list() == [2]
    assert json.loads(rejected["item"][0])["run_id"] == "run_2"


def test_a_pull_that_commits_during_a_rebuild_loses_nothing(lake, pages, client):
    """L10: the swap sees that it is behind and reads on."""
    pages.items = runs(*range(1, 11))
    pull(client, lake, "packing")

    class Overtaken(Lake):
        """Lets a pull commit between the reading and the swap, once."""

        def remember_view(self, queue, view):
            super().remember_view(queue, view)
            if len(pages.items) == 10:
                pages.items = runs(*range(1, 16))
                pull(client, lake, "packing")

    result = rebuild(client, Overtaken(lake.location), "packing")
    assert (result.rows_before, result.rows) == (15, 15)
    assert cursors(lake) == list(range(1, 16))
