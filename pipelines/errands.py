"""A run's steps as one task of a Dask worker: what is sent there, and what the worker does.

Promises that the worker's own environment says where the store, the lake, the history and the key are, so
that no secret travels; that a worker of another history or lake refuses; and that neither two runs of one
queue nor two runs in one worker process work side by side. A task whose worker died is given to another,
which does all steps anew: what was committed stands, so it finds little left to do. Leaves out who sends it
(`pipelines.executor`).
"""

import os
import platform
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import dagster as dg
from dagster._core.execution.api import create_execution_plan, execute_plan
from dagster._core.execution.plan.state import KnownExecutionState
from dagster._core.execution.retries import RetryMode
from dagster._serdes import deserialize_value, serialize_value
from dagster._utils.hosted_user_process import recon_job_from_origin

from pipelines import turns
from pipelines.cluster import ClusterError
from pipelines.instance import instance
from pipelines.resources import PARTITION
from tessera.settings import Settings

AT_WORK = "at work on Dask worker"
_one_at_a_time = threading.Lock()  # Dagster captures the output of its process


@dataclass(frozen=True, slots=True)
class Errand:
    """What travels to a worker: names alone. ``known`` is Dagster's state of earlier attempts, serialized."""

    run_id: str
    steps: tuple[str, ...]
    known: str
    lake: str


def do(errand: Errand) -> list[str]:
    """Do a run's steps here, and return their events, serialized; they are in the history by then."""
    settings = Settings.from_environment()
    _refuse_another_lake(errand, settings)
    with instance(settings.dagster_home) as history, _alone_in_this_process():
        queue = _known(history, errand, settings).tags.get(PARTITION)
        with _turn(queue, errand):
            run = _known(history, errand, settings)  # as it is by now
            if run.is_finished:  # whoever started it is gone, or a person has stopped it
                raise ClusterError(f"run {run.run_id} is {run.status.value} by now, so nothing was done")
            history.report_engine_event(f"{AT_WORK} {_here()}, pid {os.getpid()}", run)
            return [serialize_value(event) for event in _events(history, run, errand)]


def _known(history: dg.DagsterInstance, errand: Errand, settings: Settings) -> dg.DagsterRun:
    run = history.get_run_by_id(errand.run_id)
    if run is None:
        raise ClusterError(
            f"{_here()} has another history, where run {errand.run_id} is not: give all workers the "
            f"DAGSTER_HOME, or its database, of whoever starts runs; here it is {settings.dagster_home}"
        )
    return run


def _events(history: dg.DagsterInstance, run: dg.DagsterRun, errand: Errand) -> list[dg.DagsterEvent]:
    if run.job_code_origin is None:
        raise ClusterError(f"run {run.run_id} does not say where its code is: start it by the workspace")
    job = recon_job_from_origin(run.job_code_origin).get_subset(
        op_selection=run.resolved_op_selection,
        asset_selection=run.asset_selection,
        asset_check_selection=run.asset_check_selection,
    )
    plan = create_execution_plan(
        job,
        run_config=run.run_config,
        step_keys_to_execute=list(errand.steps),
        known_state=deserialize_value(errand.known, KnownExecutionState),
    )
    kept = turns.kept.set(run.run_id)
    try:
        return list(
            execute_plan(plan, job, history, run, run_config=run.run_config, retry_mode=RetryMode.ENABLED)
        )
    finally:
        turns.kept.reset(kept)


def _refuse_another_lake(errand: Errand, settings: Settings) -> None:
    if settings.lake != errand.lake:
        raise ClusterError(
            f"{_here()} has another lake, {settings.lake}, than whoever started the run, {errand.lake}: give "
            "all of them the same TESSERA_LAKE"
        )


@contextmanager
def _alone_in_this_process() -> Iterator[None]:
    """Wait for a run of another thread; a place on the worker is not taken up meanwhile.

    The other may be waiting for parts of its work that need such a place.
    """
    if not _one_at_a_time.acquire(blocking=False):
        from distributed import rejoin, secede

        secede()
        _one_at_a_time.acquire()
        rejoin()
    try:
        yield
    finally:
        _one_at_a_time.release()


@contextmanager
def _turn(queue: str | None, errand: Errand) -> Iterator[None]:
    """The queue's turn on the whole cluster: a lock that the scheduler keeps while this process breathes.

    It outlives whoever started the run: a step that goes on without them still has the queue to itself.
    """
    from distributed import Lock

    lock = None if queue is None else Lock(f"tessera:{errand.lake}:{queue}")
    if lock is not None and not lock.acquire(timeout=turns.PATIENCE_SECONDS):
        raise turns.TurnError(
            f"another run of queue {queue} was still at work on the cluster after "
            f"{turns.PATIENCE_SECONDS:.0f} s, so this one did nothing; it is tried again, or run it again"
        )
    try:
        yield
    finally:
        if lock is not None:
            lock.release()


def _here() -> str:
    """This worker, as a person would look for it."""
    from distributed import get_worker

    worker: Any = get_worker()
    return f"{worker.name} on {platform.node()}"
