"""Compaction and removal with writers and readers at work."""

import threading
from pathlib import Path

import polars as pl
import pytest
from deltalake import write_deltalake

from assets.lake import Lake
from assets.pull import pull
from assets.rebuild import rebuild
from assets.upkeep import compact, files, remove_old, tidy, upkeep
from assets.views import LakeError
from tests.observation_items import observation


def runs(*cursors, **changes):
    return [observation(cursor, **changes) for cursor in cursors]


def fill(lake, pages, client, pulls):
    """So many pulls of one run each: as many files."""
    for number in range(1, pulls + 1):
        pages.items = runs(*range(1, number + 1))
        pull(client, lake, "packing")


def cursors(lake, queue="packing"):
    return lake.observations(queue, columns=["cursor"])["cursor"].to_list()


def test_compaction_makes_few_files_of_many_and_pulls_go_on_from_the_same_cursor(lake, pages, client):
    fill(lake, pages, client, 6)
    before, after = compact(lake, "observations", "packing")
    assert (before, after, lake.cursor("packing")) == (6, 1, 6)
    pages.items = runs(*range(1, 9))
    assert pull(client, lake, "packing").rows == 2
    assert cursors(lake) == list(range(1, 9))


@pytest.mark.both_lakes
def test_a_reader_that_was_open_before_reads_on_until_its_files_are_removed(lake, pages, client):
    """P12: the old state, then an error that says so, then the new one; never a mix."""
    fill(lake, pages, client, 4)
    reader = pl.scan_delta(lake.open("observations")).select("cursor").sort("cursor")
    compact(lake, "observations")
    assert remove_old(lake, "observations") == 0
    pages.items = runs(*range(1, 6))
    pull(client, lake, "packing")
    assert reader.collect()["cursor"].to_list() == [1, 2, 3, 4]
    assert remove_old(lake, "observations", keep_hours=0) == 4
    with pytest.raises((OSError, pl.exceptions.PolarsError)):
        reader.collect()
    assert cursors(lake) == [1, 2, 3, 4, 5]


def test_half_an_hour_to_keep_is_not_none(lake, pages, client):
    fill(lake, pages, client, 4)
    compact(lake, "observations")

    assert remove_old(lake, "observations", keep_hours=0.5) == 0
    assert remove_old(lake, "observations", keep_hours=0) == 4


def test_a_reader_that_was_open_when_a_column_changed_sees_the_old_rows_or_an_error(lake, pages, client):
    """P12: what holds the lake open, as a notebook does, asks it anew and is told; never a mix."""
    fill(lake, pages, client, 4)
    reader = pl.scan_delta(lake.open("observations")).select("cursor", "kind").sort("cursor")
    before = reader.collect()
    other = lake.scan("observations").collect().with_columns(pl.col("kind").str.len_bytes())
    write_deltalake(lake.uri("observations"), other, mode="overwrite", schema_mode="overwrite")
    assert reader.collect().equals(before)
    remove_old(lake, "observations", keep_hours=0)
    with pytest.raises((OSError, pl.exceptions.PolarsError)):
        reader.collect()
    with pytest.raises((LakeError, pl.exceptions.PolarsError), match="kind"):
        lake.observations("packing", kind="verb.pack", columns=["cursor", "kind"])


def test_readers_writers_and_upkeep_at_once_lose_and_mix_nothing(lake, pages, client):
    fill(lake, pages, client, 3)
    pages.items = runs(*range(1, 40))
    errors, seen, stop = [], [], threading.Event()

    def reading():
        while not stop.is_set():
            try:
                found = cursors(Lake(lake.location))
            except LakeError:  # clear, and the next look has it
                continue
            seen.append(len(found))
            if found != list(range(1, len(found) + 1)):
                errors.append(found)

    reader = threading.Thread(target=reading)
    reader.start()
    try:
        for _ in range(4):
            pull(client, lake, "packing", page_size=4, commit_rows=4)
            upkeep(lake, keep_hours=0)
            rebuild(client, lake, "packing")
            pages.items = [*pages.items, *runs(len(pages.items) + 1)]
    finally:
        stop.set()
        reader.join()
    assert errors == []
    assert seen
    assert cursors(lake) == list(range(1, 43))


@pytest.mark.both_lakes
def test_a_compaction_during_a_pull_disturbs_neither(lake, pages, client):
    fill(lake, pages, client, 3)
    pages.items = runs(*range(1, 31))
    compacted = []

    def meanwhile(_: int) -> None:
        compacted.append(compact(lake, "observations", "packing"))

    assert pull(client, lake, "packing", page_size=5, commit_rows=5, progress=meanwhile).rows == 27
    assert compacted
    assert cursors(lake) == list(range(1, 31))


@pytest.mark.both_lakes
def test_a_queue_is_tidied_once_it_has_too_many_files_and_others_are_left_alone(lake, pages, client):
    fill(lake, pages, client, 5)
    pages.items = runs(1, 2, server__queue="other")
    pull(client, lake, "other")
    assert tidy(lake, "observations", "packing", most=5) == 5
    assert tidy(lake, "observations", "packing", most=4) == 1
    assert files(lake.open("observations")) == 2
    assert tidy(lake, "scorecards", "packing") == 0


def test_a_deleted_file_is_an_error_that_names_it_and_a_rebuild_mends_it(lake, pages, client):
    fill(lake, pages, client, 3)
    gone = sorted(Path(lake.location).rglob("queue=packing/*.parquet"))[0]
    gone.unlink()
    with pytest.raises(LakeError, match=gone.name):
        cursors(lake)
    assert rebuild(client, lake, "packing").rows == 3
    assert cursors(lake) == [1, 2, 3]
