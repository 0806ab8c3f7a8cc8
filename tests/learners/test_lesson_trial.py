"""Does a lesson help? Draws hold two lessons back at times, and one of them turns out to be idle."""

from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
from hypothesis import given
from hypothesis import strategies as st

from learners import evaluation, lessons, path_statistics
from learners.contract import Citation, Evidence, Learner, Outcome, Run, Scope, run_checks

Observe = Callable[..., pl.DataFrame]
Draw = Callable[..., dict[str, Any]]

ENTRIES = tuple(
    {"spec": spec, "mode": "active", "queue": "work", "options": options}
    for spec, options in (
        ("path_statistics:wilson-grouping:v1", {}),
        ("evaluation:off-policy:v1", {"dimension": "lesson"}),
        ("lessons:review-and-learn:v1", {}),
    )
)


def step(learner: Learner, frame: pl.DataFrame, *records: Any, state: Any = None, **options: Any) -> Outcome:
    spec = Citation("learn.specs", "any:spec:v1", 1, "0" * 64)
    run = Run(spec, Scope("work"), options, state=state, records=records, entries=ENTRIES)
    outcome = learner.learn(run, Evidence(frame))
    assert [result for result in run_checks(learner, outcome) if not result.passed] == []
    return outcome


def published(outcome: Outcome, version: int) -> dict[str, Any]:
    """The state noun of an outcome, as the store would answer it."""
    noun = outcome.nouns[-1]
    return {
        "store": noun.store,
        "key": noun.key,
        "version": version,
        "created_at": f"2026-03-{version:02d}T00:00:00.000Z",
        "visibility": "surface_only",
        "body": noun.body,
    }


def test_an_idle_lesson_is_retired_and_one_that_helps_stays(observe: Observe, draw: Draw) -> None:
    # what was seen: both shims did better, but "lucky" only because it met the easy inputs
    seen = observe(
        *({"shim": "helps", "ok": i % 10 < 9} for i in range(100)),
        *({"shim": "lucky", "kind": "verb.other", "ok": i % 10 < 9} for i in range(100)),
        *({"shim": "plain", "ok": i % 10 < 4} for i in range(100)),
        *({"shim": "plain", "kind": "verb.other", "ok": i % 10 < 4} for i in range(100)),
    )
    card = published(step(path_statistics.LEARNER, seen), 1)
    memory = published(step(lessons.LEARNER, seen.clear(), card), 1)
    praised = {
        name: next(
            entry["key"]
            for entry in memory["body"]["entries"]
            if f'"{name}" is accepted more' in entry["text"]
        )
        for name in ("helps", "lucky")
    }

    rng = np.random.default_rng(11)
    offered = {"all": 0.9, praised["helps"]: 0.05, praised["lucky"]: 0.05}
    rate = {praised["helps"]: 0.4}
    held = [str(rng.choice(list(offered), p=list(offered.values()))) for _ in range(3000)]
    trial = observe(
        *(
            {"draws": [draw("lesson", arm, offered)], "ok": bool(rng.random() < rate.get(arm, 0.8))}
            for arm in held
        ),
        first=1000,
    )
    judged = step(evaluation.LEARNER, trial, memory, dimension="lesson")
    verdicts = {noun.body.get("lesson"): noun.body["verdict"] for noun in judged.nouns}
    assert verdicts[praised["helps"]] == "better"
    assert verdicts[praised["lucky"]] == "keep_baseline"

    after = step(lessons.LEARNER, trial.clear(), card, published(judged, 2), state=memory)
    standing = {entry["key"] for entry in after.nouns[-1].body["entries"]}
    assert praised["helps"] in standing
    assert praised["lucky"] not in standing
    again = step(lessons.LEARNER, trial.clear(), card, published(judged, 3), state=published(after, 2))
    assert {entry["key"] for entry in again.nouns[-1].body["entries"]} == standing


def test_draws_that_a_worker_makes_without_all_say_nothing_of_a_lesson(observe: Observe, draw: Draw) -> None:
    offered = {"all": 0.9, "a": 0.1}
    thrown = [{"draws": [draw("lesson", "a" if i % 10 == 0 else "all", offered)]} for i in range(1000)]
    alone = [{"draws": [draw("lesson", "a", {"a": 1.0})]} for _ in range(1000)]

    judged = step(evaluation.LEARNER, observe(*thrown, *alone), dimension="lesson")

    (body,) = (noun.body for noun in judged.nouns if noun.body.get("lesson") == "a")
    assert (body["rows"], body["unsupported"], body["verdict"]) == (1000, 1000, "keep_baseline")


def listed(outcome: Outcome) -> list[str]:
    return [one["key"] for one in outcome.nouns[-1].body["lessons"]]


def memory_of(*keys: str) -> dict[str, Any]:
    """The lessons noun as the store would answer it, with these lessons."""
    key = "lessons:review-and-learn:v1:work:memory"
    body = {"cursor": "1", "entries": [{"key": one} for one in keys]}
    return {"store": "learn.memory", "key": key, "version": 1, "body": body}


def test_keys_that_never_were_lessons_are_not_judged_however_many_a_worker_offers(
    observe: Observe, draw: Draw
) -> None:
    def offering(*keys: str) -> dict[str, Any]:
        return {"draws": [draw("lesson", "all", {"all": 0.9, **dict.fromkeys(keys, 0.1 / len(keys))})]}

    seen = observe(
        offering("real", "gone"), *(offering(*(f"made-up-{i}-{j}" for j in range(63))) for i in range(20))
    )
    before = step(evaluation.LEARNER, seen, memory_of("real", "gone"), dimension="lesson")
    after = step(evaluation.LEARNER, seen, memory_of("real"), state=published(before, 1), dimension="lesson")
    unread = step(
        evaluation.LEARNER,
        observe(*[offering("real")] * 2, *[offering(f"made-up-{i}") for i in range(300)]),
        dimension="lesson",
    )

    assert listed(before) == ["gone", "real"]
    assert listed(after) == ["gone", "real"]  # retired, and told as before; its noun is written no more
    assert [noun.body.get("lesson") for noun in after.nouns] == ["real", None]
    assert len(listed(unread)) == 256
    assert "real" in listed(unread)


figures = st.dictionaries(
    st.sampled_from(["a", "b", "c", "d"]),
    st.tuples(st.integers(0, 300), st.integers(0, 300)).map(lambda pair: (min(pair), max(pair))),
    min_size=1,
)


@given(st.lists(figures, min_size=1, max_size=4))
def test_whatever_is_seen_in_turn_every_memory_passes_its_checks(
    turns: list[dict[str, tuple[int, int]]],
) -> None:
    state = None
    for version, counts in enumerate(turns, start=1):
        arms = [{"arm": arm, "accepted": k, "failed": n - k, "attempts": n} for arm, (k, n) in counts.items()]
        body = {
            "schema": "tessera.routing-weights.v1",
            "scope": {"queue": "work"},
            "cursor": str(version),
            "runs_sha256": "c" * 64,
            "dimension": "shim",
            "label": "randomized",
            "categories": [{"category": "verb.x", "arms": arms, "unreported": {"accepted": 0, "failed": 0}}],
        }
        record = {
            "store": "learn.outputs",
            "key": "weights",
            "version": version,
            "created_at": "2026-03-01T00:00:00.000Z",
            "visibility": "shared",
            "body": body,
        }
        state = published(
            step(lessons.LEARNER, pl.DataFrame(schema={"cursor": pl.Int64}), record, state=state), version
        )
        for entry in state["body"]["entries"]:
            assert [one["version"] for one in entry["support"]] == [version]
