"""Routing weights against the vectors, against the Beta posterior, at both ends and with nothing at all."""

import hashlib
import json
import math
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.integrate import quad

from learners.attempts import counted
from learners.contract import Citation, Evidence, LearnerError, OptionsError, Outcome, Run, Scope, run_checks
from learners.posterior import posterior, weights
from learners.routing_weights import LEARNER, Options, arm_table
from schemas import routing_weights as schema

VECTORS = Path(__file__).parents[2].parent / "shared" / "vectors" / "weights.json"
Observe = Callable[..., pl.DataFrame]
Draw = Callable[..., dict[str, Any]]

counts = st.integers(min_value=0, max_value=100_000)
arms_of_a_category = st.dictionaries(
    st.text(min_size=1, max_size=8),
    st.fixed_dictionaries({"accepted": counts, "failed": counts}),
    min_size=1,
    max_size=40,
)


SPEC = Citation("learn.specs", "routing_weights:beta-bandit:v1", 1, "f" * 64)


def outcome(frame: pl.DataFrame, after: str = "0", surface: Any = None, **options: Any) -> Outcome:
    run = Run(SPEC, Scope("work"), {"dimension": "shim", **options}, surface)
    return LEARNER.learn(run, Evidence(frame, after))


def learn(frame: pl.DataFrame, after: str = "0", **options: Any) -> Any:
    return outcome(frame, after, **options).nouns[0].body


def events(rows: Sequence[tuple[str | None, str | None, bool]]) -> pl.DataFrame:
    schema = {"category": pl.String, "arm": pl.String, "accepted": pl.Boolean}
    return pl.DataFrame(rows, schema=schema, orient="row").with_columns(randomized=pl.lit(False))


@pytest.mark.skipif(not VECTORS.exists(), reason="the shared vectors are not beside the checkout")
def test_the_vectors_hold_to_1e_12() -> None:
    for case in json.loads(VECTORS.read_text()):
        found = weights(case["arms"], case["epsilon"], case["min_evidence"])
        assert found.keys() == case["weights"].keys()
        assert all(abs(found[arm] - wanted) <= 1e-12 for arm, wanted in case["weights"].items())


def test_eighty_of_a_hundred_is_beta_81_21() -> None:
    table = arm_table(events([("c", "a", i < 80) for i in range(100)]), Options("shim"))
    arm = table.row(0, named=True)
    assert (arm["alpha"], arm["beta"], arm["accepted"], arm["failed"], arm["attempts"]) == (
        81,
        21,
        80,
        20,
        100,
    )
    assert arm["mean"] == pytest.approx(81 / 102, abs=1e-15)

    def density(x: float) -> float:
        log_beta = math.lgamma(81) + math.lgamma(21) - math.lgamma(102)
        return math.exp(80 * math.log(x) + 20 * math.log1p(-x) - log_beta)

    assert quad(density, 1e-9, arm["interval_low"])[0] == pytest.approx(0.025, abs=1e-9)
    assert quad(density, arm["interval_high"], 1 - 1e-12)[0] == pytest.approx(0.025, abs=1e-9)


def test_none_of_n_and_n_of_n_have_closed_bounds() -> None:
    rows = [("c", "never", False)] * 30 + [("c", "always", True)] * 30
    always, never = arm_table(events(rows), Options("shim")).iter_rows(named=True)
    assert never["interval_low"] == pytest.approx(1 - 0.975 ** (1 / 31), rel=1e-12)
    assert never["interval_high"] == pytest.approx(1 - 0.025 ** (1 / 31), rel=1e-12)
    assert always["interval_low"] == pytest.approx(0.025 ** (1 / 31), rel=1e-12)
    assert (never["mean"], always["mean"]) == (1 / 32, 31 / 32)


def test_an_empty_window_is_a_valid_empty_noun(observe: Observe) -> None:
    noun = learn(observe(), after="17", known_arms=["a"])
    assert noun["window"] == {"after": "17", "upto": "17", "count": 0}
    assert (noun["cursor"], noun["categories"], noun["label"]) == ("17", [], "observational")
    assert "nan" not in json.dumps(noun, allow_nan=False).lower()


