"""Claims, fences and leases (contract, section 3, "Leases")."""

import threading
from typing import Any

import pytest

from tessera.store.clock import rfc3339
from tests.faults.server import until
from tests.server.calls import claim, claimed, done, enqueue, observations, state, submit

pytestmark = pytest.mark.both_databases


def test_a_task_goes_from_queued_to_claimed_to_succeeded(store: Any) -> None:
    http = store.http()

    task = enqueue(http)
    assert task == {"task_id": task["task_id"], "state": "queued", "fence": 0, "queue": "q", "kind": "k"}
    lease = claimed(http)
    assert lease.keys() == {*task, "brief", "pins", "input_digest", "lease_expires_at"}
    assert (lease["state"], lease["fence"]) == ("claimed", 1)
    assert state(http, task) == "claimed"
    receipt = done(submit(http, lease), 200)

    assert receipt["state_after"] == "succeeded"
    assert state(http, task) == "succeeded"
    assert claim(http) is None


def test_the_higher_priority_goes_first_then_the_oldest(store: Any) -> None:
    http = store.http()
    ids = {
        name: enqueue(http, priority=priority)["task_id"]
        for name, priority in (("b", 0), ("c", 0), ("a", 7), ("d", -3))
    }

    order = [claimed(http)["task_id"] for _ in ids]

    assert order == [ids["a"], ids["b"], ids["c"], ids["d"]]


def test_a_lapsed_task_takes_its_place_by_priority_among_the_ready_ones(store: Any) -> None:
    http = store.http()
    first = enqueue(http, priority=1)
    claimed(http, lease_seconds=1)
    low, high = enqueue(http, priority=0), enqueue(http, priority=2)
    store.clock.move(2)

    order = [claimed(http)["task_id"] for _ in range(3)]

    assert order == [high["task_id"], first["task_id"], low["task_id"]]


def test_a_claim_takes_only_the_kinds_that_it_names(store: Any) -> None:
    http = store.http()
    enqueue(http, kind="a")
    wanted = enqueue(http, kind="b")

    assert claim(http, kinds=["c"]) is None
    assert claimed(http, kinds=["c", "b"])["task_id"] == wanted["task_id"]


def test_a_claim_by_id_takes_that_task_or_none(store: Any) -> None:
    http = store.http()
    enqueue(http)
    wanted = enqueue(http, priority=-5)

    assert claimed(http, task_id=wanted["task_id"])["task_id"] == wanted["task_id"]
    assert claim(http, task_id=wanted["task_id"]) is None
    assert claim(http, task_id="task-99-no") is None
    assert claim(http, queue="other", task_id=enqueue(http)["task_id"]) is None


def test_heartbeat_and_submit_of_an_old_fence_get_409_and_write_nothing(store: Any) -> None:
    first, second = store.http_for(), store.http_for()
    enqueue(first)
    old = claimed(first, lease_seconds=5)
    store.clock.move(6)
    new = claimed(second)
    assert new["fence"] == 2

    late = first.post(f"/v1/tasks/{old['task_id']}/heartbeat", json={"fence": 1, "lease_seconds": 60})
    assert late.status_code == 409
    assert submit(first, old).status_code == 409

    assert observations(first)["items"] == []
    assert done(submit(second, new))["fence"] == 2


def test_a_fence_is_for_the_key_that_claimed_it_and_absent_for_any_other(store: Any) -> None:
    holder, other = store.http_for(), store.http_for(["read", "work", "write", "admin"])
    enqueue(holder)
    task = claimed(holder)
    unknown = other.post("/v1/tasks/task-9-x/submit", json={"fence": 1, "ok": True})

    for path, body in (
        ("submit", {"fence": 1, "ok": True}),
        ("heartbeat", {"fence": 1, "lease_seconds": 5}),
        ("submit", {"fence": 2, "ok": True}),
    ):
        answer = other.post(f"/v1/tasks/{task['task_id']}/{path}", json=body)
        assert answer.status_code == 404
        assert answer.content == unknown.content
    assert submit(holder, {**task, "fence": 2}).status_code == 404
    assert submit(holder, task).status_code == 200


def test_an_old_fence_is_absent_for_a_key_that_did_not_claim_it(store: Any) -> None:
    first, second = store.http_for(), store.http_for()
    enqueue(first)
    claimed(first, lease_seconds=5)
    store.clock.move(6)
    task = claimed(second)

    assert submit(second, {**task, "fence": 1}).status_code == 404


def test_a_lapsed_lease_is_still_its_holders_until_someone_takes_it(store: Any) -> None:
    http = store.http()
    task = enqueue(http)
    lease = claimed(http, lease_seconds=5)
    store.clock.move(3600)
    assert state(http, task) == "claimed"

    beat = http.post(f"/v1/tasks/{task['task_id']}/heartbeat", json={"fence": 1, "lease_seconds": 60})
    assert done(beat)["state"] == "claimed"
    assert claim(http) is None
    store.clock.move(3600)

    assert done(submit(http, lease))["state_after"] == "succeeded"


def test_the_last_attempt_fails_as_soon_as_its_lease_lapses(store: Any) -> None:
    http = store.http()
    task = enqueue(http, max_attempts=1)
    lease = claimed(http, lease_seconds=5)
    store.clock.move(4)
    assert state(http, task) == "claimed"

    store.clock.move(1)

    assert state(http, task) == "failed"
    assert submit(http, lease).status_code == 409
    beat = http.post(f"/v1/tasks/{task['task_id']}/heartbeat", json={"fence": 1, "lease_seconds": 60})
    assert beat.status_code == 409
    assert claim(http) is None
    assert http.post(f"/v1/tasks/{task['task_id']}/cancel").status_code == 409
    assert state(http, task) == "failed"


