"""A run in this process and what it leaves to whoever started it."""

import dagster as dg
import pytest

from assets.partitions import queues
from pipelines import history


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
