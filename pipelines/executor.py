"""Where a run's steps are executed: in the run's own process, or, with TESSERA_DASK, by a cluster's worker.

On a cluster a run is one task, all its steps in a row: they depend on each other, so nothing is gained by
parting them, and a queue has one process at work. Whoever started the run keeps its queue's turn on that
machine and waits; Dask gives the task to another worker when its worker dies. Leaves out what the worker does
(`pipelines.errands`).
"""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from contextvars import ContextVar
from typing import Any

import dagster as dg
from dagster._core.errors import raise_execution_interrupts
from dagster._core.execution.retries import RetryMode
from dagster._serdes import deserialize_value, serialize_value

from pipelines import cluster
from pipelines.resources import PARTITION, turns_of
from pipelines.turns import KEEPER
from tessera.settings import Settings


class Side:
    """Several runs side by side in this process, one thread each: what they share.

    Dagster is not made for threads: one that sets up its logging and one that writes an event can wait for
    each other for ever. So a thread holds ``dagster`` but for the time in which it waits for the cluster.
    """

    def __init__(self) -> None:
        self.dagster = threading.Lock()
        self.stop = threading.Event()  # a signal reaches the main thread alone

    @contextmanager
    def waiting(self) -> Iterator[None]:
        """Let the others use Dagster meanwhile."""
        self.dagster.release()
        try:
            yield
        finally:
            self.dagster.acquire()


side: ContextVar[Side | None] = ContextVar("side", default=None)
"""What the run of this context shares with others in this process; None when it is alone."""


class OnDask(dg.Executor):
    """Sends a run's steps to the cluster at an address, and waits for them."""

    def __init__(self, address: str) -> None:
        self._address = address

    @property
    def retries(self) -> RetryMode:
        """Steps are retried where they run."""
        return RetryMode.DISABLED

    def execute(self, plan_context: Any, execution_plan: Any) -> Iterator[dg.DagsterEvent]:
        """The events of the steps, which are in the history already."""
        from pipelines.errands import Errand, do

        settings, run = Settings.from_environment(), plan_context.dagster_run
        errand = Errand(
            run.run_id,
            tuple(execution_plan.step_keys_to_execute),
            serialize_value(execution_plan.known_state),
            settings.lake,
        )
        plan_context.instance.add_run_tags(run.run_id, {KEEPER: turns_of(settings).name})
        plan_context.log.info(f"sent to the Dask cluster at {self._address}")
        with (
            raise_execution_interrupts(),
            self._turn(settings, run) as stopped,
            cluster.connected(self._address) as client,
        ):
            cluster.require_workers(client, self._address)
            future = client.submit(do, errand, key=f"tessera-{run.run_id}", pure=False)
            events = cluster.answer(client, future, stopped)
        for event in events:
            yield deserialize_value(event, dg.DagsterEvent)

    @contextmanager
    def _turn(self, settings: Settings, run: dg.DagsterRun) -> Iterator[Callable[[], bool]]:
        """The queue's turn on this machine; gives what says whether the wait is to end."""
        shared = side.get()
        with (
            nullcontext() if shared is None else shared.waiting(),
            turns_of(settings).take(run.tags.get(PARTITION), run.run_id),
        ):
            yield (lambda: False) if shared is None else shared.stop.is_set


def _by_settings(context: dg.InitExecutorContext) -> dg.Executor:
    address = Settings.from_environment().dask
    if address is not None:
        return OnDask(address)
    created = dg.in_process_executor.executor_creation_fn
    assert created is not None  # noqa: S101 - Dagster's own executor has one
    return created(context)


by_settings = dg.ExecutorDefinition(
    "by_settings",
    config_schema=dg.in_process_executor.config_schema.as_field(),
    executor_creation_fn=_by_settings,
    description="In the run's process; with TESSERA_DASK, all steps by one worker of that cluster.",
)
