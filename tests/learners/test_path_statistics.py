"""Path scorecards, as the contract's section 9 has them."""

import random
from collections.abc import Callable
from typing import Any

import polars as pl
import pytest

from learners.contract import Citation, Evidence, Outcome, Run, Scope, run_checks
from learners.path_statistics import DIMENSIONS, LEARNER
from tessera.canonical import dumps

Items = Callable[..., dict[str, Any]]
Frame = Callable[..., pl.DataFrame]
SPEC = Citation("learn.specs", "path_statistics:wilson-grouping:v1", 1, "0" * 64)


def learn(frame: pl.DataFrame, options: dict[str, Any] | None = None, **run: Any) -> Outcome:
    """The outcome of a run on queue ``q`` over a frame that begins the scope."""
    after = run.pop("after", "0")
    return LEARNER.learn(Run(SPEC, Scope("q"), options or {}, **run), Evidence(frame, after))


def scorecard(frame: pl.DataFrame, options: dict[str, Any] | None = None, **run: Any) -> dict[str, Any]:
    """The body of the one noun."""
    (noun,) = learn(frame, options, **run).nouns
    return dict(noun.body)


def test_a_worked_value_comes_out_whole(item: Items, frame: Frame) -> None:
    learning = {
        "outcome": "blocked",
        "went_wrong": ["Disk 7 full"],
        "duration_seconds": 2,
        "cost": {"amount": 0.5, "currency": "USD", "source": "bill"},
    }
    usage = {"input_tokens": 10, "output_tokens": 5}
    rows = frame(
        item(3),
        item(5, result="failed", failure_text="Timeout after 30s", retry=True, fence=2, task_id="task-3"),
        item(9, report={"learning": learning, "usage": usage}, origin="imported", submitted_at=None),
    )

    body = scorecard(rows, {"dimensions": ["category"]}, after="2")

    assert body == {
        "schema": "tessera.path-scorecard.v1",
        "learner": "path_statistics",
        "strategy": "wilson-grouping",
        "version": 1,
        "spec": SPEC.body(),
        "scope": {"queue": "q"},
        "options": {"dimensions": ["category"]},
        "use_policy": {"training_corpus": "excluded_by_default"},
        "cursor": "9",
        "dimensions": ["category"],
        "window": {"after": "2", "upto": "9", "count": 3},
        "runs_sha256": "86a57f8682a68532bc389d1822d7faf56ad0db4125145b682127d2e6718b3977",
        "label": "observational",
        "label_reason": body["label_reason"],
        "groups": [
            {
                "dimensions": {"category": "verb.a"},
                "attempts": 3,
                "accepted": 2,
                "acceptance_rate": 2 / 3,
                "wilson_low": pytest.approx(0.20765960080204773, abs=1e-12),
                "wilson_high": pytest.approx(0.9385080552796039, abs=1e-12),
                "distinct_tasks": 2,
                "retried": 1,
                "median_server_duration_seconds": 1.5,
                "median_total_tokens": 15.0,
                "median_reported_duration_seconds": 2.0,
                "median_cost": {"USD": 0.5},
                "worker_outcomes": {"blocked": 1},
                "failure_reasons": [{"text": "timeout after #s", "count": 1}],
                "problems": [{"text": "disk # full", "count": 1}],
                "imported": 1,
                "blocked": 1,
                "randomized": 0,
                "example_run_ids": ["run-9", "run-5", "run-3"],
                "small": True,
            }
        ],
    }


def test_nothing_gives_no_groups_and_no_dimensions_one_overall_group(frame: Frame) -> None:
    by_default, overall = scorecard(frame()), scorecard(frame(), {"dimensions": []})

    assert by_default["groups"] == []
    assert by_default["cursor"] == "0"
    assert by_default["window"] == {"after": "0", "upto": "0", "count": 0}
    (group,) = overall["groups"]
    assert (group["dimensions"], group["attempts"], group["small"]) == ({}, 0, True)
    assert group["wilson_low"] is group["wilson_high"] is group["acceptance_rate"] is None


def test_an_empty_and_a_full_group_have_the_same_fields(item: Items, frame: Frame) -> None:
    (nothing,) = scorecard(frame(), {"dimensions": []})["groups"]
    (something,) = scorecard(frame(item(1)), {"dimensions": []})["groups"]

    assert list(nothing) == list(something)


def test_an_absent_value_is_a_group_of_its_own_and_sorts_first(item: Items, frame: Frame) -> None:
    rows = frame(*(item(number, brief={"template": name}) for number, name in enumerate(("b", None, "a"), 1)))

    groups = scorecard(rows, {"dimensions": ["template"]})["groups"]

    assert [group["dimensions"]["template"] for group in groups] == [None, "a", "b"]