def test_a_draw_counts_for_the_arm_drawn_and_a_report_only_without_one(observe: Observe, draw: Draw) -> None:
    coin = draw("shim", "a", {"a": 0.5, "b": 0.5})
    noun = learn(
        observe(
            {"shim": "b", "draws": [draw("method", "m", {"m": 1.0}), coin], "ok": True},
            {"shim": "b", "ok": False},
            {"ok": False},
            {"draws": [coin], "ok": False},
        )
    )
    [category] = noun["categories"]
    assert [(a["arm"], a["accepted"], a["failed"], a["randomized"]) for a in category["arms"]] == [
        ("a", 1, 1, 2),
        ("b", 0, 1, 0),
    ]
    assert category["unreported"] == {"accepted": 0, "failed": 1}
    assert noun["label"] == "observational"
    assert noun["window"]["count"] == 4


def test_the_label_is_randomized_only_when_every_attempt_followed_a_draw(
    observe: Observe, draw: Draw
) -> None:
    coin = {"draws": [draw("shim", "a", {"a": 1.0})]}
    assert learn(observe(coin, coin))["label"] == "randomized"
    assert learn(observe(coin, {"shim": "a"}))["label"] == "observational"
    assert learn(observe(coin, {}))["label"] == "observational"


def test_a_model_declared_null_is_an_arm_and_one_not_reported_is_none(observe: Observe) -> None:
    [category] = learn(observe({"model": None}, {"model": "m"}, {}), dimension="model")["categories"]
    assert [arm["arm"] for arm in category["arms"]] == ["", "m"]
    assert category["unreported"] == {"accepted": 1, "failed": 0}


def test_task_families_are_templates_and_no_template_comes_first(observe: Observe) -> None:
    rows = [{"template": "t2", "shim": "a"}, {"shim": "a"}, {"template": "t1", "shim": "a"}]
    noun = learn(observe(*rows), by="template")
    assert [category["category"] for category in noun["categories"]] == [None, "t1", "t2"]


def test_names_are_sorted_by_utf16_code_units(observe: Observe) -> None:
    rows = [{"shim": arm} for arm in ("\uff01", "\U0001f600", "z", "é")]
    [category] = learn(observe(*rows))["categories"]
    assert [arm["arm"] for arm in category["arms"]] == ["z", "é", "\U0001f600", "\uff01"]


def test_the_window_pins_its_runs_in_capture_order(observe: Observe) -> None:
    noun = learn(observe({"shim": "a"}, {"shim": "b"}, first=5), after="4")
    assert noun["window"] == {"after": "4", "upto": "6", "count": 2}
    assert noun["runs_sha256"] == hashlib.sha256(b"run-5\nrun-6").hexdigest()


def test_a_known_arm_and_a_baseline_stand_in_every_category(observe: Observe) -> None:
    options = {"known_arms": ["new"], "baseline": {"arm": "plain", "share": 0.3}}
    noun = learn(observe({"shim": "a", "kind": "x"}, {"kind": "y"}), **options)
    assert [[a["arm"] for a in c["arms"]] for c in noun["categories"]] == [
        ["a", "new", "plain"],
        ["new", "plain"],
    ]
    first = {arm["arm"]: arm["weight"] for arm in noun["categories"][0]["arms"]}
    assert first == pytest.approx({"a": 0.7 / 3, "new": 0.7 / 3, "plain": 0.3 + 0.7 / 3}, abs=1e-12)
    assert noun["baseline"] == {"arm": "plain", "share": 0.3}


def test_a_new_arm_beside_a_strong_old_one_keeps_the_prior_score(observe: Observe) -> None:
    found = weights({"old": {"accepted": 9000, "failed": 1000}, "new": {"accepted": 0, "failed": 0}})
    assert found["new"] == pytest.approx(0.05 + 0.9 * 0.5 / (0.5 + 9001 / 10002), abs=1e-12)


