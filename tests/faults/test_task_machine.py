"""Random lives of tasks, step by step against a model: lease, fence, retry, cancel, late submit, draw."""

from typing import Any, ClassVar

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    initialize,
    multiple,
    precondition,
    rule,
    run_state_machine_as_test,
)

from tests.faults.hand_clock import HandClock
from tests.faults.server import Caller, Server, assert_problem
from tests.faults.task_model import Task, Tasks

pytestmark = pytest.mark.both_databases

KEYS = st.sampled_from(["ann", "ben", "admin"])
HOLDER_OR_ANOTHER = st.sampled_from([None, None, "ann", "ben", "admin"])
SECONDS = st.sampled_from([1, 5, 60])


class World:
    """A server, its clock, and three keys; each machine takes a queue of its own."""

    def __init__(self, server: Server, clock: HandClock) -> None:
        self.clock = clock
        self.callers: dict[str, Caller] = {"admin": server.caller()}
        self.key_ids: dict[str, str] = {}
        for name in ("ann", "ben"):
            self.callers[name] = server.caller(server.key(name=name))
        for name, caller in self.callers.items():
            self.key_ids[name] = caller.get("/v1/whoami").json()["id"]
        paths = self.callers["admin"].get("/openapi.json").json()["paths"]
        self.draws = any(path.endswith("/draw") for path in paths)
        self.queues = 0

    def queue(self) -> str:
        """A queue that nobody used."""
        self.queues += 1
        return f"machine.{self.queues}"


