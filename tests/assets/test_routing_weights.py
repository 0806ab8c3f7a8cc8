"""The asset `routing_weights`, materialized in process over a real store and a real lake."""

import base64
from collections.abc import Callable
from typing import Any
from urllib.parse import quote

import polars as pl
import pytest

from assets import specs
from assets.learning import learning
from assets.routing_weights import SHOWN
from learners.contract import Run
from learners.routing_weights import LEARNER, RoutingWeights
from schemas import observations
from schemas.routing_weights import body_faults
from tests.assets.learned import Workspace, checks, failure, fill, made
from tests.learners.conftest import attempt

NAME = "routing_weights:beta-bandit:v1"


def rows(*said: dict[str, Any]) -> pl.DataFrame:
    """Attempts of queue ``q`` as rows, cursors from 1."""
    return observations.frame([attempt(number, **one) for number, one in enumerate(said, 1)])


@pytest.fixture
def worked(workspace: Workspace) -> Workspace:
    """Sixty runs in the lake: method ``fast`` accepted in 25 of 30, ``slow`` in 10 of 30."""
    said = [{"method": "fast", "ok": number >= 5} for number in range(30)]
    said += [{"method": "slow", "ok": number < 10} for number in range(30)]
    fill(workspace.client, workspace.lake, rows(*said, {"ok": False}))
    return workspace


def test_it_publishes_weights_and_shows_posteriors_and_weights(worked: Workspace) -> None:
    specs.configure(worked.client, NAME, "q", options={"dimension": "method"})

    result = worked.materialize("routing_weights")

    told = made(result, "routing_weights")
    record = worked.client.get_record("learn.outputs", f"{NAME}:q:method")
    assert body_faults(record["body"]) == []
    assert told["data_version"] == record["sha256"]
    assert (told["cursor"], told["runs"], told["arms"], told["categories"]) == ("61", 61, 2, 1)
    assert "| verb.summarize | fast | 30 | 25 | 0 | 0.812 |" in told["table"]
    assert "| verb.summarize | – | 1 | 0 |" in told["table"]
    assert base64.b64decode(told["plot"].split("base64,")[1].rstrip(")")).startswith(b"\x89PNG")
    assert base64.b64decode(told["over_versions"].split("base64,")[1].rstrip(")")).startswith(b"\x89PNG")
    assert told["noun"] == f"{worked.client.url}/v1/records/learn.outputs/{quote(record['key'])}?version=1"
    assert checks(result) == {check.name: True for check in LEARNER.checks}


def test_the_arms_are_in_the_lake_as_they_are_in_the_noun(worked: Workspace) -> None:
    specs.configure(worked.client, NAME, "q", options={"dimension": "method"})
    specs.configure(worked.client, NAME, "q", options={"dimension": "model", "known_arms": ["m1", "m2"]})

    worked.materialize("routing_weights")

    table = worked.lake.scan("routing_weights").collect()
    record = worked.client.get_record("learn.outputs", f"{NAME}:q:method")
    (category,) = record["body"]["categories"]
    of_method = table.filter(pl.col("dimension") == "method")
    assert of_method.select("key", "version", "arm", "attempts", "weight").rows() == [
        (record["key"], 1, arm["arm"], arm["attempts"], arm["weight"]) for arm in category["arms"]
    ]
    assert sorted(table.filter(pl.col("dimension") == "model")["arm"].to_list()) == ["m1", "m2"]


def test_weights_that_are_not_those_of_the_pinned_runs_are_never_published(
    worked: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    specs.configure(worked.client, NAME, "q", options={"dimension": "method"})
    right: Callable[..., pl.DataFrame] = Run.counted

    def learned_from_other_rows(self: RoutingWeights, run: Run, evidence: Any) -> Any:
        monkeypatch.setattr(Run, "counted", lambda self, seen: right(self, seen).head(10))
        try:
            return learn(self, run, evidence)
        finally:
            monkeypatch.setattr(Run, "counted", right)

    learn = RoutingWeights.learn
    monkeypatch.setattr(RoutingWeights, "learn", learned_from_other_rows)

    result = worked.materialize("routing_weights")

    assert not result.success
    assert checks(result)["counts_are_of_the_pinned_runs"] is False
    assert "recomputed" in failure(result)
    assert worked.client.list_records(store="learn.outputs")["items"] == []


def test_a_window_without_a_run_that_counts_gives_a_valid_noun(workspace: Workspace) -> None:
    fill(workspace.client, workspace.lake, rows({"method": "fast", "private": True}))
    specs.configure(workspace.client, NAME, "q", surface=True, options={"dimension": "method"})

    told = made(workspace.materialize("routing_weights"), "routing_weights")

    body = workspace.client.get_record("learn.outputs", f"{NAME}:q:method")["body"]
    assert body_faults(body) == []
    assert (body["categories"], body["cursor"], told["runs"]) == ([], "1", 0)
    assert "nan" not in told["table"].lower()


@pytest.mark.parametrize(
    ("options", "path"),
    [
        ({}, r"options\.dimension: is required"),
        ({"dimension": "colour"}, r"options\.dimension: must be one of"),
        ({"dimension": "method", "epsilon": 1.5}, r"options\.epsilon: must be between 0 and 1"),
        ({"dimension": "method", "known_arms": ["a", "a"]}, r"options\.known_arms\[1\]: must not be listed"),
        ({"dimension": "method", "known_arms": ["x" * 10_000]}, r"options\.known_arms\[0\]: must be at most"),
    ],
)
def test_bad_options_are_refused_with_their_path(
    workspace: Workspace, options: dict[str, Any], path: str
) -> None:
    from learners.contract import OptionsError

    with pytest.raises(OptionsError, match=path):
        specs.configure(workspace.client, NAME, "q", options=options)


def test_every_check_is_declared_by_the_asset_and_blocks() -> None:
    declared = {spec.name: spec.blocking for spec in learning.check_specs if spec.asset_key == SHOWN.key}

    assert declared == {check.name: True for check in LEARNER.checks}
