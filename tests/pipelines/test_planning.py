"""Windows of a schedule: adjacent, once each, oldest first, whatever the cadence was."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipelines import planning
from schemas import schedules

DAY, HOUR = 86_400, 3_600
NOON = planning.read("2026-03-29T12:00:00Z")


def body(**changes):
    return {
        "schema": schedules.SCHEMA,
        "target": {"queue": "feeds", "kind": "verb.fetch_feed", "brief": {"url": "x"}},
        "cadence": {"cron": "0 * * * *"},
        "window_seconds": HOUR,
        "owner_key_id": "key_1",
        "max_outstanding": 10,
        "max_catch_up": 3,
        **changes,
    }


def test_a_window_is_due_once_it_has_ended_and_the_cadence_has_come_round():
    hourly = body()
    start = planning.first_start(hourly, NOON + 1)
    assert start == NOON
    assert planning.plan(hourly, start, 0, NOON + HOUR - 1).windows == ()
    assert planning.plan(hourly, start, 0, NOON + HOUR).windows == ((NOON, NOON + HOUR),)
    late = body(cadence={"cron": "30 * * * *"})
    assert planning.plan(late, start, 0, NOON + HOUR).windows == ()
    assert planning.plan(late, start, 0, NOON + HOUR + 1800).windows == ((NOON, NOON + HOUR),)


def test_missed_windows_are_caught_up_oldest_first_up_to_the_limit():
    """D14."""
    found = planning.plan(body(), NOON, 0, NOON + 5 * HOUR)
    assert found.windows == tuple((NOON + n * HOUR, NOON + (n + 1) * HOUR) for n in range(3))
    assert (found.due, found.held) == (5, "5 windows are due, 3 are caught up in one tick")


def test_the_outstanding_cap_holds_windows_back_and_says_so():
    found = planning.plan(body(max_outstanding=2), NOON, 1, NOON + 5 * HOUR)
    assert found.windows == ((NOON, NOON + HOUR),)
    assert found.held == "2 tasks are outstanding, the cap is 2"
    assert planning.plan(body(max_outstanding=2), NOON, 3, NOON + 5 * HOUR).windows == ()


def test_a_window_may_be_wider_or_narrower_than_the_cadence():
    daily = body(window_seconds=DAY, cadence={"every_seconds": HOUR})
    midnight = planning.first_start(daily, NOON)
    assert planning.plan(daily, midnight, 0, NOON).windows == ()
    assert planning.plan(daily, midnight, 0, midnight + DAY).windows == ((midnight, midnight + DAY),)
    narrow = body(window_seconds=HOUR // 2, cadence={"cron": "0 * * * *"})
    assert len(planning.plan(narrow, NOON, 0, NOON + HOUR).windows) == 2


def test_the_clocks_of_a_country_change_nothing():
    """On 29 March 2026 many countries skipped an hour; UTC did not."""
    midnight = planning.read("2026-03-29T00:00:00Z")
    found = planning.plan(body(max_catch_up=100, max_outstanding=100), midnight, 0, midnight + DAY)
    assert [start for start, _ in found.windows] == [midnight + n * HOUR for n in range(24)]


@given(
    st.lists(
        st.tuples(
            st.sampled_from([60, 900, HOUR, DAY]),
            st.sampled_from(["* * * * *", "0 * * * *", "7 3 * * 1", "0 0 1 * *"]),
            st.integers(0, 40 * DAY),
            st.integers(1, 50),
        ),
        min_size=1,
        max_size=12,
    )
)
def test_windows_tile_time_whatever_the_versions_were(versions):
    done = now = planning.first_start(body(), NOON)
    for width, cron, later, limit in versions:
        now += later
        changed = body(window_seconds=width, cadence={"cron": cron}, max_catch_up=limit, max_outstanding=1000)
        for start, end in planning.plan(changed, done, 0, now).windows:
            assert start == done
            assert end == start + width
            assert end <= now
            done = end


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        (
            {"cadence": {"cron": "0 0 30 2 *"}},
            "body.cadence.cron",
            "must be a cron expression of five fields",
        ),
        (
            {"cadence": {"cron": "* * * * * *"}},
            "body.cadence.cron",
            "must be a cron expression of five fields",
        ),
        (
            {"cadence": {"cron": "61 * * * *"}},
            "body.cadence.cron",
            "must be a cron expression of five fields",
        ),
        *[
            ({"cadence": {"cron": cron}}, "body.cadence.cron", "must be a cron expression of five fields")
            for cron in ("R R * * *", "r(0-9) * * * *", "0 9-9 * * *", "0 0 * JAN-jan *", "0 0 1,05-5 * *")
        ],
        ({"cadence": {}}, "body.cadence", "must have exactly one of cron, every_seconds"),
        ({"cadence": {"every_seconds": 0}}, "body.cadence.every_seconds", "must be between 1 and"),
        ({"window_seconds": 1.5}, "body.window_seconds", "must be an integer"),
        ({"max_outstanding": 0}, "body.max_outstanding", "must be between 1 and 1000"),
        ({"target": {"queue": "a b", "kind": "k", "brief": {}}}, "body.target.queue", "must be 1 to 64"),
        ({"pins": [{"store": "s", "key": "k"}]}, "body.pins[0].version", "is required"),
        ({"enabled": "no"}, "body.enabled", "must be true or false"),
        ({"effect": 1}, "body.effect", "is not a known field"),
    ],
)
def test_a_body_that_is_no_schedule_is_told_by_its_path(change, path, message):
    (fault,) = schedules.faults(body(**change))
    assert fault.path == path
    assert fault.message.startswith(message)


def test_a_schedule_is_a_schedule():
    assert schedules.faults(body()) == []
    assert schedules.faults(body(pins=[], enabled=False, cadence={"every_seconds": 60})) == []
    for cron in ("1-11,0-10/5 * * MAR-APR Thu-fri", "0 0 L * *", "0 1-2,2-1 10-1 * *"):
        assert schedules.faults(body(cadence={"cron": cron})) == []