def test_the_text_null_is_not_an_absent_value(item: Items, frame: Frame) -> None:
    rows = frame(item(1, brief={"template": "null"}), item(2, brief={"template": None}))

    assert len(scorecard(rows, {"dimensions": ["template"]})["groups"]) == 2


def test_a_declared_absence_of_a_model_is_not_an_unreported_one(item: Items, frame: Frame) -> None:
    rows = frame(
        item(1, report={"model": None, "model_reported": True}),
        item(2, report={"model": None, "model_reported": False}),
        item(3),
        item(4, report={"model": "m", "model_reported": True}),
    )

    groups = scorecard(rows, {"dimensions": ["model"]})["groups"]

    assert [(group["dimensions"]["model"], group["attempts"]) for group in groups] == [
        (None, 2),
        ("", 1),
        ("m", 1),
    ]


def test_a_tag_set_is_its_tags_joined_by_commas(item: Items, frame: Frame) -> None:
    rows = frame(item(1, brief={"tags": ["a", "b"]}), item(2, brief={"tags": []}))

    groups = scorecard(rows, {"dimensions": ["tagset"]})["groups"]

    assert [group["dimensions"]["tagset"] for group in groups] == ["", "a,b"]


def test_every_dimension_is_found_where_an_observation_keeps_it(item: Items, frame: Frame) -> None:
    report = {
        "harness": "h",
        "model": "m",
        "model_reported": True,
        "learning": {"path": {"shim": "s", "method": "x"}},
    }
    rows = frame(item(1, brief={"template": "t", "phrasing": "p", "tags": ["g"]}, report=report))

    (group,) = scorecard(rows, {"dimensions": list(reversed(DIMENSIONS))})["groups"]

    assert group["dimensions"] == {
        "category": "verb.a",
        "template": "t",
        "phrasing": "p",
        "shim": "s",
        "method": "x",
        "harness": "h",
        "model": "m",
        "queue": "q",
        "tagset": "g",
    }
    assert list(group["dimensions"]) == list(DIMENSIONS)


def test_groups_sort_by_attempts_and_then_by_utf16_code_units(item: Items, frame: Frame) -> None:
    names = ("\ufb01", "\U0001f600", "z", "z")
    rows = frame(*(item(number, brief={"template": name}) for number, name in enumerate(names, 1)))

    groups = scorecard(rows, {"dimensions": ["template"]})["groups"]

    assert [group["dimensions"]["template"] for group in groups] == ["z", "\U0001f600", "\ufb01"]


def test_an_attempt_is_randomized_when_a_grouped_dimension_was_drawn(item: Items, frame: Frame) -> None:
    draw = {"arm": "x", "propensity": 0.5, "arms": [{"arm": "x", "weight": 1}], "policy": None}
    rows = frame(
        item(1, draws=[{"dimension": "method", **draw}, {"dimension": "shim", **draw}]),
        item(2, draws=[{"dimension": "lesson", **draw}]),
        item(3),
    )

    def randomized(*dimensions: str) -> int:
        return sum(g["randomized"] for g in scorecard(rows, {"dimensions": list(dimensions)})["groups"])

    assert (randomized("method"), randomized("method", "shim"), randomized("model"), randomized()) == (
        1,
        1,
        0,
        0,
    )


def test_costs_of_two_currencies_are_never_mixed(item: Items, frame: Frame) -> None:
    def paid(amount: float, currency: str) -> dict[str, Any]:
        return {"learning": {"cost": {"amount": amount, "currency": currency, "source": "s"}}}

    rows = frame(
        item(1, report=paid(0, "USD")),
        item(2, report=paid(0.3, "USD")),
        item(3, report=paid(7, "EUR")),
        item(4),
    )

    (group,) = scorecard(rows, {"dimensions": []})["groups"]

    assert group["median_cost"] == {"USD": 0.15, "EUR": 7.0}


def test_a_run_for_a_surface_leaves_private_runs_out_but_reads_past_them(item: Items, frame: Frame) -> None:
    rows = frame(item(1), item(2, private=True))

    shown = scorecard(rows, surface={"queue": "q"})
    kept = scorecard(rows)

    assert shown["window"] == {"after": "0", "upto": "2", "count": 1}
    assert kept["window"] == {"after": "0", "upto": "2", "count": 2}
    assert shown["runs_sha256"] != kept["runs_sha256"]