class TaskMachine(RuleBasedStateMachine):
    """Each rule does one call on both, and compares."""

    world: ClassVar[World]
    tasks = Bundle("tasks")
    claims = Bundle("claims")

    def __init__(self) -> None:
        super().__init__()
        self.queue = self.world.queue()
        self.model = Tasks()
        self.ids: list[str] = []
        self.now = 0
        self.receipts: list[tuple[str, str, dict[str, Any], Any]] = []

    @initialize(
        target=tasks,
        lives=st.lists(st.tuples(KEYS, st.booleans(), st.integers(1, 3)), min_size=2, max_size=3),
    )
    def have_some(self, lives: list[tuple[str, bool, int]]) -> Any:
        return multiple(*(self.enqueue(owner, private, 0, most) for owner, private, most in lives))

    def _post(self, key: str, path: str, body: dict[str, Any]) -> Any:
        return self.world.callers[key].post(path, body)

    @rule(
        target=tasks,
        owner=KEYS,
        private=st.booleans(),
        priority=st.sampled_from([-1, 0, 1]),
        attempts=st.integers(1, 3),
    )
    def enqueue_another(self, owner: str, private: bool, priority: int, attempts: int) -> Task:
        return self.enqueue(owner, private, priority, attempts)

    def enqueue(self, owner: str, private: bool, priority: int, attempts: int) -> Task:
        answer = self._post(
            owner,
            "/v1/tasks",
            {
                "queue": self.queue,
                "kind": "verb.test",
                "brief": {"n": len(self.ids)},
                "private": private,
                "priority": priority,
                "max_attempts": attempts,
            },
        )
        assert answer.status_code == 201, answer.text
        self.ids.append(answer.json()["task_id"])
        return self.model.enqueue(owner, private, priority, attempts)

    @rule(target=claims, key=KEYS, seconds=SECONDS)
    def claim_next(self, key: str, seconds: int) -> Any:
        return self._claim(key, seconds, None)

    @rule(target=claims, key=KEYS, seconds=SECONDS, task=tasks)
    def claim_by_id(self, key: str, seconds: int, task: Task) -> Any:
        return self._claim(key, seconds, task)

    def _claim(self, key: str, seconds: int, named: Task | None) -> Any:
        body: dict[str, Any] = {"queue": self.queue, "lease_seconds": seconds}
        if named is not None:
            body["task_id"] = self.ids[named.number]
        answer = self._post(key, "/v1/tasks/claim", body)
        due = self.model.claim(key, seconds, self.now, named)
        if due is None:
            assert answer.status_code == 204, answer.text
            return multiple()
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}, due {due}"
        got = answer.json()
        assert (got["task_id"], got["fence"]) == (self.ids[due.number], len(due.claims))
        assert (got["state"], got["brief"]) == ("claimed", {"n": due.number})
        return (due, key, len(due.claims))

    @rule(claim=claims, key=HOLDER_OR_ANOTHER, seconds=SECONDS)
    def heartbeat(self, claim: tuple[Task, str, int], key: str | None, seconds: int) -> None:
        task, holder, fence = claim
        key = key or holder
        answer = self._post(
            key, f"/v1/tasks/{self.ids[task.number]}/heartbeat", {"fence": fence, "lease_seconds": seconds}
        )
        self._same(answer, self.model.heartbeat(task, key, fence, seconds, self.now))

    @rule(claim=claims, key=HOLDER_OR_ANOTHER, ok=st.booleans(), named=st.booleans())
    def submit(self, claim: tuple[Task, str, int], key: str | None, ok: bool, named: bool) -> None:
        task, holder, fence = claim
        key = key or holder
        path = f"/v1/tasks/{self.ids[task.number]}/submit"
        body: dict[str, Any] = {"fence": fence, "ok": ok, "output": [fence, ok]}
        if named:
            body["idempotency_key"] = f"{self.queue}.{len(self.receipts)}"
        answer = self._post(key, path, body)
        due = self.model.submit(task, key, fence, ok, self.now)
        self._same(answer, due)
        if due == 200:
            assert answer.json()["state_after"] == self.model.runs[-1].state_after
            if named:
                self.receipts.append((key, path, body, answer.json()))

    @precondition(lambda self: self.receipts)
    @rule(data=st.data())
    def submit_again(self, data: st.DataObject) -> None:
        key, path, body, receipt = data.draw(st.sampled_from(self.receipts))
        again = self._post(key, path, body)
        assert again.status_code in (200, 201)
        assert again.json() == receipt
        assert_problem(self._post(key, path, {**body, "output": "another"}), 409)

    @rule(task=tasks, key=KEYS)
    def cancel(self, task: Task, key: str) -> None:
        answer = self._post(key, f"/v1/tasks/{self.ids[task.number]}/cancel", {})
        self._same(answer, self.model.cancel(task, key, self.now))

    @precondition(lambda self: self.world.draws)
    @rule(claim=claims, key=HOLDER_OR_ANOTHER, first=st.sampled_from([0.0, 0.5, 1.0]))
    def draw(self, claim: tuple[Task, str, int], key: str | None, first: float) -> None:
        task, holder, fence = claim
        key = key or holder
        arms = [{"arm": "a", "weight": first}, {"arm": "b", "weight": 1 - first}]
        answer = self._post(
            key,
            f"/v1/tasks/{self.ids[task.number]}/draw",
            {"fence": fence, "dimension": "model", "arms": arms},
        )
        due = self.model.holds(task, key, fence, self.now)
        standing = None
        if due == 200:
            due, standing = self.model.drawn(task, fence, "model", arms)
        self._same(answer, due)
        if due == 200:
            got = {name: answer.json()[name] for name in ("arm", "propensity")}
            if standing is None:
                assert got["propensity"] == {"a": first, "b": 1 - first}[got["arm"]] > 0
                task.draws[task.submits, "model"] = (fence, arms, got)
            else:
                assert got == standing

    @rule(seconds=st.sampled_from([0.5, 1.0, 5.0, 60.0]))
    def wait(self, seconds: float) -> None:
        self.world.clock.move(seconds)
        self.now += int(seconds * 1000)

    @rule(target=claims, task=tasks, key=KEYS, named=st.booleans())
    def take_over(self, task: Task, key: str, named: bool) -> Any:
        """Let a lease run out to the millisecond, and claim what it held, or what comes first."""
        if task.leased and task.expires > self.now:
            self.wait((task.expires - self.now) / 1000)
        return self._claim(key, 60, task if named else None)

    @rule(task=tasks, key=KEYS)
    def look(self, task: Task, key: str) -> None:
        answer = self.world.callers[key].get(f"/v1/tasks/{self.ids[task.number]}")
        if not self.model.visible(task, key):
            assert_problem(answer, 404)
            return
        got = answer.json()
        assert (got["state"], got["fence"]) == (task.state(self.now), len(task.claims))

    def teardown(self) -> None:
        """In the end the runs are those of the model."""
        for key in ("admin", "ann"):
            items = self.world.callers[key].walk(self.queue)
            due = [r for r in self.model.runs if self.model.visible(self.model.tasks[r.task], key)]
            assert [self._run(item["server"]) for item in items] == [
                (
                    self.ids[r.task],
                    r.fence,
                    r.lapsed,
                    r.fence > 1,
                    self.world.key_ids[r.key],
                    r.result,
                    r.state_after,
                )
                for r in due
            ]

    @staticmethod
    def _run(server: dict[str, Any]) -> tuple[Any, ...]:
        names = ("task_id", "fence", "lapsed", "retry", "key_id", "result", "state_after")
        return tuple(server[name] for name in names)

    @staticmethod
    def _same(answer: Any, due: int) -> None:
        if due == 200:
            assert answer.status_code in (200, 201), f"due 200: {answer.status_code} {answer.text}"
        else:
            assert_problem(answer, due)


def test_tasks_live_as_the_model_says(server: Server, clock: HandClock) -> None:
    TaskMachine.world = World(server, clock)
    with clock.stopped():
        run_state_machine_as_test(
            TaskMachine,
            settings=settings(
                max_examples=60,
                stateful_step_count=40,
                deadline=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
