"""The fingerprints of a queue's runs in the lake: incremental, and made anew when their rows changed."""

from typing import Any

import polars as pl
import pytest

from assets.fingerprints import fingerprinted, likenesses, refresh
from assets.lake import Lake
from assets.pull import pull
from assets.rebuild import rebuild
from assets.views import LakeConflictError
from schemas import observations
from schemas.fingerprints import SCHEMA, Fingerprints
from tessera import fingerprints as scalar
from tessera.client import Client
from tests.observation_items import observation
from tests.page_store import PageStore


def rows(lake: Lake, queue: str = "packing") -> pl.DataFrame:
    return lake.scan("fingerprints").filter(pl.col("queue") == queue).sort("cursor").collect()


def filled(pages: PageStore, client: Client, lake: Lake, *cursors: int) -> None:
    pages.items += [observation(cursor) for cursor in cursors]
    pull(client, lake, "packing")


def test_a_row_holds_the_scalar_forms_values(pages: PageStore, client: Client, lake: Lake) -> None:
    plain = {"brief__wording": {}, "input_digest": None, "report": None}
    pages.items = [observation(1), observation(2, **plain), observation(3, server__kind='a"\u20ac')]
    pull(client, lake, "packing")

    refresh(lake, "packing")

    found = rows(lake)
    for row, item in zip(found.iter_rows(named=True), pages.items, strict=True):
        report = item["report"] or {"summaries": {}, "learning": {"types": {}}}
        kind, types = item["server"]["kind"], report["learning"]["types"]
        features = scalar.features(
            kind,
            item["brief"]["wording"].values(),
            report["summaries"].get("problem"),
            types.get("input"),
            types.get("output"),
        )
        signature = scalar.minhash(features)
        expected = None if signature is None else b"".join(value.to_bytes(4, "big") for value in signature)
        assert row["minhash"] == expected
        assert row["features"] == len(features) - 1
        assert row["exact"] == scalar.exact_fingerprint(
            kind, item["brief"]["input_type"], item["input_digest"]
        )
        assert row["scheme"] == "tessera.minhash.v1"
    assert dict(found.schema) == SCHEMA


def test_the_next_refresh_takes_only_what_is_new(pages: PageStore, client: Client, lake: Lake) -> None:
    filled(pages, client, lake, 1, 2, 3)
    first = refresh(lake, "packing")
    again = refresh(lake, "packing")
    filled(pages, client, lake, 4, 9)

    second = refresh(lake, "packing")

    assert (first.rows_added, first.rows, first.cursor) == (3, 3, 3)
    assert (again.rows_added, again.version) == (0, first.version)
    assert (second.rows_added, second.rows, second.cursor, second.made_anew) == (2, 5, 9, False)
    assert rows(lake)["run_id"].to_list() == ["run_1", "run_2", "run_3", "run_4", "run_9"]


def test_rows_that_a_rebuild_took_away_have_no_fingerprint_left(
    pages: PageStore, client: Client, lake: Lake
) -> None:
    filled(pages, client, lake, 1, 2, 3)
    refresh(lake, "packing")
    del pages.items[1]
    rebuild(client, lake, "packing", allow_fewer=True)

    done = refresh(lake, "packing")

    assert (done.made_anew, done.rows) == (True, 2)
    assert rows(lake)["run_id"].to_list() == ["run_1", "run_3"]


def test_rows_that_a_wider_view_brought_get_their_fingerprints(
    pages: PageStore, client: Client, lake: Lake
) -> None:
    filled(pages, client, lake, 2, 3)
    refresh(lake, "packing")
    pages.items = [observation(1), observation(3)]
    pages.whoami["kinds"] = ["verb.pack"]
    rebuild(client, lake, "packing")

    done = refresh(lake, "packing")

    assert done.made_anew
    assert rows(lake)["run_id"].to_list() == ["run_1", "run_3"]


def test_many_rows_go_in_batches_each_durable_with_its_cursor(
    pages: PageStore, client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(pages, client, lake, *range(1, 12))
    monkeypatch.setattr("assets.fingerprints.BATCH_ROWS", 4)

    done = refresh(lake, "packing")

    assert (done.rows_added, done.cursor) == (11, 11)
    assert rows(lake).height == 11


def test_two_refreshes_of_a_queue_never_double_a_row(
    pages: PageStore, client: Client, lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    filled(pages, client, lake, 1, 2, 3)
    refresh(lake, "packing")
    filled(pages, client, lake, 4)
    read = lake.observations

    def overtaken(*args: Any, **kwargs: Any) -> pl.DataFrame:
        found = read(*args, **kwargs)
        if "wording" in kwargs.get("columns", ()):
            monkeypatch.setattr(lake, "observations", read)
            refresh(Lake(lake.location), "packing")
        return found

    monkeypatch.setattr(lake, "observations", overtaken)
    with pytest.raises(LakeConflictError):
        refresh(lake, "packing")

    assert rows(lake)["run_id"].to_list() == ["run_1", "run_2", "run_3", "run_4"]


def test_an_empty_lake_and_no_rows_have_no_fingerprints(lake: Lake) -> None:
    assert refresh(lake, "packing").rows == 0
    assert Fingerprints.validate(fingerprinted(observations.frame([]))).height == 0


def test_the_likeness_of_the_newest_runs_is_counted_by_pairs() -> None:
    def signature(differing: int) -> bytes:
        return b"".join((0 if place >= differing else 7).to_bytes(4, "big") for place in range(32))

    pairs = likenesses(pl.Series([signature(0), signature(0), signature(16), signature(32)]))

    assert pairs == [2, 0, 0, 0, 0, 3, 0, 0, 0, 1]
