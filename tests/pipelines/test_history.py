"""A run in this process and what it leaves to whoever started it."""

import sqlite3
from contextlib import closing
from pathlib import Path

import dagster as dg
import pytest

from assets.partitions import queues
from pipelines import history
from pipelines.instance import instance


@pytest.mark.parametrize("raised", [KeyboardInterrupt, dg.DagsterExecutionInterruptedError])
def test_a_run_whose_process_is_asked_to_end_is_an_interrupt_and_recorded_as_failed(
    raised: type[BaseException],
) -> None:
    @dg.asset(partitions_def=queues)
    def interrupted() -> None:
        raise raised

    job = dg.define_asset_job("stopped", selection=[interrupted])
    resolved = dg.Definitions(assets=[interrupted], jobs=[job]).resolve_job_def("stopped")
    with dg.DagsterInstance.ephemeral() as instance:
        with pytest.raises(KeyboardInterrupt):
            history.run(resolved, instance, "q")
        [record] = instance.get_run_records()

    assert record.dagster_run.status is dg.DagsterRunStatus.FAILURE


def test_a_history_that_fails_in_between_is_the_outcome_of_that_queue_and_not_raised(tmp_path: Path) -> None:
    @dg.asset(partitions_def=queues)
    def made() -> None:
        """Nothing."""

    job = dg.define_asset_job("whole", selection=[made])
    resolved = dg.Definitions(assets=[made], jobs=[job]).resolve_job_def("whole")
    with instance(tmp_path) as dagster:
        before = history.run(resolved, dagster, "q")
        with closing(sqlite3.connect(tmp_path / "history" / "runs.db")) as database:
            database.execute("DROP TABLE runs")

        after = history.run(resolved, dagster, "q")

    assert before.ok
    assert after.error == "NoSuchTableError: runs"