def test_the_bytes_do_not_depend_on_the_order_of_the_rows(item: Items, frame: Frame) -> None:
    chance = random.Random(7)
    items = [
        item(
            number,
            kind=chance.choice(["verb.a", "verb.b"]),
            result=chance.choice(["accepted", "failed"]),
            failure_text=chance.choice([None, "x 1", "y"]),
            report={"learning": {"duration_seconds": chance.random()}},
        )
        for number in range(1, 200)
    ]
    shuffled = chance.sample(items, len(items))

    assert dumps(scorecard(frame(*items))) == dumps(scorecard(frame(*shuffled)))


def test_dimensions_other_than_the_default_are_part_of_the_key() -> None:
    scope = Scope("q", "verb.a b")

    keys = [
        LEARNER.state_key(scope, options)[1]
        for options in (
            {},
            {"dimensions": ["shim", "phrasing", "category", "template"]},
            {"dimensions": ["method", "category"], "last": 5},
            {"dimensions": []},
        )
    ]

    whole = "path_statistics:wilson-grouping:v1:q:kind=verb.a@20b"
    assert keys == [whole, whole, f"{whole}:category+method", f"{whole}:"]


@pytest.mark.parametrize(
    ("options", "path", "message"),
    [
        ({"dimensions": ["colour"]}, "options.dimensions[0]", "must be one of category, template"),
        ({"dimensions": ["shim", "shim"]}, "options.dimensions[1]", "must not be named twice"),
        ({"dimensions": "shim"}, "options.dimensions", "must be an array"),
        ({"dimensions": [1]}, "options.dimensions[0]", "must be a string"),
        ({"last": 0}, "options.last", "must be at least 1"),
        ({"last": True}, "options.last", "must be an integer"),
        ({"last": float("nan")}, "options.last", "must be an integer"),
        ({"window": 1}, "options.window", "is not a known field"),
    ],
)
def test_refused_options_are_named_by_path(options: dict[str, Any], path: str, message: str) -> None:
    (fault,) = LEARNER.option_faults(options, "options")

    assert fault.path == path
    assert fault.message.startswith(message)


def test_only_the_columns_that_are_read_are_needed(item: Items, frame: Frame) -> None:
    rows = frame(item(1, brief={"tags": ["a"]}), item(2))
    for options in ({}, {"dimensions": list(DIMENSIONS)}, {"dimensions": []}):
        run = Run(SPEC, Scope("q"), options)
        columns = LEARNER.reading(run).columns
        assert columns is not None

        narrow = LEARNER.learn(run, Evidence(rows.select(columns)))

        assert narrow.nouns == LEARNER.learn(run, Evidence(rows)).nouns


def test_categoricals_group_as_text_does(item: Items, frame: Frame) -> None:
    rows = frame(*(item(number, brief={"template": f"t{number % 3}"}) for number in range(1, 10)))

    assert scorecard(rows.with_columns(pl.col("template", "kind").cast(pl.Categorical))) == scorecard(rows)


def test_a_good_scorecard_passes_every_check(item: Items, frame: Frame) -> None:
    results = run_checks(LEARNER, learn(frame(item(1), item(2, result="failed"))))

    assert [result.name for result in results] == [check.name for check in LEARNER.checks]
    assert all(result.passed for result in results)


@pytest.mark.parametrize(
    ("spoil", "check"),
    [
        ({"wilson_low": 0.9}, "intervals_hold_rates"),
        ({"wilson_low": None}, "intervals_hold_rates"),
        ({"attempts": 3}, "counts_add_up"),
        ({"retried": 9}, "counts_add_up"),
    ],
)
def test_a_wrong_figure_fails_the_check_that_names_its_group(
    item: Items, frame: Frame, spoil: dict[str, Any], check: str
) -> None:
    outcome = learn(frame(item(1), item(2, result="failed")), {"dimensions": ["category"]})
    outcome.nouns[0].body["groups"][0].update(spoil)

    failed = {result.name: result.rows for result in run_checks(LEARNER, outcome) if not result.passed}

    assert list(failed) == [check]
    assert any('{"category":"verb.a"}' in row or "groups hold" in row for row in failed[check])


def test_a_group_that_stands_twice_and_runs_that_are_not_pinned_are_found(item: Items, frame: Frame) -> None:
    outcome = learn(frame(item(1)))
    body: Any = outcome.nouns[0].body
    body["groups"].append({**body["groups"][0], "attempts": 0, **dict.fromkeys(("accepted",), 0)})
    body["runs_sha256"] = "0" * 64

    failed = {result.name for result in run_checks(LEARNER, outcome) if not result.passed}

    assert {"groups_are_unique", "runs_are_pinned"} <= failed