def test_small_differences_on_few_data_give_no_arm_everything() -> None:
    few = {
        "a": {"accepted": 3, "failed": 9},
        "b": {"accepted": 4, "failed": 8},
        "c": {"accepted": 6, "failed": 6},
    }
    assert set(weights(few).values()) == {1 / 3}
    shares = weights(few, min_evidence=12)
    assert 0.2 < shares["a"] < shares["b"] < shares["c"] < 0.5


def test_fresh_arms_share_evenly() -> None:
    found = weights({f"arm{i}": {"accepted": 0, "failed": 0} for i in range(10)}, epsilon=0.0)
    assert set(found.values()) == {0.1}


@given(arms_of_a_category, st.floats(0, 1), st.integers(0, 200), st.none() | st.floats(0, 1))
def test_weights_sum_to_one_and_keep_the_floor(
    arms: dict[str, dict[str, int]], epsilon: float, min_evidence: int, share: float | None
) -> None:
    raw: dict[str, Any] = {"dimension": "shim", "epsilon": epsilon, "min_evidence": min_evidence}
    if share is not None:
        raw["baseline"] = {"arm": next((a for a in arms if a.strip()), "x"), "share": share}
    options = Options.of(raw)
    frame = pl.DataFrame(
        {
            "category": ["c"] * len(arms),
            "arm": list(arms),
            "accepted": [c["accepted"] for c in arms.values()],
            "attempts": [c["accepted"] + c["failed"] for c in arms.values()],
        }
    )
    done = posterior(frame, options.epsilon, options.min_evidence, options.baseline, options.share)
    weight = done["weight"].to_numpy()
    reserved = share if share is not None and raw["baseline"]["arm"] in arms else 0.0
    left = 1 - (share or 0.0)
    assert math.fsum(weight) == pytest.approx(left + reserved, abs=1e-12)
    assert weight.min() >= left * epsilon / len(arms) - 1e-15
    assert np.isfinite(weight).all()


@given(st.permutations(list(range(60))))
def test_the_order_of_the_rows_changes_nothing(order: list[int]) -> None:
    rows = [(f"c{i % 3}", f"a{i % 5}", i % 7 < 3) for i in range(60)]
    straight, mixed = (arm_table(events(r), Options("shim")) for r in (rows, [rows[i] for i in order]))
    assert straight.equals(mixed)


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({}, "options.dimension", "is required"),
        (
            {"dimension": "queue"},
            "options.dimension",
            "must be one of template, phrasing, shim, method, harness, model",
        ),
        ({"dimension": "shim", "epsilon": 1.0000001}, "options.epsilon", "must be between 0 and 1"),
        ({"dimension": "shim", "epsilon": -0.1}, "options.epsilon", "must be between 0 and 1"),
        ({"dimension": "shim", "epsilon": float("nan")}, "options.epsilon", "must be a finite number"),
        ({"dimension": "shim", "epsilon": True}, "options.epsilon", "must be a number"),
        (
            {"dimension": "shim", "known_arms": ["a", "b", "a"]},
            "options.known_arms[2]",
            "must not be listed twice",
        ),
        (
            {"dimension": "shim", "known_arms": ["x" * 10_240]},
            "options.known_arms[0]",
            "must be at most 128 UTF-8 bytes",
        ),
        ({"dimension": "shim", "known_arms": [" "]}, "options.known_arms[0]", "must not be blank"),
        ({"dimension": "shim", "known_arms": "a"}, "options.known_arms", "must be an array"),
        ({"dimension": "shim", "min_evidence": -1}, "options.min_evidence", "must be at least 0"),
        ({"dimension": "shim", "min_evidence": 2.5}, "options.min_evidence", "must be an integer"),
        ({"dimension": "shim", "last": 0}, "options.last", "must be at least 1"),
        ({"dimension": "shim", "by": "queue"}, "options.by", "must be one of category, template"),
        (
            {"dimension": "shim", "baseline": {"arm": "a", "share": 1.5}},
            "options.baseline.share",
            "must be between 0 and 1",
        ),
        ({"dimension": "shim", "baseline": {"arm": "a"}}, "options.baseline.share", "is required"),
        (
            {"dimension": "shim", "baseline": {"arm": "", "share": 0.1}},
            "options.baseline.arm",
            "must not be blank",
        ),
        ({"dimension": "shim", "windows": 3}, "options.windows", "is not a known field"),
        ([], "options", "must be an object"),
    ],
)
def test_options_that_cannot_be_used_are_refused_by_path(options: Any, path: str, message: str) -> None:
    with pytest.raises(OptionsError) as caught:
        Options.of(options)
    assert (caught.value.faults[0].path, caught.value.faults[0].message) == (path, message)


