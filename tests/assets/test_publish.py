"""The publishing place, against a real store."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from assets.publish import (
    BudgetCrossed,
    CheckFailed,
    UnreadableState,
    Verified,
    publish,
    read_state,
    verified,
)
from learners.contract import Citation, Evidence, Noun, Outcome, Run, Scope
from learners.path_statistics import LEARNER
from schemas import observations
from tessera.client import Client
from tessera.errors import NotFound

SPEC = Citation("learn.specs", "path_statistics:wilson-grouping:v1", 1, "0" * 64)
AT = ("learn.outputs", "path_statistics:wilson-grouping:v1:q")


def outcome(*, options: dict[str, Any] | None = None, **run: Any) -> Outcome:
    """A run over nothing."""
    nothing = Evidence(pl.DataFrame(schema=observations.SCHEMA))
    return LEARNER.learn(Run(SPEC, Scope("q"), options or {}, **run), nothing)


def verify(**run: Any) -> Verified:
    return verified(LEARNER, outcome(**run))


def test_a_noun_is_written_private_with_exactly_two_tags(admin: Client) -> None:
    publication = publish(admin, verify())

    record = admin.get_record(*AT)
    assert publication.status == "published"
    assert [dict(one) for one in publication.records] == [
        {"store": AT[0], "key": AT[1], "version": 1, "sha256": record["sha256"]}
    ]
    assert record["visibility"] == "private"
    assert sorted(record["tags"]) == ["path_statistics:wilson-grouping:v1", "queue:q"]
    assert record["category"] == "noun.eval_run"


def test_a_surface_shows_the_noun_to_the_readers_of_the_queue_alone(store: Any, admin: Client) -> None:
    publish(admin, verify(surface={"queue": "q"}))

    reader, stranger = store.client(["read"], ["q"]), store.client(["read"], ["other"])
    assert reader.get_record(*AT)["visibility"] == "surface_only"
    with pytest.raises(NotFound):
        stranger.get_record(*AT)


def test_a_run_that_could_read_nothing_new_moves_its_state_all_the_same(admin: Client) -> None:
    publish(admin, verify())

    again = publish(admin, verify(state=read_state(admin, *AT)))

    assert again.status == "published"
    assert admin.get_record(*AT)["version"] == 2


def test_a_new_surface_makes_a_new_version_of_an_identical_body(admin: Client) -> None:
    publish(admin, verify())

    shown = publish(admin, verify(state=read_state(admin, *AT), surface={"queue": "q"}))

    assert shown.status == "published"
    assert admin.get_record(*AT)["version"] == 2


def test_a_repeat_that_does_not_know_of_its_first_write_is_recognized(admin: Client) -> None:
    first = publish(admin, verify())

    again = publish(admin, verify())

    assert again == first
    assert admin.get_record(*AT)["version"] == 1


def test_a_lost_answer_is_recognized_by_its_content_under_another_key(store: Any, admin: Client) -> None:
    publish(admin, verify())
    other = store.client(["read", "work", "write", "admin"], ["*"])

    again = publish(other, verify())

    assert again.status == "published"
    assert admin.get_record(*AT)["version"] == 1


def test_a_state_that_another_run_moved_is_superseded_and_nothing_is_written(admin: Client) -> None:
    publish(admin, verify())

    late = publish(admin, verify(options={"last": 7}))

    assert late.status == "superseded"
    assert late.records[0]["version"] == 1
    assert admin.get_record(*AT)["version"] == 1


def test_a_state_that_cannot_be_read_is_named_with_the_remedy(store: Any, admin: Client) -> None:
    publish(admin, verify())
    other = store.client(["read", "write"], ["*"])

    with pytest.raises(
        UnreadableState, match=r"learn\.outputs/path_statistics.* exists.*the key that wrote it"
    ):
        publish(other, verify())


def spoiled(change: Callable[[dict[str, Any]], None]) -> Outcome:
    made = outcome(options={"dimensions": []})
    change(made.nouns[0].body)  # type: ignore[arg-type]
    return made


def test_a_failed_check_names_itself_and_its_rows_and_nothing_can_be_published() -> None:
    with pytest.raises(CheckFailed, match=r"counts_add_up: .* groups hold 3 of 0 runs") as caught:
        verified(LEARNER, spoiled(lambda body: body["groups"][0].update(attempts=3)))

    failed = [result.name for result in caught.value.results if not result.passed]
    assert failed == ["intervals_hold_rates", "counts_add_up"]
    assert len(caught.value.results) == len(LEARNER.checks)


def test_a_crossed_budget_is_named_and_nothing_can_be_published() -> None:
    small = {**LEARNER.spec, "budget": {**LEARNER.spec["budget"], "output_bytes": 10}}

    with pytest.raises(BudgetCrossed, match="budget of 10 output_bytes"):
        verified(LEARNER, outcome(), small)


def test_several_nouns_are_written_all_or_none(admin: Client) -> None:
    good = verify()
    segment = Noun("learn.outputs", f"{AT[1]}:seg:000001", "noun.eval_run", {"entries": []})
    both = Verified(
        LEARNER, Outcome(good.outcome.run, good.outcome.evidence, (segment, *good.outcome.nouns)), ()
    )

    publication = publish(admin, both)

    assert [record["key"] for record in publication.records] == [segment.key, AT[1]]
    assert admin.get_record(segment.store, segment.key)["version"] == 1
    assert publish(admin, both) == publication
