"""Runs of several queues on a cluster at once: as many as it has workers, each waited for by a thread here.

Promises the outcomes in the order of the queues, one failed queue stopping no other, and that an interrupt
ends the waits and is recorded. Leaves out the runs themselves (`pipelines.executor`).
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed

import dagster as dg
from dagster._core.definitions.reconstruct import ReconstructableRepository

from pipelines import cluster, executor, history
from pipelines.history import Outcome
from pipelines.resources import PARTITION

WORKSPACE = ReconstructableRepository.for_module("pipelines.definitions", "defs")


def run(
    address: str,
    job_name: str,
    instance: dg.DagsterInstance,
    names: Sequence[str],
    tell: Callable[[Outcome], None],
) -> list[Outcome]:
    """One run of a job for each queue, by the cluster at an address; `tell` is given each outcome at once.

    Raises ClusterError when the cluster cannot be reached or has no worker.
    """
    with cluster.connected(address) as client:
        at_once = cluster.require_workers(client, address)
    history.add_queues(instance, names)
    job, side = WORKSPACE.get_reconstructable_job(job_name), executor.Side()

    def one(name: str) -> Outcome:
        executor.side.set(side)
        with side.dagster:
            try:
                result = dg.execute_job(job, instance, tags={PARTITION: name}, run_config=history.QUIET)
            except Exception as error:  # of Dagster, or of the database that it writes its history into
                return Outcome(name, job_name, error=history.sentence(error))
            return history.outcome(result, name, job_name)

    found: dict[str, Outcome] = {}
    with ThreadPoolExecutor(min(at_once, len(names)), thread_name_prefix="queues") as threads:
        try:
            for done in as_completed([threads.submit(one, name) for name in names]):
                outcome = done.result()
                found[outcome.queue] = outcome
                tell(outcome)
        except BaseException:
            side.stop.set()
            threads.shutdown(wait=True, cancel_futures=True)
            raise
    return [found[name] for name in names]