def test_an_arm_that_no_door_lets_in_is_an_error_and_no_weight() -> None:
    with pytest.raises(LearnerError, match="an arm of 10240 bytes"):
        arm_table(events([("c", "x" * 10_240, True)]), Options("shim"))


def test_impossible_counts_are_an_error() -> None:
    for impossible in ({"accepted": -1, "failed": 2}, {"accepted": 1, "failed": 0.5}):
        with pytest.raises(ValueError, match="impossible counts of arm 'a'"):
            weights({"a": impossible})  # type: ignore[dict-item]


def test_the_columns_are_those_of_an_attempt(observe: Observe) -> None:
    assert counted(observe({"shim": "a"}), "shim").columns == ["category", "arm", "accepted", "randomized"]


def test_a_surface_leaves_private_runs_out_and_the_cursor_goes_on(observe: Observe) -> None:
    rows = observe({"shim": "a"}, {"shim": "b", "private": True})
    shown = outcome(rows, surface={"queue": "work"}).nouns[0].body
    assert shown["window"] == {"after": "0", "upto": "2", "count": 1}
    assert [arm["arm"] for arm in shown["categories"][0]["arms"]] == ["a"]
    assert learn(rows)["window"]["count"] == 2


def test_the_noun_has_its_shape_and_passes_its_checks_and_fills_its_table(
    observe: Observe, draw: Draw
) -> None:
    rows = observe(
        {"shim": "a", "kind": "x"},
        {"draws": [draw("shim", "b", {"a": 0.5, "b": 0.5})], "kind": "x", "ok": False},
        {"kind": "y"},
    )
    done = outcome(rows, baseline={"arm": "a", "share": 0.2}, epsilon=0.3)
    [noun] = done.nouns
    assert (noun.store, noun.key) == ("learn.outputs", "routing_weights:beta-bandit:v1:work:shim")
    assert schema.body_faults(noun.body) == []
    assert all(result.passed for result in run_checks(LEARNER, done))
    table = schema.RoutingWeights.validate(schema.rows("work", 1, noun.sha256(), noun.key, noun.body))
    assert table.schema == pl.Schema(schema.SCHEMA)
    assert table.select("category", "arm", "accepted").rows() == [("x", "a", 1), ("x", "b", 0), ("y", "a", 0)]


def test_a_table_of_nothing_keeps_its_types(observe: Observe) -> None:
    [noun] = outcome(observe()).nouns
    assert schema.body_faults(noun.body) == []
    empty = schema.RoutingWeights.validate(schema.rows("work", 1, noun.sha256(), noun.key, noun.body))
    assert (empty.height, empty.schema) == (0, pl.Schema(schema.SCHEMA))


@pytest.mark.parametrize(
    ("field", "value", "failing"),
    [
        ("weight", 0.9, {"weights_sum_to_one"}),
        ("weight", 0.01, {"weights_sum_to_one", "floor_is_kept"}),
        ("beta", 100, {"posteriors_follow_counts"}),
        ("accepted", 7, {"posteriors_follow_counts"}),
        ("attempts", 7, {"posteriors_follow_counts", "counts_are_of_the_pinned_runs"}),
    ],
)
def test_a_figure_that_was_tampered_with_fails_its_check(
    observe: Observe, field: str, value: float, failing: set[str]
) -> None:
    done = outcome(observe({"shim": "a"}, {"shim": "b"}), epsilon=0.5)
    done.nouns[0].body["categories"][0]["arms"][0][field] = value
    assert {result.name for result in run_checks(LEARNER, done) if not result.passed} == failing
