"""The evaluation learner: which rows, which policies, who is on trial, and what stands afterwards."""

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import polars as pl
import pytest

from learners.contract import Citation, Evidence, LearnerError, Outcome, Run, Scope, run_checks
from learners.evaluation import LEARNER
from learners.policies import mass, rows_of
from learners.routing_weights import LEARNER as WEIGHTS
from schemas import evaluation as schema

Observe = Callable[..., pl.DataFrame]
Draw = Callable[..., dict[str, Any]]

SPEC = Citation("learn.specs", "evaluation:off-policy:v1", 1, "e" * 64)
WEIGHTS_SPEC = Citation("learn.specs", "routing_weights:beta-bandit:v1", 1, "f" * 64)
WEIGHTS_KEY = "routing_weights:beta-bandit:v1:work:shim"
ACTIVE = {"spec": WEIGHTS_SPEC.key, "mode": "active", "queue": "work", "options": {"dimension": "shim"}}
EVEN = {"a": 0.5, "b": 0.5}
HELD = {"all": 0.9, "helps": 0.05, "idles": 0.05}


def weights_record(
    version: int, upto: int = 0, scores: dict[str, float] | None = None, **body: Any
) -> dict[str, Any]:
    """A weights noun of one category whose scores are given, as the store answers it."""
    arms = [{"arm": arm, "score": score} for arm, score in (scores or {"a": 0.9, "b": 0.1}).items()]
    fields = {
        "dimension": "shim",
        "window": {"after": "0", "upto": str(upto), "count": upto},
        "options": {"dimension": "shim"},
        "epsilon": 0.1,
        "baseline": None,
        "categories": [{"category": "verb.summarize", "arms": arms}],
        **body,
    }
    return {"store": "learn.outputs", "key": WEIGHTS_KEY, "version": version, "body": fields}


def cite(version: int) -> dict[str, Any]:
    return {"store": "learn.outputs", "key": WEIGHTS_KEY, "version": version}


def evaluated(
    frame: pl.DataFrame,
    *records: Any,
    state: Any = None,
    entries: Any = (ACTIVE,),
    restart: bool = False,
    **options: Any,
) -> Outcome:
    previous = None if state is None else {"version": 1, "body": state}
    run = Run(
        SPEC, Scope("work"), {"dimension": "shim", **options}, state=previous, restart=restart,
        records=records, entries=entries,
    )  # fmt: skip
    return LEARNER.learn(run, Evidence(frame))


def body(frame: pl.DataFrame, *records: Any, **said: Any) -> Any:
    return evaluated(frame, *records, **said).nouns[-1].body


def fleet(
    observe: Observe,
    draw: Draw,
    rows: int,
    accepted: dict[str, float],
    *,
    seed: int = 0,
    first: int = 1,
    **said: Any,
) -> pl.DataFrame:
    """Runs that followed an even draw of shims and were accepted with the arm's probability."""
    rng = np.random.default_rng(seed)
    taken = [("a", "b")[int(coin)] for coin in rng.integers(0, 2, rows)]
    return observe(
        *(
            {
                "draws": [draw("shim", arm, EVEN)],
                "shim": arm,
                "ok": bool(rng.random() < accepted[arm]),
                **said,
            }
            for arm in taken
        ),
        first=first,
    )


