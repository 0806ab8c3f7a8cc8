"""Schedule nouns over a real store: every window once, for its owner, and each skip with its reason."""

from collections.abc import Callable
from typing import Any

import pytest

from pipelines import planning, schedules
from schemas.schedules import SCHEMA, STORE, progress_key
from tessera.client import Client
from tessera.errors import ConnectionFault

HOUR = 3_600
Noun = Callable[..., dict[str, Any]]


@pytest.fixture
def admin(store: Any) -> Client:
    return store.client()


@pytest.fixture
def owner(store: Any) -> dict[str, Any]:
    return store.key(["work", "read", "write"], ["feeds"])


@pytest.fixture
def noun(admin: Client, owner: dict[str, Any]) -> Noun:
    """Write the next version of schedule `nightly`, hourly windows by default."""

    def write(client: Client = admin, key: str = "nightly", **changes: Any) -> dict[str, Any]:
        body = {
            "schema": SCHEMA,
            "target": {"queue": "feeds", "kind": "verb.fetch_feed", "brief": {"url": "x"}},
            "cadence": {"cron": "0 * * * *"},
            "window_seconds": HOUR,
            "owner_key_id": owner["id"],
            "max_outstanding": 10,
            "max_catch_up": 3,
            **changes,
        }
        records = client.list_records(store=STORE, prefix=key)["items"]
        write = {
            "store": STORE,
            "key": key,
            "expected_version": records[0]["version"] if records else 0,
            "category": "noun.skill_pack",
            "tags": [],
            "visibility": "shared",
            "body": body,
        }
        client.write_records([write])
        return client.get_record(STORE, key)

    return write


def base(record: dict[str, Any]) -> int:
    """Where the first window of a noun begins."""
    return planning.first_start(record["body"], planning.read(record["created_at"]))


def windows(client: Client) -> list[str]:
    """The starts of the windows that can be claimed from the queue, in order; they are claimed."""
    found = []
    while (task := client.claim("feeds")) is not None:
        found.append(task["brief"]["window"]["start"])
        client.submit(task["task_id"], task["fence"], True)
    return found


def skips(admin: Client) -> list[str]:
    return [skip["reason"] for skip in admin.get_record(STORE, progress_key("nightly"))["body"]["skips"]]


def test_without_a_noun_nothing_happens(admin: Client) -> None:
    assert schedules.tick(admin, 1_800_000_000) == []
    assert admin.list_records(store=STORE)["items"] == []


def test_each_missed_window_comes_once_oldest_first_whatever_becomes_of_the_cadence(
    admin: Client, noun: Noun, store: Any, owner: dict[str, Any]
) -> None:
    """D14: down for five windows, then up; another cron text; paused and on again."""
    start = base(noun())
    worker = Client(store.url, owner["secret"])
    expected = [planning.written(start + number * HOUR) for number in range(12)]

    first = schedules.tick(admin, start + 5 * HOUR)
    assert [one.enqueued for one in first] == [expected[:3]]
    assert first[0].skipped == "5 windows are due, 3 are caught up in one tick"
    assert schedules.tick(admin, start + 5 * HOUR)[0].enqueued == expected[3:5]
    assert schedules.tick(admin, start + 5 * HOUR + 59)[0].enqueued == []
    assert windows(worker) == expected[:5]

    noun(cadence={"every_seconds": 60})
    assert schedules.tick(admin, start + 6 * HOUR)[0].enqueued == expected[5:6]
    noun(enabled=False)
    assert schedules.tick(admin, start + 8 * HOUR)[0].skipped == "it is paused: enabled is false"
    noun()
    assert schedules.tick(admin, start + 8 * HOUR)[0].enqueued == expected[6:8]
    assert windows(worker) == expected[5:8]
    worker.close()


def test_a_new_version_starts_where_its_predecessor_ended_also_with_other_windows(
    admin: Client, noun: Noun
) -> None:
    start = base(noun())
    schedules.tick(admin, start + 2 * HOUR)
    noun(window_seconds=1800)
    (second,) = schedules.tick(admin, start + 3 * HOUR)
    assert second.version == 2
    assert second.enqueued == [planning.written(start + 2 * HOUR), planning.written(start + 2 * HOUR + 1800)]


def test_the_outstanding_cap_counts_tasks_that_are_not_over(
    admin: Client, noun: Noun, store: Any, owner: dict[str, Any]
) -> None:
    start = base(noun(max_outstanding=2))
    (held,) = schedules.tick(admin, start + 5 * HOUR)
    assert (len(held.enqueued), held.skipped) == (2, "2 tasks are outstanding, the cap is 2")
    assert schedules.tick(admin, start + 5 * HOUR)[0].enqueued == []
    with Client(store.url, owner["secret"]) as worker:
        assert len(windows(worker)) == 2
    assert len(schedules.tick(admin, start + 5 * HOUR)[0].enqueued) == 2
    assert skips(admin) == ["2 tasks are outstanding, the cap is 2"]


def test_the_task_is_the_owners_and_says_which_window_it_is_for(
    admin: Client, noun: Noun, owner: dict[str, Any]
) -> None:
    record = noun()
    start = base(record)
    schedules.tick(admin, start + HOUR)
    (window,) = admin.get_record(STORE, progress_key("nightly"))["body"]["outstanding"]
    task = admin.get_task(window["task_id"])
    again = admin.enqueue(
        "feeds",
        "verb.fetch_feed",
        {"url": "x", "window": {"start": window["start"], "end": window["end"]}},
        owner_key_id=owner["id"],
        idempotency_key=f"schedule:nightly:1:{window['start']}",
    )
    assert task["owner_key_id"] == owner["id"]
    assert again["task_id"] == window["task_id"]


