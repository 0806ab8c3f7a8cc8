"""Leases between workers that stall and a clock that steps: the fence decides, only server time counts."""

from collections.abc import Callable

import pytest

from tests.faults.hand_clock import HandClock
from tests.faults.server import Caller, Server, assert_problem

pytestmark = pytest.mark.both_databases


def test_a_heartbeat_that_comes_after_a_takeover_is_refused_and_disturbs_nobody(
    caller: Caller, another: Callable[..., Caller], clock: HandClock, name: str
) -> None:
    second, third = another(), another()
    caller.enqueue(name, {})
    with clock.stopped():
        stalled = caller.claim(name, lease_seconds=10)
        assert stalled is not None
        path = f"/v1/tasks/{stalled['task_id']}/heartbeat"
        clock.move(10)
        taken = second.claim(name, lease_seconds=10)
        assert taken is not None

        late = caller.post(path, {"fence": stalled["fence"], "lease_seconds": 3600})
        strange = third.post(path, {"fence": stalled["fence"], "lease_seconds": 3600})
        before = second.get(f"/v1/tasks/{taken['task_id']}").json()
        late_submit = caller.submit(stalled)
        mine = second.submit(taken)

    assert_problem(late, 409)
    assert_problem(strange, 404)
    assert_problem(late_submit, 409)
    assert before["fence"] == taken["fence"] == 2
    assert before["lease_expires_at"] == taken["lease_expires_at"]
    assert mine.status_code in (200, 201)
    assert [item["server"]["lapsed"] for item in caller.walk(name)] == [1]


def test_a_holder_whose_lease_lapsed_may_still_submit_until_someone_takes_it(
    caller: Caller, clock: HandClock, name: str
) -> None:
    caller.enqueue(name, {})
    task = caller.claim(name, lease_seconds=10)
    assert task is not None
    clock.move(11)

    assert caller.submit(task).status_code in (200, 201)


def test_a_lapsed_last_attempt_is_failed_and_its_holder_too_late(
    caller: Caller, clock: HandClock, name: str
) -> None:
    caller.enqueue(name, {}, max_attempts=1)
    task = caller.claim(name, lease_seconds=10)
    assert task is not None
    clock.move(11)

    state = caller.get(f"/v1/tasks/{task['task_id']}").json()["state"]
    late = caller.submit(task)

    assert state == "failed"
    assert_problem(late, 409)
    assert caller.claim(name) is None
    assert caller.walk(name) == []


def test_a_clock_set_back_within_a_lease_neither_ends_it_nor_refuses_its_submit(
    caller: Caller, another: Callable[..., Caller], clock: HandClock, name: str
) -> None:
    other = another()
    for number in range(3):
        caller.enqueue(name, {"n": number})
    with clock.stopped():
        first = caller.claim(name, lease_seconds=60)
        second = caller.claim(name, lease_seconds=60)
        assert first is not None
        assert second is not None
        assert caller.submit(first).status_code in (200, 201)
        clock.move(-300)
        beat = caller.post(
            f"/v1/tasks/{second['task_id']}/heartbeat", {"fence": second["fence"], "lease_seconds": 60}
        )
        third = other.claim(name, lease_seconds=60)
        nothing = other.claim(name, lease_seconds=60)
        late = caller.submit(second)
        clock.move(300)

    assert beat.status_code == 200
    assert third is not None
    assert third["task_id"] not in (first["task_id"], second["task_id"])
    assert nothing is None
    assert late.status_code in (200, 201)
    assert [item["server"]["task_id"] for item in caller.walk(name)] == [first["task_id"], second["task_id"]]


def test_a_workers_own_idea_of_the_time_does_not_matter(server: Server, caller: Caller, name: str) -> None:
    caller.enqueue(name, {})
    task = caller.claim(name)
    assert task is not None
    wrong = {"Date": "Thu, 01 Jan 1970 00:00:00 GMT", "If-Unmodified-Since": "Thu, 01 Jan 1970 00:00:00 GMT"}

    answer = caller.post(
        f"/v1/tasks/{task['task_id']}/submit", {"fence": task["fence"], "ok": True}, headers=wrong
    )

    assert answer.status_code in (200, 201)
