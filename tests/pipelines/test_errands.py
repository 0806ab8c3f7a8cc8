"""What a worker of a cluster does with a run that ended while it waited for its turn."""

import time
from typing import Any

import dagster as dg
import pytest
from dagster._core.execution.plan.state import KnownExecutionState
from dagster._serdes import serialize_value
from distributed import Client, LocalCluster, Lock

from pipelines import dispatch, errands, history
from pipelines.cluster import ClusterError
from pipelines.errands import Errand
from pipelines.instance import instance
from pipelines.resources import PARTITION
from tessera.settings import Settings


def test_a_run_that_was_canceled_while_it_waited_for_its_queue_does_nothing(environment: Any) -> None:
    settings = Settings.from_environment()
    with (
        LocalCluster(1, processes=False, threads_per_worker=1, dashboard_address="127.0.0.1:0") as cluster,
        Client(cluster) as client,
        instance(settings.dagster_home) as dagster,
    ):
        history.add_queues(dagster, ["packing"])
        job = dispatch.WORKSPACE.get_reconstructable_job("pull")
        run = dagster.create_run_for_job(
            job.get_definition(),
            tags={PARTITION: "packing"},
            status=dg.DagsterRunStatus.STARTED,
            job_code_origin=job.get_python_origin(),
        )
        errand = Errand(run.run_id, ("observations",), serialize_value(KnownExecutionState()), settings.lake)
        with Lock(f"tessera:{settings.lake}:packing"):
            waiting = client.submit(errands.do, errand)
            until = time.monotonic() + 30
            while not any(client.processing().values()) and time.monotonic() < until:
                time.sleep(0.01)
            time.sleep(0.5)  # it is asking for its turn by then
            dagster.report_run_canceled(run)

        with pytest.raises(ClusterError, match="is CANCELED by now, so nothing was done"):
            waiting.result(timeout=60)

        assert [entry for entry in dagster.all_logs(run.run_id) if errands.AT_WORK in entry.message] == []
