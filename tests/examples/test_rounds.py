"""Which round a queue is in, told from what a real store holds."""

from typing import Any

import pytest

from examples import rounds
from examples.worker import QUEUE
from tessera.advice import choose

ARMS = ["a", "b"]


@pytest.fixture
def worked(store: Any) -> Any:
    """Does tasks of a kind, the method drawn by the store; accepted or not."""
    client = store.client()

    def work(kind: str, count: int, accepted: bool = True) -> None:
        for _ in range(count):
            client.enqueue(QUEUE, kind, {"title": "t"}, max_attempts=1)
            task = client.claim(QUEUE)
            choose(task, "method", ARMS, client=client)
            client.submit(task["task_id"], task["fence"], accepted)

    return work


def publish(store: Any, spec: str, version: int, body: dict[str, Any]) -> None:
    """Write the version of a learner's noun about the methods of the queue."""
    write = {
        "store": rounds.STORE,
        "key": f"{spec}:{QUEUE}:method",
        "expected_version": version - 1,
        "category": "noun.eval_run",
        "tags": [],
        "body": body,
        "visibility": "shared",
    }
    store.client().write_records([write])


def cited(version: int) -> dict[str, Any]:
    return {"store": rounds.STORE, "key": f"{rounds.WEIGHTS}:{QUEUE}:method", "version": version}


def judged(standing: int | None, candidate: int, verdict: str, rows: int = 250) -> dict[str, Any]:
    stands = None if standing is None else cited(standing)
    return {"standing": stands, "candidate": cited(candidate), "verdict": verdict, "rows": rows}


def test_round_one_goes_on_until_each_kind_has_met_each_method_often_enough(store: Any, worked: Any) -> None:
    history = rounds.History(store.client(), QUEUE)
    at_first = rounds.to_learn(history, ["k"], ARMS, 3)
    worked("k", 20)

    assert at_first == (3 + rounds.SPARE) * len(ARMS)
    assert rounds.to_learn(history, ["k"], ARMS, 3) == 0
    assert rounds.to_learn(history, ["k", "other"], ARMS, 3) > 0


def test_round_one_is_over_once_weights_were_learned(store: Any) -> None:
    publish(store, rounds.WEIGHTS, 1, {"window": {"upto": "0"}})

    assert rounds.to_learn(rounds.History(store.client(), QUEUE), ["k"], ARMS, 20) == 0


def test_round_two_counts_only_runs_after_those_that_the_weights_were_learned_from(
    store: Any, worked: Any
) -> None:
    worked("k", 4)
    history = rounds.History(store.client(), QUEUE)
    before = rounds.to_judge(history, 10)
    publish(store, rounds.WEIGHTS, 1, {"window": {"upto": "3"}})

    assert before == 10
    assert rounds.to_judge(history, 10) == 9


def test_drawn_runs_are_read_on_from_where_reading_stopped(store: Any, worked: Any) -> None:
    history = rounds.History(store.client(), QUEUE)
    worked("k", 2)
    first = len(history.read())
    worked("k", 1, accepted=False)

    assert (first, len(history.read())) == (2, 3)
    assert [run.accepted for run in history.after("0")] == [True, True, False]
    assert [run.cursor for run in history.after(1, 2)] == [2]
    assert {run.policy for run in history.runs} == {None}


def test_the_prediction_is_that_of_the_version_which_moved_what_stands(store: Any) -> None:
    publish(store, rounds.EVALUATION, 1, judged(None, 1, "keep_baseline", rows=0))
    publish(store, rounds.EVALUATION, 2, judged(1, 1, "better"))
    publish(store, rounds.EVALUATION, 3, judged(1, 3, "keep_baseline"))

    found = rounds.prediction(rounds.History(store.client(), QUEUE))

    assert found is not None
    assert (found.record["version"], found.candidate, found.stands) == (2, 1, True)


def test_while_nothing_stands_the_newest_evaluation_with_runs_is_the_prediction(store: Any) -> None:
    publish(store, rounds.EVALUATION, 1, judged(None, 1, "keep_baseline"))
    publish(store, rounds.EVALUATION, 2, judged(None, 2, "keep_baseline", rows=0))

    found = rounds.prediction(rounds.History(store.client(), QUEUE))

    assert found is not None
    assert (found.record["version"], found.stands) == (1, False)


def test_without_an_evaluation_or_without_runs_in_it_nothing_is_predicted(store: Any) -> None:
    history = rounds.History(store.client(), QUEUE)
    before = rounds.prediction(history)
    publish(store, rounds.EVALUATION, 1, judged(None, 1, "keep_baseline", rows=0))

    assert before is None
    assert rounds.prediction(history) is None
