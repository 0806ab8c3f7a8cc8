"""What stands in Dagster's history when a learner shouts, read back from there."""

from pathlib import Path
from typing import Any

import dagster as dg
import pytest

from assets import specs
from assets.failures import MOST_BYTES
from assets.other_learners import other_learners
from assets.partitions import queues
from assets.pull import pull
from learners.path_statistics import PathStatistics
from tests.assets.learned import Workspace, failure
from tests.assets.learning import found_by_entry_point, install
from tests.assets.odd_learner import ODD
from tests.assets.working import work

SHOUTED = 5_000_000
NAME = "path_statistics:wilson-grouping:v1"


@pytest.fixture
def worked(workspace: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Workspace:
    """Three runs in the lake, and the odd learner beside ours."""
    found_by_entry_point(tmp_path, monkeypatch)
    install(workspace.client, tmp_path / "odd", ODD)
    work(workspace.client, "q", "aaf")
    pull(workspace.client, workspace.lake, "q")
    return workspace


def others(workspace: Workspace) -> dg.ExecuteInProcessResult:
    """One run of the asset of other packages' learners."""
    workspace.instance.add_dynamic_partitions(str(queues.name), ["q"])
    return dg.materialize(
        [other_learners],
        partition_key="q",
        instance=workspace.instance,
        resources={"store": workspace.client, "lake": workspace.lake},
        raise_on_error=False,
    )


def longest_event(workspace: Workspace, run_id: str) -> int:
    """The length of the longest event that the history keeps of a run, as it is kept."""
    return max(len(dg.serialize_value(event)) for event in workspace.instance.all_logs(run_id))


@pytest.mark.parametrize(
    "options", [{"raises": SHOUTED}, {"wrong_by": 10**9 * 3, "shouts": SHOUTED}], ids=str
)
def test_another_packages_learner_that_shouts_leaves_short_events(
    worked: Workspace, options: dict[str, Any]
) -> None:
    """D17: five megabytes raised, and in a failed check's row beside a count of 3,000,000,000."""
    specs.configure(worked.client, ODD, "q", options=options)

    result = others(worked)

    assert not result.success
    assert "xxxxx" in failure(result)
    assert "nothing was published" in failure(result)
    assert longest_event(worked, result.run_id) < 5 * MOST_BYTES


def test_our_own_learner_that_shouts_leaves_short_events(
    worked: Workspace, monkeypatch: pytest.MonkeyPatch
) -> None:
    """D17."""

    def shout(*arguments: Any) -> Any:
        raise ValueError("x" * SHOUTED)

    monkeypatch.setattr(PathStatistics, "learn", shout)
    specs.configure(worked.client, NAME, "q")

    result = worked.materialize("path_scorecard")

    assert f"{NAME} failed: ValueError: xxxx" in failure(result)
    assert longest_event(worked, result.run_id) < 5 * MOST_BYTES
    (run,) = worked.client.iter_observations("learn.runs")
    assert len(run["server"]["failure_text"]) <= 2048
