"""The asset `evaluation`, materialized in process: weights first, then what they would have achieved."""

import base64
import random
from typing import Any

import polars as pl
import pytest

from assets import specs
from assets.lake import Lake
from assets.views import View
from assets.writer import Writer
from learners.evaluation import LEARNER
from schemas import observations
from schemas.evaluation import body_faults
from tests.assets.learned import Workspace, checks, made
from tests.learners.conftest import attempt

NAME, WEIGHTS = "evaluation:off-policy:v1", "routing_weights:beta-bandit:v1"
AT = ("learn.outputs", f"{NAME}:q:method")
EVEN = {"fast": 0.5, "slow": 0.5}
ACCEPTED = {"fast": 0.9, "slow": 0.3}


def drawn(first: int, count: int, dimension: str = "method", even: Any = None) -> pl.DataFrame:
    """Runs that followed an even draw and were accepted with the arm's probability."""
    chance, made_items = random.Random(first), []
    arms = even or EVEN
    for number in range(first, first + count):
        arm = chance.choices(list(arms), list(arms.values()))[0]
        coin = {
            "dimension": dimension,
            "arm": arm,
            "propensity": arms[arm],
            "arms": [{"arm": name, "weight": weight} for name, weight in arms.items()],
            "policy": None,
        }
        ok = chance.random() < ACCEPTED.get(arm, 0.5)
        made_items.append(attempt(number, ok=ok, draws=[coin], **({"method": arm} if even is None else {})))
    return observations.frame(made_items)


def add(workspace: Workspace, rows: pl.DataFrame) -> None:
    lake: Lake = workspace.lake
    Writer(lake, "q", View.of(workspace.client.whoami())).append(rows, int(rows["cursor"][-1]))


@pytest.fixture
def weighed(workspace: Workspace) -> Workspace:
    """Weights for methods switched on, learned from 200 drawn runs, and an evaluation of them."""
    add(workspace, drawn(1, 200))
    specs.configure(workspace.client, WEIGHTS, "q", options={"dimension": "method"})
    specs.configure(workspace.client, NAME, "q", options={"dimension": "method"})
    return workspace


def test_the_runs_that_weights_were_learned_from_do_not_judge_them(weighed: Workspace) -> None:
    result = weighed.materialize("routing_weights", "evaluation")

    told = made(result, "evaluation")
    body = weighed.client.get_record(*AT)["body"]
    assert result.success
    assert body_faults(body) == []
    assert (told["verdict"], told["rows"]) == ("keep_baseline", 0)
    assert told["candidate"] == f"{WEIGHTS}:q:method version 1"
    assert told["plot"].startswith("Nothing to draw yet")
    assert {check.name for check in LEARNER.checks} <= {name for name, held in checks(result).items() if held}


def test_later_draws_judge_them_and_what_is_better_stands(weighed: Workspace) -> None:
    weighed.materialize("routing_weights", "evaluation")
    add(weighed, drawn(201, 400))

    told = made(weighed.materialize("routing_weights", "evaluation"), "evaluation")

    record = weighed.client.get_record(*AT)
    assert (told["verdict"], told["rows"]) == ("better", 400)
    assert told["standing"] == f"{WEIGHTS}:q:method version 1"
    assert told["data_version"] == record["sha256"]
    assert "| DR difference |" in told["table"]
    assert base64.b64decode(told["plot"].split("base64,")[1].rstrip(")")).startswith(b"\x89PNG")


def test_each_version_stays_in_the_lake(weighed: Workspace) -> None:
    weighed.materialize("routing_weights", "evaluation")
    add(weighed, drawn(201, 400))
    weighed.materialize("routing_weights", "evaluation")
    weighed.materialize("routing_weights", "evaluation")

    table = weighed.lake.scan("evaluations").collect()

    assert table.select("key", "version", "rows", "verdict").rows() == [
        (AT[1], 1, 0, "keep_baseline"),
        (AT[1], 2, 400, "better"),
    ]


def test_lessons_are_judged_in_nouns_of_their_own_that_are_written_again(workspace: Workspace) -> None:
    held = {"all": 0.8, "helps": 0.2}
    specs.configure(workspace.client, NAME, "q", options={"dimension": "lesson"})
    add(workspace, drawn(1, 30, "lesson", held))
    first = made(workspace.materialize("evaluation"), "evaluation")
    add(workspace, drawn(31, 30, "lesson", held))

    second = made(workspace.materialize("evaluation"), "evaluation")

    lesson = workspace.client.get_record("learn.outputs", f"{NAME}:q:lesson:helps")
    assert (first["lessons"], second["record_version"]) == (1, 2)
    assert (lesson["version"], lesson["body"]["rows"]) == (2, 60)
    assert workspace.lake.scan("evaluations").collect()["version"].to_list() == [1, 2, 1, 2]


def test_without_weights_there_is_no_candidate_and_the_noun_is_valid(workspace: Workspace) -> None:
    add(workspace, drawn(1, 10))
    specs.configure(workspace.client, NAME, "q", options={"dimension": "method"})

    told = made(workspace.materialize("evaluation"), "evaluation")

    assert (told["candidate"], told["rows"], told["verdict"]) == ("none", 0, "keep_baseline")
    assert body_faults(workspace.client.get_record(*AT)["body"]) == []
