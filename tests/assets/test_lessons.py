"""The asset `lessons`, materialized in process after the scorecard that its lessons come from."""

import polars as pl
import pytest

from assets import specs
from learners.path_statistics import PathStatistics
from schemas import observations
from schemas.lessons import body_faults
from tests.assets.learned import Workspace, failure, fill, made, materialized
from tests.learners.conftest import attempt

NAME, CARD = "lessons:review-and-learn:v1", "path_statistics:wilson-grouping:v1"
WEIGHTS = "routing_weights:beta-bandit:v1"
AT = ("learn.memory", f"{NAME}:q:memory")


def attempts() -> pl.DataFrame:
    """Method ``fast`` accepted in 38 of 40, ``slow`` in 10 of 40."""
    said = [{"method": "fast", "ok": number >= 2} for number in range(40)]
    said += [{"method": "slow", "ok": number < 10} for number in range(40)]
    return observations.frame([attempt(number, **one) for number, one in enumerate(said, 1)])


def test_lessons_are_earned_by_the_figures_of_the_same_run(workspace: Workspace) -> None:
    fill(workspace.client, workspace.lake, attempts())
    specs.configure(workspace.client, CARD, "q", options={"dimensions": ["category", "method"]})
    specs.configure(workspace.client, NAME, "q")

    result = workspace.materialize("path_scorecard", "lessons")

    told = made(result, "lessons")
    body = workspace.client.get_record(*AT)["body"]
    outcomes = workspace.lake.scan("review_outcomes").collect()
    assert body_faults(body) == []
    assert told["lessons"] == len(body["entries"]) > 0
    assert body["cursor"] == "80"
    assert outcomes.filter(pl.col("outcome") == "applied").height == len(body["entries"])
    assert "fast" in told["table"]


def test_without_a_figure_nothing_is_enqueued_and_a_repeat_adds_nothing(workspace: Workspace) -> None:
    fill(workspace.client, workspace.lake, attempts())
    specs.configure(workspace.client, NAME, "q")
    alone = workspace.materialize("lessons")
    specs.configure(workspace.client, CARD, "q", options={"dimensions": ["category", "method"]})

    first = made(workspace.materialize("path_scorecard", "lessons"), "lessons")
    again = made(workspace.materialize("path_scorecard", "lessons"), "lessons")

    assert alone.success
    assert materialized(alone) == []
    assert (first["status"], again["status"], again["record_version"]) == ("published", "unchanged", 1)


def test_learners_that_a_queue_has_no_entry_for_hold_back_none_that_depend_on_them(
    workspace: Workspace,
) -> None:
    fill(workspace.client, workspace.lake, attempts())
    specs.configure(workspace.client, CARD, "q", options={"dimensions": ["category", "method"]})
    specs.configure(workspace.client, NAME, "q")

    result = workspace.materialize("path_scorecard", "routing_weights", "evaluation", "lessons")

    assert result.success
    assert materialized(result) == ["path_scorecard", "lessons"]


def test_a_learner_that_failed_holds_back_those_that_depend_on_it_and_no_other(
    workspace: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(workspace.client, workspace.lake, attempts())
    specs.configure(workspace.client, CARD, "q")
    specs.configure(workspace.client, WEIGHTS, "q", options={"dimension": "method"})
    specs.configure(workspace.client, NAME, "q")
    monkeypatch.setattr(PathStatistics, "learn", lambda *_: 1 / 0)

    result = workspace.materialize("path_scorecard", "routing_weights", "evaluation", "lessons")

    assert not result.success
    assert materialized(result) == ["routing_weights"]
    assert "path_statistics:wilson-grouping:v1 failed: ZeroDivisionError" in failure(result)