class TestRows:
    def test_a_row_is_a_first_submitted_run_with_a_draw_of_the_dimension_after_the_cursor(
        self, observe: Observe, draw: Draw
    ) -> None:
        coin = {"draws": [draw("shim", "a", EVEN)]}
        frame = observe(
            coin,  # before the cursor
            coin,
            {**coin, "fence": 3, "lapsed": 2},  # two leases lapsed: still the first to be submitted
            {**coin, "fence": 2, "lapsed": 0},  # a retry
            {"shim": "a"},  # chosen by the worker
            {"draws": [draw("method", "a", EVEN)]},
        )
        assert rows_of(frame, "shim", after=1).frame["cursor"].to_list() == [2, 3]

    def test_the_arm_is_the_one_drawn_and_compliance_counts_who_followed(
        self, observe: Observe, draw: Draw
    ) -> None:
        coin = {"draws": [draw("shim", "a", EVEN)]}
        frame = observe({**coin, "shim": "a"}, {**coin, "shim": "b"}, coin, {**coin, "shim": "a"})
        found = body(frame, weights_record(1))
        assert (found["rows"], found["compliance"]) == (4, 0.5)

    def test_rows_lie_after_the_windows_of_candidate_and_baseline(self, observe: Observe, draw: Draw) -> None:
        frame = fleet(observe, draw, 10, {"a": 0.5, "b": 0.5})
        state = {**body(frame), "standing": cite(1)}
        found = body(frame, weights_record(1, upto=7), weights_record(2, upto=4), state=state)
        assert (found["candidate"], found["baseline"], found["rows"]) == (cite(2), cite(1), 3)
        assert found["window"] == {"after": "7", "upto": "10", "count": 3}

    def test_a_row_that_a_policy_could_not_have_met_is_left_out_and_counted(
        self, observe: Observe, draw: Draw
    ) -> None:
        never = {"draws": [draw("shim", "a", {"a": 1.0, "b": 0.0})]}
        found = body(observe(never, {"draws": [draw("shim", "a", EVEN)]}), weights_record(1))
        assert (found["rows"], found["unsupported"]) == (1, 1)

    def test_a_draw_that_no_server_throws_is_an_error_that_names_the_run(
        self, observe: Observe, draw: Draw
    ) -> None:
        broken = {**draw("shim", "a", EVEN), "arm": "c"}
        with pytest.raises(LearnerError, match="run run-2 has a draw that no server throws: arm 'c'"):
            body(observe({"draws": [draw("shim", "a", EVEN)]}, {"draws": [broken]}), weights_record(1))


class TestPolicies:
    def pi(
        self, observe: Observe, draw: Draw, offered: dict[str, float], weights: Any, **said: Any
    ) -> list[float]:
        frame = observe({"draws": [draw("shim", next(iter(offered)), offered)], **said})
        return mass(rows_of(frame, "shim"), weights).tolist()

    def test_scores_give_the_weights_of_the_arms_offered(self, observe: Observe, draw: Draw) -> None:
        record = weights_record(1, scores={"a": 0.9, "b": 0.3, "never offered": 0.8})
        found = self.pi(observe, draw, EVEN, record["body"])
        assert found == pytest.approx([0.05 + 0.9 * 0.75, 0.05 + 0.9 * 0.25])

    def test_an_arm_that_the_noun_does_not_know_scores_one_half(self, observe: Observe, draw: Draw) -> None:
        found = self.pi(observe, draw, {"a": 0.5, "new": 0.5}, weights_record(1, scores={"a": 0.5})["body"])
        assert found == pytest.approx([0.5, 0.5])

    def test_without_noun_or_category_the_choice_is_uniform(self, observe: Observe, draw: Draw) -> None:
        offered = {"a": 0.2, "b": 0.3, "c": 0.5}
        assert self.pi(observe, draw, offered, None) == pytest.approx([1 / 3] * 3)
        record = weights_record(1, baseline={"arm": "a", "share": 0.5})
        assert self.pi(observe, draw, offered, record["body"], kind="other") == pytest.approx([1 / 3] * 3)

    def test_a_baselines_share_is_reserved_where_the_baseline_is_offered(
        self, observe: Observe, draw: Draw
    ) -> None:
        record = weights_record(1, scores={"a": 0.5, "b": 0.5}, baseline={"arm": "a", "share": 0.4})
        assert self.pi(observe, draw, EVEN, record["body"]) == pytest.approx([0.7, 0.3])
        assert self.pi(observe, draw, {"b": 0.5, "c": 0.5}, record["body"]) == pytest.approx([0.5, 0.5])

    def test_families_are_looked_up_by_template(self, observe: Observe, draw: Draw) -> None:
        record = weights_record(1, options={"dimension": "shim", "by": "template"})
        record["body"]["categories"][0]["category"] = "t"
        assert self.pi(observe, draw, EVEN, record["body"], template="t") == pytest.approx([0.86, 0.14])
        assert self.pi(observe, draw, EVEN, record["body"]) == pytest.approx([0.5, 0.5])

    def test_it_is_what_the_learned_weights_say_of_all_their_arms(self, observe: Observe, draw: Draw) -> None:
        frame = fleet(observe, draw, 100, {"a": 0.9, "b": 0.2})
        [noun] = WEIGHTS.learn(Run(WEIGHTS_SPEC, Scope("work"), {"dimension": "shim"}), Evidence(frame)).nouns
        arms = noun.body["categories"][0]["arms"]
        assert self.pi(observe, draw, EVEN, noun.body) == pytest.approx(
            [arm["weight"] for arm in arms], abs=1e-15
        )


