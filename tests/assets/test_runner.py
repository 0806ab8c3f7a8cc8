"""Learner runs as verbs, against a real store: one task an identity, and three ways to end."""

import threading
import time
from pathlib import Path
from typing import Any

import pytest

from assets import on_demand, run_verbs, runs, specs
from assets.evidence import from_api
from assets.leases import Lease, LeaseLost
from assets.publish import BudgetCrossed, CheckFailed, UnreadableState, publish
from assets.runner import Ended, RunFailed, perform
from assets.runs import Prepared, RunError
from learners.contract import Evidence
from schemas.specs import RUNS_QUEUE
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import Conflict, NotFound
from tests.assets.learning import Dying, found_by_entry_point, install
from tests.assets.odd_learner import ODD, SHADE
from tests.assets.working import work

AT = ("learn.outputs", f"{ODD}:q")


@pytest.fixture
def ready(admin: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Client:
    """Specs installed, the odd learner among them and configured, three runs in queue ``q``."""
    found_by_entry_point(tmp_path, monkeypatch)
    install(admin, tmp_path / "pack", ODD, SHADE)
    specs.configure(admin, ODD, "q")
    work(admin, "q", "aaf")
    return admin


def prepared(client: Client, queue: str = "q") -> Prepared:
    """The run of the queue's first entry."""
    entries = specs.entries_of(client, queue)
    return runs.prepare(client, entries[0], entries)


def read(client: Client) -> Any:
    return runs.from_api(client)


def once(client: Client) -> Ended:
    """Enqueue what is due and do it."""
    (asked,) = on_demand.enqueue(client, ODD, "q")
    assert asked.task is not None
    ended = on_demand.run_one(client)
    assert ended is not None
    return ended


def last_run(client: Client) -> dict[str, Any]:
    """The newest execution of a learner run, whole."""
    newest = list(client.iter_observations(RUNS_QUEUE))[-1]
    return client.get_execution(newest["run_id"])


def test_two_triggers_of_one_state_are_one_task_and_one_run(ready: Client) -> None:
    first, second = on_demand.enqueue(ready, ODD, "q"), on_demand.enqueue(ready, ODD, "q")

    ended, nothing = on_demand.run_one(ready), on_demand.run_one(ready)

    assert first[0].document() == second[0].document()
    assert (ended.status if ended else None, nothing) == ("published", None)
    assert ready.get_record(*AT)["version"] == 1
    assert len(list(ready.iter_observations(RUNS_QUEUE))) == 1


def test_eight_triggers_at_once_are_one_task(ready: Client, store: Any) -> None:
    found: list[str] = []

    def trigger() -> None:
        with Client(store.url, store.admin_key) as client:
            found.append(run_verbs.enqueue(client, prepared(client)).task_id)

    threads = [threading.Thread(target=trigger) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(found) == 8
    assert len(set(found)) == 1


def test_the_identity_is_the_digest_of_spec_scope_options_and_state(ready: Client) -> None:
    one = prepared(ready)
    brief = one.brief()

    task = run_verbs.enqueue(ready, one)

    named = {name: brief[name] for name in ("spec", "scope", "options", "state")}
    assert task.identity == digest(named)
    assert brief["state"] == {"store": AT[0], "key": AT[1], "version": 0}
    assert ready.get_task(task.task_id)["private"] is True


def test_a_run_submits_its_own_report(ready: Client) -> None:
    once(ready)

    run = last_run(ready)
    report = run["report"]
    record = ready.get_record(*AT)
    assert run["output"] == {
        "status": "published",
        "records": [{name: record[name] for name in ("store", "key", "version", "sha256")}],
    }
    assert (report["model"], report["model_reported"]) == (None, True)
    assert report["usage"] == {"input_tokens": 0, "output_tokens": 0, "total_tokens": 0}
    assert report["learning"]["cost"] is None
    assert report["learning"]["unknowns"][0]["field"] == "cost"
    assert report["learning"]["path"] == {"method": ODD}
    assert report["learning"]["outcome"] == "succeeded"
    assert run["brief_full"]["reporting"]["optional"] is True


def test_nothing_new_enqueues_nothing_and_a_new_run_does(ready: Client) -> None:
    once(ready)
    (still,) = on_demand.enqueue(ready, ODD, "q")

    work(ready, "q", "a")
    (again,) = on_demand.enqueue(ready, ODD, "q")

    assert still.task is None
    assert again.reason == "new observations"
    assert again.prepared.brief()["state"]["version"] == 1


def test_a_scope_without_a_run_has_nothing_to_do(ready: Client) -> None:
    specs.configure(ready, ODD, "empty")

    (asked,) = on_demand.enqueue(ready, ODD, "empty")

    assert (asked.reason, asked.task) == (None, None)


def test_other_options_and_another_spec_are_due_although_nothing_is_new(
    ready: Client, tmp_path: Path
) -> None:
    once(ready)
    specs.configure(ready, ODD, "q", options={"note": 1})
    other_options = once(ready).prepared.state_version
    install(ready, tmp_path / "pack2", ODD, runtime_seconds=60)

    (asked,) = on_demand.enqueue(ready, ODD, "q")

    assert other_options == 1
    assert asked.reason == "another spec"


def test_another_surface_is_due_restarts_and_leaves_private_runs_out(ready: Client) -> None:
    work(ready, "q", "a", private=True)
    once(ready)
    specs.configure(ready, ODD, "q", surface=True)

    (asked,) = on_demand.enqueue(ready, ODD, "q")
    ended = on_demand.run_one(ready)

    assert asked.reason == "another surface"
    assert ended is not None
    assert ended.prepared.run.restart
    record = ready.get_record(*AT)
    assert (record["version"], record["visibility"], record["body"]["count"]) == (2, "surface_only", 3)
    assert on_demand.enqueue(ready, ODD, "q")[0].task is None


def test_a_stale_run_ends_superseded_with_nothing_written(ready: Client, store: Any) -> None:
    task = run_verbs.enqueue(ready, prepared(ready))
    other = prepared(ready)
    publish(ready, other.work(read(ready)(other)))

    claimed = run_verbs.claim(ready, task.task_id)
    assert claimed is not None
    ended = perform(ready, claimed, read(ready))

    assert ended.status == "superseded"
    assert ready.get_record(*AT)["version"] == 1
    assert ready.get_task(task.task_id)["state"] == "succeeded"
    assert last_run(ready)["report"]["learning"]["outcome"] == "no_change"


def test_a_run_that_is_overtaken_while_it_learns_ends_superseded(ready: Client) -> None:
    task = run_verbs.enqueue(ready, prepared(ready))
    claimed = run_verbs.claim(ready, task.task_id)
    assert claimed is not None

    def overtaken(one: Prepared) -> Evidence:
        seen = read(ready)(one)
        work(ready, "q", "a")
        other = prepared(ready)
        publish(ready, other.work(read(ready)(other)))
        return seen

    ended = perform(ready, claimed, overtaken)

    assert ended.status == "superseded"
    assert ready.get_record(*AT)["body"]["count"] == 4


def test_a_run_stopped_between_publish_and_submit_is_recognized_by_its_next_attempt(
    ready: Client, store: Any
) -> None:
    task = run_verbs.enqueue(ready, prepared(ready))
    claimed = run_verbs.claim(ready, task.task_id)
    assert claimed is not None
    with Dying(store.url, store.admin_key) as dying, pytest.raises(KeyboardInterrupt):
        perform(dying, claimed, read(dying))
    store.clock.move(30)  # the holder's lease is over

    ended = on_demand.run_one(ready)

    assert ended is not None
    assert (ended.task_id, ended.status) == (task.task_id, "superseded")
    assert ready.get_record(*AT)["version"] == 1
    assert ready.get_task(task.task_id)["state"] == "succeeded"


def test_a_state_that_exists_but_cannot_be_read_fails_naming_record_and_remedy(
    ready: Client, store: Any
) -> None:
    once(ready)
    other = store.client(["read", "work", "write"], ["*"])
    on_demand.enqueue(other, ODD, "q")

    with pytest.raises(UnreadableState, match=r"learn\.outputs/odd:counting:v1:q exists.*the key that wrote"):
        on_demand.run_one(other)

    run = last_run(other)
    assert run["server"]["result"] == "failed"
    assert "give the config entry a surface this key may read" in run["failure"]
    assert ready.get_record(*AT)["version"] == 1


def test_a_failed_check_submits_its_name_and_rows_and_publishes_nothing(ready: Client) -> None:
    specs.configure(ready, ODD, "q", options={"wrong_by": 2})
    on_demand.enqueue(ready, ODD, "q")

    with pytest.raises(CheckFailed):
        on_demand.run_one(ready)

    run = last_run(ready)
    assert run["server"]["result"] == "failed"
    assert "count_is_right: q: 5 of 3" in run["failure"]
    assert run["report"]["learning"]["outcome"] == "failed"
    with pytest.raises(NotFound):
        ready.get_record(*AT)


def test_a_learner_that_breaks_fails_its_run_with_the_error(ready: Client) -> None:
    specs.configure(ready, ODD, "q", options={"breaks": True})
    on_demand.enqueue(ready, ODD, "q")

    with pytest.raises(RunFailed, match="odd:counting:v1 failed: ZeroDivisionError"):
        on_demand.run_one(ready)

    assert last_run(ready)["failure"] == "ZeroDivisionError: division by zero"


@pytest.mark.parametrize(
    ("budget", "options", "named"),
    [
        ({"observations": 2}, {}, "budget of 2 observations: 3"),
        ({"output_bytes": 10}, {}, "budget of 10 output_bytes"),
        ({"runtime_seconds": 0.05}, {"seconds": 0.2}, r"budget of 0.05 runtime_seconds"),
        ({}, {"calls": 1}, "budget of 0 model_calls: 1"),
    ],
)
def test_a_run_that_crosses_a_budget_publishes_nothing_and_fails_naming_it(
    ready: Client, tmp_path: Path, budget: dict[str, Any], options: dict[str, Any], named: str
) -> None:
    install(ready, tmp_path / "pack2", ODD, **budget)
    specs.configure(ready, ODD, "q", options=options)
    on_demand.enqueue(ready, ODD, "q")

    with pytest.raises(BudgetCrossed, match=named):
        on_demand.run_one(ready)

    assert "nothing was published" in last_run(ready)["failure"]
    with pytest.raises(NotFound):
        ready.get_record(*AT)


def test_a_run_that_pins_another_digest_than_installed_is_refused(ready: Client, tmp_path: Path) -> None:
    on_demand.enqueue(ready, ODD, "q")
    install(ready, tmp_path / "pack2", ODD, runtime_seconds=60)

    with pytest.raises(RunError, match=r"pins spec odd:counting:v1 version 1 .* version 2 .* is installed"):
        on_demand.run_one(ready)

    (asked,) = on_demand.enqueue(ready, ODD, "q")
    assert asked.prepared.brief()["spec"]["version"] == 2


def test_a_proposed_spec_never_runs(ready: Client) -> None:
    name = "shim:injection-uplift:v1"
    pinned = ready.get_record("learn.specs", name)
    spec = {key: pinned[key] for key in ("store", "key", "version", "sha256")}
    state = {"store": "learn.outputs", "key": f"{name}:q", "version": 0}
    brief = {**prepared(ready).brief(), "spec": spec, "state": state}
    entry = {"spec": name, "mode": "active", "queue": "q", "options": {}}
    held = ready.get_record("learn.specs", "config")
    body = {**held["body"], "entries": [entry]}
    ready.write_records(
        [
            {
                **{field: held[field] for field in ("store", "key", "category", "tags", "visibility")},
                "expected_version": held["version"],
                "body": body,
            }
        ]
    )
    ready.enqueue(RUNS_QUEUE, "verb.benchmark_harness", brief, private=True)

    with pytest.raises(specs.SpecError, match="is proposed: it has no code and never runs"):
        on_demand.run_one(ready)
    with pytest.raises(specs.SpecError, match="is proposed"):
        on_demand.enqueue(ready, name, "q")


def test_what_is_no_learner_run_is_refused_with_its_paths(ready: Client) -> None:
    ready.enqueue(RUNS_QUEUE, "verb.ingest", {"schema": "tessera.learner-run.v1"}, private=True)

    with pytest.raises(RunError, match=r"brief\.spec is required"):
        on_demand.run_one(ready)

    assert last_run(ready)["report"]["learning"]["path"] == {"method": "not a learner run"}


def test_a_run_that_the_config_no_longer_asks_for_is_refused(ready: Client) -> None:
    on_demand.enqueue(ready, ODD, "q")
    specs.configure(ready, ODD, "q", mode="off")

    with pytest.raises(RunError, match=r"no config entry runs odd:counting:v1 on queue q"):
        on_demand.run_one(ready)


def test_a_brief_that_names_anothers_state_is_refused(ready: Client) -> None:
    brief = prepared(ready).brief()
    state = {"store": "learn.outputs", "key": "somebody:elses:v1:q", "version": 0}
    ready.enqueue(RUNS_QUEUE, "verb.ingest", {**brief, "state": state}, private=True)

    with pytest.raises(RunError, match="names the state somebody:elses:v1:q"):
        on_demand.run_one(ready)


def test_a_scope_whose_run_failed_three_times_goes_on_with_the_next_task(ready: Client) -> None:
    specs.configure(ready, ODD, "q", options={"wrong_by": 1})
    (first,) = on_demand.enqueue(ready, ODD, "q")
    assert first.task is not None
    for _ in range(3):
        (again,) = on_demand.enqueue(ready, ODD, "q")
        assert again.task is not None
        assert again.task.task_id == first.task.task_id
        with pytest.raises(CheckFailed):
            on_demand.run_one(ready)

    (next_one,) = on_demand.enqueue(ready, ODD, "q")

    assert ready.get_task(first.task.task_id)["state"] == "failed"
    assert next_one.task is not None
    assert next_one.task.task_id != first.task.task_id
    assert (next_one.task.identity, next_one.task.spent) == (first.task.identity, 1)


def test_a_cancelled_run_gives_way_to_the_next(ready: Client) -> None:
    (first,) = on_demand.enqueue(ready, ODD, "q")
    assert first.task is not None
    ready.cancel(first.task.task_id)

    (second,) = on_demand.enqueue(ready, ODD, "q")

    assert second.task is not None
    assert (second.task.spent, second.task.state) == (1, "queued")


def test_a_run_is_offered_to_the_key_that_enqueued_it_alone(ready: Client, store: Any) -> None:
    on_demand.enqueue(ready, ODD, "q")
    stranger = store.client(["read", "work", "write"], ["*"])

    assert on_demand.run_one(stranger) is None


def test_a_run_reads_only_what_its_key_may(ready: Client, store: Any) -> None:
    work(ready, "q", "a", kind="verb.secret")
    narrow = store.client(["read", "work", "write"], ["*"], kinds=["verb.a", "verb.ingest"])
    on_demand.enqueue(narrow, ODD, "q")

    on_demand.run_one(narrow)

    assert narrow.get_record(*AT)["body"]["count"] == 3


def test_a_lease_is_kept_while_the_work_takes_longer(ready: Client) -> None:
    task = run_verbs.enqueue(ready, prepared(ready))
    claimed = ready.claim(RUNS_QUEUE, task_id=task.task_id, lease_seconds=1)
    assert claimed is not None

    with Lease(ready, claimed, seconds=1) as lease:
        time.sleep(2.2)
        taken = ready.claim(RUNS_QUEUE, task_id=task.task_id)
        lease.check()

    assert taken is None


def test_a_lease_that_was_lost_stops_its_holder_before_anything_is_written(ready: Client, store: Any) -> None:
    task = run_verbs.enqueue(ready, prepared(ready))
    claimed = ready.claim(RUNS_QUEUE, task_id=task.task_id, lease_seconds=1)
    assert claimed is not None
    with Lease(ready, claimed, seconds=1) as lease:
        store.clock.move(5)
        assert ready.claim(RUNS_QUEUE, task_id=task.task_id) is not None
        time.sleep(0.6)

        with pytest.raises(LeaseLost, match="fence 1 has moved"):
            lease.check()


def test_a_holder_past_its_time_lets_the_lease_lapse(ready: Client) -> None:
    task = run_verbs.enqueue(ready, prepared(ready))
    claimed = ready.claim(RUNS_QUEUE, task_id=task.task_id, lease_seconds=1)
    assert claimed is not None

    with Lease(ready, claimed, seconds=1) as lease:
        lease.until = time.monotonic()
        time.sleep(1.5)
        taken = ready.claim(RUNS_QUEUE, task_id=task.task_id)

    assert taken is not None


def test_a_run_leased_to_another_is_waited_for_or_named(ready: Client, store: Any) -> None:
    task = run_verbs.enqueue(ready, prepared(ready))
    assert ready.claim(RUNS_QUEUE, task_id=task.task_id, lease_seconds=60) is not None

    with pytest.raises(RunError, match=r"is leased to another worker until 20.*Z: it goes on"):
        run_verbs.claim(ready, task.task_id, patience=0)
    store.clock.move(61)
    taken = run_verbs.claim(ready, task.task_id, patience=0)

    assert taken is not None
    assert taken["fence"] == 2


def test_a_run_that_another_ends_while_it_is_waited_for_is_over(ready: Client) -> None:
    task = run_verbs.enqueue(ready, prepared(ready))
    held = ready.claim(RUNS_QUEUE, task_id=task.task_id, lease_seconds=60)
    assert held is not None
    threading.Timer(0.3, lambda: ready.submit(task.task_id, held["fence"], True)).start()

    assert run_verbs.claim(ready, task.task_id, patience=30) is None


def test_a_shadow_runs_beside_the_active_strategy_and_off_does_not(ready: Client) -> None:
    specs.configure(ready, SHADE, "q", mode="shadow")
    with pytest.raises(specs.ConfigError, match="is a second active spec of odd"):
        specs.configure(ready, SHADE, "q", mode="active")
    on_demand.enqueue(ready, SHADE, "q")
    once(ready)

    ended = on_demand.run_one(ready)

    modes = {entry["spec"]: entry["mode"] for entry in specs.entries_of(ready, "q")}
    assert modes == {ODD: "active", SHADE: "shadow"}
    assert ended is not None
    assert ready.get_record("learn.outputs", f"{SHADE}:q")["body"]["count"] == 3
    specs.configure(ready, SHADE, "q", mode="off")
    with pytest.raises(RunError, match="no config entry runs odd:shade:v1"):
        on_demand.enqueue(ready, SHADE, "q")


def test_a_task_of_the_same_key_by_another_software_is_passed_over(ready: Client) -> None:
    one = prepared(ready)
    brief = {**one.brief(), "reporting": {"optional": True}}
    mine = runs.identity(brief)
    ready.enqueue(RUNS_QUEUE, "verb.ingest", brief, private=True, idempotency_key=f"learner-run:{mine}:0")

    assert run_verbs.enqueue(ready, one).spent == 1
    with pytest.raises(Conflict):
        ready.enqueue(RUNS_QUEUE, "verb.x", brief, idempotency_key=f"learner-run:{mine}:0")


def test_evidence_of_a_run_that_goes_on_is_capped_by_the_specs_budget(ready: Client) -> None:
    from dataclasses import replace

    from learners.contract import Reading

    one = prepared(ready)
    one = replace(one, spec={**one.spec, "budget": {**one.spec["budget"], "observations": 2}})
    going_on = type("GoingOn", (type(one.learner),), {"reading": lambda self, run: Reading(after="0")})()

    seen = from_api(ready, one.run.scope, replace(one, learner=going_on).reading())

    assert seen.frame.height == 2