@pytest.mark.parametrize(
    ("spoil", "says"),
    [
        (lambda admin, owner, noun, store: admin.revoke_key(owner["id"]), "unknown, revoked or expired"),
        (lambda admin, owner, noun, store: noun(owner_key_id="key_none"), "unknown, revoked or expired"),
        (
            lambda admin, owner, noun, store: noun(target={"queue": "other", "kind": "k", "brief": {}}),
            "not granted the queue",
        ),
        (
            lambda admin, owner, noun, store: noun(pins=[{"store": "s", "key": "none", "version": 1}]),
            "there is no such record version",
        ),
        (lambda admin, owner, noun, store: noun(max_catch_up=0), "body.max_catch_up must be between 1"),
        (
            lambda admin, owner, noun, store: noun(store.client(["read", "write"])),
            "which is neither its owner nor an admin's",
        ),
    ],
    ids=["revoked", "unknown", "queue", "pin", "body", "stranger"],
)
def test_what_is_not_allowed_is_skipped_with_its_reason_and_stays_due(
    admin: Client, noun: Noun, owner: dict[str, Any], store: Any, spoil: Any, says: str
) -> None:
    start = base(noun())
    spoil(admin, owner, noun, store)
    for later in range(3):
        (ticked,) = schedules.tick(admin, start + 2 * HOUR + later)
        assert ticked.enqueued == []
        assert says in str(ticked.skipped)
    versions = admin.get_record(STORE, progress_key("nightly"))["version"]
    assert versions <= 2  # a reason is recorded once, not at each tick
    assert says in skips(admin)[-1]

    other = store.key(["work", "read"], ["feeds"])
    noun(owner_key_id=other["id"])
    assert len(schedules.tick(admin, start + 2 * HOUR + 3)[0].enqueued) == 2


def test_the_owner_may_write_its_own_schedule(
    noun: Noun, owner: dict[str, Any], store: Any, admin: Client
) -> None:
    with Client(store.url, owner["secret"]) as its:
        start = base(noun(its))
    assert len(schedules.tick(admin, start + HOUR)[0].enqueued) == 1


class Dying(Client):
    """A client whose process dies at the n-th call of a method."""

    def die_at(self, method: str, count: int) -> None:
        real = getattr(self, method)
        calls = iter(range(1, 1000))

        def dying(*arguments: Any, **named: Any) -> Any:
            if next(calls) == count:
                raise ConnectionFault(self.url, "dead")
            return real(*arguments, **named)

        setattr(self, method, dying)


@pytest.mark.parametrize(
    ("method", "count"),
    [("write_records", 1), ("enqueue", 1), ("enqueue", 2), ("enqueue", 3), ("write_records", 2)],
)
@pytest.mark.parametrize("then", ["same", "new version"])
def test_a_tick_that_dies_anywhere_neither_loses_nor_doubles_a_window(
    admin: Client, noun: Noun, store: Any, owner: dict[str, Any], method: str, count: int, then: str
) -> None:
    start = base(noun())
    with Dying(store.url, store.admin_key) as dying:
        dying.die_at(method, count)
        with pytest.raises(ConnectionFault):
            schedules.tick(dying, start + 3 * HOUR)
    if then == "new version":
        noun(cadence={"every_seconds": 60})
    for _ in range(2):
        schedules.tick(admin, start + 5 * HOUR)
    with Client(store.url, owner["secret"]) as worker:
        assert windows(worker) == [planning.written(start + number * HOUR) for number in range(5)]


def test_a_schedule_that_cannot_be_ticked_stops_no_other(admin: Client, noun: Noun) -> None:
    due = base(noun()) + HOUR
    noun(key="k" * 512)  # its progress would need a longer key than there is
    noun(key="another")
    foreign = {"store": STORE, "key": progress_key("another"), "expected_version": 0, "category": "noun.x"}
    admin.write_records([{**foreign, "tags": [], "visibility": "private", "body": {"done": "soon"}}])

    ticked = {one.key: one for one in schedules.tick(admin, due)}

    assert len(ticked["nightly"].enqueued) == 1
    assert "must be at most 512 UTF-8 bytes" in str(ticked["k" * 512].skipped)
    said = str(ticked["another"].skipped)
    assert said.startswith(f"{STORE}/progress:another version 1, written by key ")
    assert "does not say how far the schedule has come (body.schema is required): write its last" in said


def test_of_two_ticks_at_once_one_stands_back(admin: Client, noun: Noun, store: Any) -> None:
    """D06: the other tick comes between this one's reading and its writing."""
    start = base(noun())

    class Overtaken(Client):
        def write_records(self, writes: Any, **named: Any) -> Any:  # type: ignore[override]
            schedules.tick(admin, start + HOUR)
            return super().write_records(writes, **named)

    with Overtaken(store.url, store.admin_key) as overtaken:
        (late,) = schedules.tick(overtaken, start + HOUR)
    assert late.skipped == "another tick of this schedule is at work"
    assert admin.get_record(STORE, progress_key("nightly"))["body"]["enqueued"] == 1