class TestWhoIsOnTrial:
    def test_without_weights_there_is_no_candidate_and_the_baseline_is_kept(
        self, observe: Observe, draw: Draw
    ) -> None:
        found = body(fleet(observe, draw, 5, EVEN), weights_record(1), entries=())
        assert (found["candidate"], found["number"], found["rows"]) == (None, 0, 0)
        assert (found["verdict"], found["standing"], found["alpha"]) == ("keep_baseline", None, None)

    def test_the_first_candidate_is_the_newest_version_against_uniform(self, observe: Observe) -> None:
        found = body(observe(), weights_record(1), weights_record(3))
        assert (found["candidate"], found["baseline"], found["number"]) == (cite(3), None, 1)
        assert found["alpha"] == 0.025
        assert found["minimum_evidence"] == 100

    def test_an_undecided_candidate_stays_though_newer_weights_exist(
        self, observe: Observe, draw: Draw
    ) -> None:
        state = body(fleet(observe, draw, 300, EVEN), weights_record(1))
        found = body(observe(), weights_record(1), weights_record(2), state=state)
        assert (found["candidate"], found["number"]) == (cite(1), 1)

    def test_a_candidate_without_a_verdict_makes_room_after_ten_times_the_minimum(
        self, observe: Observe
    ) -> None:
        state = {**body(observe(), weights_record(1)), "rows": 1000}
        found = body(observe(), weights_record(1), weights_record(2), state=state)
        assert (found["candidate"], found["number"], found["alpha"]) == (cite(2), 2, 0.05 / 6)

    @pytest.mark.parametrize("verdict", ["better", "worse"])
    def test_a_decided_candidate_makes_room_for_the_newest(self, observe: Observe, verdict: str) -> None:
        stands = cite(1) if verdict == "better" else None
        state = {**body(observe(), weights_record(1)), "rows": 100, "verdict": verdict, "standing": stands}
        found = body(observe(), weights_record(1), weights_record(2), state=state)
        assert (found["candidate"], found["baseline"], found["number"]) == (cite(2), stands, 2)

    def test_the_same_newest_version_is_no_new_candidate(self, observe: Observe) -> None:
        state = {**body(observe(), weights_record(1)), "rows": 100, "verdict": "worse"}
        again = body(observe(), weights_record(1), state=state)
        assert (again["candidate"], again["number"]) == (cite(1), 1)

    def test_what_stands_does_not_hold_the_next_candidate_up(self, observe: Observe) -> None:
        won = {**body(observe(), weights_record(1)), "rows": 100, "verdict": "better", "standing": cite(1)}
        waiting = body(observe(), weights_record(1), state=won)
        assert (waiting["candidate"], waiting["baseline"], waiting["verdict"]) == (
            cite(1),
            cite(1),
            "keep_baseline",
        )
        found = body(observe(), weights_record(1), weights_record(2), state=waiting)
        assert (found["candidate"], found["baseline"], found["number"]) == (cite(2), cite(1), 2)

    def test_a_verdict_of_better_makes_the_candidate_stand_and_it_is_carried_on(
        self, observe: Observe, draw: Draw
    ) -> None:
        frame = fleet(observe, draw, 400, {"a": 0.95, "b": 0.05})
        first = body(frame, weights_record(1))
        assert (first["verdict"], first["standing"]) == ("better", cite(1))
        later = body(
            observe(), weights_record(1), weights_record(2, scores={"a": 0.1, "b": 0.9}), state=first
        )
        assert (later["baseline"], later["standing"], later["verdict"]) == (cite(1), cite(1), "keep_baseline")

    def test_worse_leaves_what_stands(self, observe: Observe, draw: Draw) -> None:
        found = body(fleet(observe, draw, 400, {"a": 0.05, "b": 0.95}), weights_record(1))
        assert (found["verdict"], found["standing"]) == ("worse", None)

    def test_the_minimum_evidence_never_changes(self, observe: Observe) -> None:
        state = {**body(observe(), weights_record(1)), "minimum_evidence": 400}
        assert body(observe(), weights_record(1), state=state)["minimum_evidence"] == 400

    def test_a_run_that_starts_anew_forgets_what_stands_but_not_how_many_were_tried(
        self, observe: Observe
    ) -> None:
        state = {**body(observe(), weights_record(1)), "number": 4, "standing": cite(1)}
        found = body(observe(), weights_record(2), state=state, restart=True)
        assert (found["candidate"], found["baseline"], found["number"]) == (cite(2), None, 5)

    def test_a_candidate_that_cannot_be_read_fails_the_run_naming_record_and_remedy(
        self, observe: Observe
    ) -> None:
        state = body(observe(), weights_record(1))
        with pytest.raises(
            LearnerError, match=r"routing_weights:beta-bandit:v1:work:shim version 1 cannot .* surface"
        ):
            body(observe(), weights_record(2), state=state)

    def test_a_run_asks_for_the_newest_weights_and_the_pinned_versions(self, observe: Observe) -> None:
        state = {**body(observe(), weights_record(2)), "standing": cite(1)}
        run = Run(
            SPEC, Scope("work"), {"dimension": "shim"}, state={"version": 1, "body": state}, entries=(ACTIVE,)
        )
        assert [(wanted.key, wanted.version) for wanted in LEARNER.wanted(run)] == [
            (WEIGHTS_KEY, None),
            (WEIGHTS_KEY, 2),
            (WEIGHTS_KEY, 1),
        ]

    def test_a_shadow_is_judged_in_a_noun_of_its_own(self, observe: Observe) -> None:
        shadow = {**ACTIVE, "mode": "shadow"}
        done = evaluated(observe(), weights_record(1), entries=(shadow,), strategy="beta-bandit")
        assert done.nouns[0].key == "evaluation:off-policy:v1:work:shim:beta-bandit"
        assert done.nouns[0].body["candidate"] == cite(1)
        assert body(observe(), weights_record(1), entries=(shadow,))["candidate"] is None


