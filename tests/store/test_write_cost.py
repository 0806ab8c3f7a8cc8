"""Rows written per operation, against the promised bounds (contract, section 3, "Write cost")."""

import string
from collections.abc import Callable
from typing import Any

import httpx
import pytest

from tessera.store.operation_costs import LEARNING, REPORT, measured
from tessera.store.write_cost import WriteCost, measure

Cost = Callable[[Callable[[], httpx.Response]], WriteCost]


@pytest.fixture
def cost(store: Any) -> Cost:
    def measured(act: Callable[[], httpx.Response]) -> WriteCost:
        def checked() -> None:
            answer = act()
            assert answer.is_success, answer.text

        return measure(store.running.store.database, checked)

    return measured


def _enqueue(http: httpx.Client, name: str, **more: Any) -> httpx.Response:
    body = {"queue": "work", "kind": "verb.pack", "brief": {"goal": "pack"}, "idempotency_key": name, **more}
    return http.post("/v1/tasks", json=body)


def _claimed(http: httpx.Client) -> dict[str, Any]:
    claimed: dict[str, Any] = http.post("/v1/tasks/claim", json={"queue": "work", "lease_seconds": 60}).json()
    return claimed


def _submit(http: httpx.Client, task: dict[str, Any], **more: Any) -> httpx.Response:
    body = {"fence": task["fence"], "ok": True, "output": {"size": 1}, "idempotency_key": "s", **more}
    return http.post(f"/v1/tasks/{task['task_id']}/submit", json=body)


def test_an_enqueue_writes_at_most_six_entries(store: Any, cost: Cost) -> None:
    http = store.http()

    spent = cost(lambda: _enqueue(http, "a", private=True))

    assert spent.total <= 6, spent.by_tree


def test_a_claim_writes_at_most_five_entries(store: Any, cost: Cost) -> None:
    http = store.http()
    _enqueue(http, "a")

    spent = cost(lambda: http.post("/v1/tasks/claim", json={"queue": "work", "lease_seconds": 60}))

    assert spent.total <= 5, spent.by_tree


def test_a_second_claim_after_a_lapse_writes_at_most_five_entries(store: Any, cost: Cost) -> None:
    http = store.http()
    _enqueue(http, "a")
    _claimed(http)
    store.clock.move(61)

    spent = cost(lambda: http.post("/v1/tasks/claim", json={"queue": "work", "lease_seconds": 60}))

    assert spent.total <= 5, spent.by_tree


def test_a_submit_without_a_report_writes_at_most_twelve_entries(store: Any, cost: Cost) -> None:
    http = store.http()
    _enqueue(http, "a")
    task = _claimed(http)

    spent = cost(lambda: _submit(http, task))

    assert spent.total <= 12, spent.by_tree


def test_a_submit_with_a_report_writes_at_most_twenty_entries(store: Any, cost: Cost) -> None:
    http = store.http()
    _enqueue(http, "a")
    task = _claimed(http)

    spent = cost(lambda: _submit(http, task, execution_report=REPORT))

    assert spent.total <= 20, spent.by_tree
    assert spent.by_tree["table simhash_bands"] == 8


def test_a_full_learning_block_and_the_reads_add_no_entries(store: Any, cost: Cost) -> None:
    http = store.http()
    for name in ("a", "b"):
        _enqueue(http, name)
    first, second = _claimed(http), _claimed(http)

    plain = cost(lambda: _submit(http, first, execution_report=REPORT))
    full = cost(
        lambda: _submit(http, second, execution_report={**REPORT, "learning": LEARNING}, idempotency_key="t")
    )
    read = cost(lambda: http.get("/v1/executions", params={"queue": "work"}))

    assert full.by_tree == plain.by_tree
    assert read.total == 0


def test_a_draw_writes_one_entry_and_none_when_it_is_asked_for_again(store: Any, cost: Cost) -> None:
    http = store.http()
    _enqueue(http, "a")
    task = _claimed(http)
    arms = [{"arm": "a", "weight": 0.25}, {"arm": "b", "weight": 0.75}]
    body = {"fence": 1, "dimension": "model", "arms": arms}

    first = cost(lambda: http.post(f"/v1/tasks/{task['task_id']}/draw", json=body))
    again = cost(lambda: http.post(f"/v1/tasks/{task['task_id']}/draw", json=body))
    submit = cost(lambda: _submit(http, task, execution_report=REPORT))

    assert first.by_tree == {"table draws": 1}
    assert again.total == 0
    assert submit.total <= 20, submit.by_tree


@pytest.mark.parametrize("version", [0, 1])
def test_a_segment_and_its_head_cost_the_same_for_1_and_128_entries(
    store: Any, cost: Cost, version: int
) -> None:
    http = store.http()

    def batch(name: str, entries: int, at: int) -> httpx.Response:
        writes = [
            {
                "store": "learn.outputs",
                "key": f"memory:minhash-lsh:v1:{name}",
                "expected_version": expected,
                "category": "noun.eval_run",
                "tags": ["memory:minhash-lsh:v1", "queue:work"],
                "body": {"entries": [{"run_id": string.ascii_letters * 8}] * entries},
                "visibility": "private",
            }
            for name, expected in ((f"{name}:seg:{at:06d}", 0), (f"{name}:head", at))
        ]
        return http.post("/v1/records", json={"idempotency_key": f"{name}{at}", "writes": writes})

    for at in range(version):
        assert batch("one", 1, at).is_success
        assert batch("many", 128, at).is_success
    one = cost(lambda: batch("one", 1, version))
    many = cost(lambda: batch("many", 128, version))

    assert one.total <= 10, one.by_tree
    assert many.by_tree == one.by_tree


def test_the_commands_table_keeps_every_promise() -> None:
    costs = {cost.operation: cost for cost in measured()}

    assert len(costs) == 10
    for cost in costs.values():
        assert cost.entries <= cost.promised, cost
    plain, full = costs["submit with a report"], costs["submit with a full learning block"]
    assert (plain.entries, plain.tables) == (full.entries, full.tables)
    assert costs["segment of 1 and its head"].entries == costs["segment of 128 and its head"].entries