def test_a_failure_with_attempts_left_is_queued_at_once_and_failed_after_the_last(store: Any) -> None:
    http = store.http()
    task = enqueue(http, max_attempts=2)

    first = done(submit(http, claimed(http), ok=False, failure="no luck"))
    second = done(submit(http, claimed(http), ok=False))

    assert (first["result"], first["state_after"], first["fence"]) == ("failed", "queued", 1)
    assert (second["state_after"], second["fence"]) == ("failed", 2)
    assert state(http, task) == "failed"
    assert claim(http) is None


def test_a_second_submit_of_one_fence_gets_409(store: Any) -> None:
    http = store.http()
    enqueue(http)
    task = claimed(http)
    done(submit(http, task, ok=False))

    assert submit(http, task).status_code == 409
    assert len(observations(http)["items"]) == 1


def test_lapsed_counts_earlier_fences_that_ended_without_a_submit(store: Any) -> None:
    http = store.http()
    enqueue(http, max_attempts=5)
    done(submit(http, claimed(http), ok=False))
    claimed(http, lease_seconds=1)
    store.clock.move(2)
    claimed(http, lease_seconds=1)
    store.clock.move(2)
    done(submit(http, claimed(http)))

    servers = [item["server"] for item in observations(http)["items"]]

    assert [(server["fence"], server["lapsed"], server["retry"]) for server in servers] == [
        (1, 0, False),
        (4, 2, True),
    ]


@pytest.mark.parametrize("seconds", [-300, 600])
def test_a_clock_that_moves_refuses_no_submit_that_holds_its_task(store: Any, seconds: int) -> None:
    http = store.http()
    enqueue(http)
    task = claimed(http, lease_seconds=300)

    store.clock.move(seconds)

    assert done(submit(http, task))["result"] == "accepted"


@pytest.mark.parametrize(("asked", "kept"), [(5, 300), (299, 300), (301, 301), (86400, 86400)])
def test_a_heartbeat_ends_a_lease_later_or_as_it_was_never_earlier(store: Any, asked: int, kept: int) -> None:
    http = store.http()
    enqueue(http, max_attempts=1)
    task = claimed(http, lease_seconds=300)

    beat = done(
        http.post(f"/v1/tasks/{task['task_id']}/heartbeat", json={"fence": 1, "lease_seconds": asked})
    )
    store.clock.move(kept - 2)

    assert beat["lease_expires_at"] >= task["lease_expires_at"]
    assert done(submit(http, task))["result"] == "accepted"


def test_a_clock_set_back_takes_no_state_back_and_the_stores_time_goes_on(store: Any) -> None:
    http = store.http()
    over = enqueue(http, max_attempts=1)
    lease = claimed(http, lease_seconds=10)
    key = store.key(expires_at=rfc3339(store.clock() + 10_000))
    store.clock.move(11)
    assert state(http, over) == "failed"

    store.clock.move(-300)

    assert state(http, over) == "failed"
    assert submit(http, lease).status_code == 409
    assert store.http(key["secret"]).get("/v1/whoami").status_code == 401
    late = enqueue(http)
    assert (
        done(http.get(f"/v1/tasks/{late['task_id']}"))["created_at"]
        > done(http.get(f"/v1/tasks/{over['task_id']}"))["created_at"]
    )
    renewed = claimed(http, lease_seconds=1)
    assert until(lambda: claim(http) is not None, pause=0.1)  # its lease ends, though the clock is behind
    assert submit(http, renewed).status_code == 409


def test_cancelling_is_for_the_owner_or_an_admin(store: Any) -> None:
    owner, other = store.http_for(), store.http_for()
    task = enqueue(owner)
    unknown = other.post("/v1/tasks/task-9-x/cancel")

    refused = other.post(f"/v1/tasks/{task['task_id']}/cancel")
    assert refused.status_code == 404
    assert refused.content == unknown.content
    assert done(owner.post(f"/v1/tasks/{task['task_id']}/cancel", json={}))["state"] == "cancelled"
    assert done(owner.post(f"/v1/tasks/{task['task_id']}/cancel"))["state"] == "cancelled"
    assert claim(owner) is None
    assert done(store.http().post(f"/v1/tasks/{enqueue(owner)['task_id']}/cancel"))["state"] == "cancelled"


def test_a_cancelled_task_is_its_holders_no_more(store: Any) -> None:
    http = store.http()
    enqueue(http)
    task = claimed(http)
    http.post(f"/v1/tasks/{task['task_id']}/cancel")

    assert submit(http, task).status_code == 409
    assert (
        http.post(f"/v1/tasks/{task['task_id']}/heartbeat", json={"fence": 1, "lease_seconds": 5}).status_code
        == 409
    )


def test_a_task_that_is_over_cannot_be_cancelled(store: Any) -> None:
    http = store.http()
    enqueue(http)
    task = claimed(http)
    done(submit(http, task))

    assert http.post(f"/v1/tasks/{task['task_id']}/cancel").status_code == 409


def test_many_workers_never_share_a_claim(store: Any) -> None:
    admin = store.http()
    ids = {enqueue(admin)["task_id"] for _ in range(40)}
    taken: list[str] = []

    def work() -> None:
        http = store.http()
        while (task := claim(http)) is not None:
            taken.append(task["task_id"])
            done(submit(http, task))

    workers = [threading.Thread(target=work) for _ in range(6)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()

    assert sorted(taken) == sorted(ids)
    assert len(observations(admin)["items"]) == 40