class TestNoEffectStaysTheBaseline:
    """Fleets in which the draw changes nothing, or the few runs that it changed are not enough."""

    def share_kept(self, observe: Observe, draw: Draw, **said: Any) -> float:
        kept = [
            body(fleet(observe, draw, 250, {"a": 0.5, "b": 0.5}, seed=seed, **said), weights_record(1))[
                "verdict"
            ]
            for seed in range(20)
        ]
        return kept.count("keep_baseline") / len(kept)

    def test_when_workers_do_not_comply(self, observe: Observe, draw: Draw) -> None:
        assert self.share_kept(observe, draw, shim="what I like") >= 0.95
        frame = fleet(observe, draw, 250, EVEN, shim="what I like")
        assert body(frame, weights_record(1))["compliance"] == 0.0

    def test_when_leases_lapse(self, observe: Observe, draw: Draw) -> None:
        assert self.share_kept(observe, draw, fence=4, lapsed=3) >= 0.95

    def test_when_all_are_retries_there_are_no_rows(self, observe: Observe, draw: Draw) -> None:
        found = body(fleet(observe, draw, 250, {"a": 1, "b": 0}, fence=2), weights_record(1))
        assert (found["rows"], found["verdict"]) == (0, "keep_baseline")

    def test_a_real_gain_on_too_few_rows_waits(self, observe: Observe, draw: Draw) -> None:
        found = body(fleet(observe, draw, 99, {"a": 1, "b": 0}), weights_record(1))
        assert (found["rows"], found["verdict"]) == (99, "keep_baseline")


class TestLessons:
    def lessons_fleet(self, observe: Observe, draw: Draw, rows: int) -> pl.DataFrame:
        rng = np.random.default_rng(5)
        said = []
        for _ in range(rows):
            arm = str(rng.choice(list(HELD), p=list(HELD.values())))
            rate = 0.3 if arm == "helps" else 0.9
            said.append({"draws": [draw("lesson", arm, HELD)], "ok": bool(rng.random() < rate)})
        return observe(*said)

    def test_each_lesson_offered_is_judged_by_the_draws_that_held_it_back(
        self, observe: Observe, draw: Draw
    ) -> None:
        done = evaluated(self.lessons_fleet(observe, draw, 3000), entries=(), dimension="lesson")
        by_lesson = {noun.body.get("lesson"): noun for noun in done.nouns}
        assert by_lesson["helps"].key == "evaluation:off-policy:v1:work:lesson:helps"
        assert by_lesson["helps"].body["verdict"] == "better"
        assert by_lesson["idles"].body["verdict"] == "keep_baseline"
        assert by_lesson["helps"].body["compliance"] is None
        assert [(one["key"], one["verdict"]) for one in done.nouns[-1].body["lessons"]] == [
            ("helps", "better"),
            ("idles", "keep_baseline"),
        ]
        assert all(result.passed for result in run_checks(LEARNER, done))
        assert all(schema.body_faults(noun.body) == [] for noun in done.nouns)

    def test_without_draws_there_is_only_the_empty_state(self, observe: Observe) -> None:
        [noun] = evaluated(observe({}), entries=(), dimension="lesson").nouns
        assert (noun.key, noun.body["lessons"]) == ("evaluation:off-policy:v1:work:lesson", [])


def test_cited_versions_are_counted_once_a_run_and_labelled_observational(observe: Observe) -> None:
    def advice(version: int) -> dict[str, Any]:
        return {
            "learner": "routing_weights", "strategy": "beta-bandit", "version": 1,
            "store": "learn.outputs", "key": WEIGHTS_KEY, "record_version": version,
        }  # fmt: skip

    frame = observe(
        {"advice": [advice(1), advice(1)], "ok": True},
        {"advice": [advice(1), advice(2)], "ok": False},
        {"ok": True},
    )
    cited = body(frame)["cited"]
    assert cited["label"] == "observational"
    assert [(one["version"], one["attempts"], one["accepted"]) for one in cited["records"]] == [
        (1, 2, 1),
        (2, 1, 0),
    ]
    assert cited["records"][1]["interval_low"] == 0.0


def test_the_noun_has_its_shape_and_passes_its_checks_and_fills_its_table(
    observe: Observe, draw: Draw
) -> None:
    for frame in (observe(), fleet(observe, draw, 1, EVEN), fleet(observe, draw, 300, {"a": 0.9, "b": 0.2})):
        done = evaluated(frame, weights_record(1))
        [noun] = done.nouns
        json.dumps(noun.body, allow_nan=False)
        assert schema.body_faults(noun.body) == []
        assert [result.rows for result in run_checks(LEARNER, done) if not result.passed] == []
        table = schema.Evaluations.validate(schema.rows("work", 1, noun.sha256(), noun.key, noun.body))
        assert table.schema == pl.Schema(schema.SCHEMA)
        assert table["rows"].to_list() == [frame.height]


@pytest.mark.parametrize(
    ("change", "failing"),
    [
        ({"verdict": "better"}, "verdicts_follow_figures"),
        ({"standing": cite(9)}, "verdicts_follow_figures"),
        ({"alpha": 0.05}, "numbers_never_go_back"),
        ({"window": {"after": "3", "upto": "9", "count": 0}}, "candidates_are_judged_on_later_runs"),
    ],
)
def test_a_figure_that_was_tampered_with_fails_its_check(observe: Observe, change: Any, failing: str) -> None:
    done = evaluated(observe(), weights_record(1, upto=7))
    done.nouns[0].body.update(change)  # type: ignore[attr-defined]
    assert [result.name for result in run_checks(LEARNER, done) if not result.passed] == [failing]


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, "options.dimension"),
        ({"dimension": "template"}, "options.dimension"),
        ({"dimension": "shim", "strategy": "a b"}, "options.strategy"),
        ({"dimension": "lesson", "strategy": "beta-bandit"}, "options.strategy"),
        ({"dimension": "shim", "epsilon": 0.1}, "options.epsilon"),
    ],
)
def test_options_that_cannot_be_used_are_named_by_path(options: Any, path: str) -> None:
    assert [fault.path for fault in LEARNER.option_faults(options, "options")] == [path]
