"""A Dask cluster to work on: reaching it, waiting for a task's answer, and `map` over its workers.

Promises a clear error within seconds when no scheduler answers at TESSERA_DASK, and that a wait ends when the
cluster does. Dask is imported only when a cluster is asked for. Leaves out what is done there
(`pipelines.errands`) and Dagster's side of it (`pipelines.executor`).
"""

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from assets.spread import Map, in_order
from tessera.errors import TesseraError
from tessera.settings import Settings

if TYPE_CHECKING:
    from distributed import Client, Future

CONNECT_SECONDS = 5.0
WORKER_SECONDS = 60.0  # to wait for a worker while there is none: a new one starts in a few seconds
_POLL_SECONDS = 0.05
_LOOK_SECONDS = 2.0  # how often a wait looks whether the cluster is still there


class ClusterError(TesseraError):
    """The cluster could not be reached, or was lost in the middle of the work."""


@contextmanager
def connected(address: str) -> "Iterator[Client]":
    """A client of the scheduler at an address; ClusterError when none answers there."""
    from distributed import Client, Security

    if address.startswith("tls://") and Security().get_connection_args("client")["ssl_context"] is None:
        raise ClusterError(
            f"TESSERA_DASK={address} asks for encryption, but Dask has no certificates: name them in its "
            "configuration, distributed.comm.tls.ca-file and those of the client"
        )
    try:
        client = Client(address, timeout=CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        raise ClusterError(
            f"no Dask scheduler answers at TESSERA_DASK={address} within {CONNECT_SECONDS:.0f} s "
            f"({_said(error)}): start it with `dask scheduler`, or unset TESSERA_DASK to work in this process"
        ) from None
    with client:
        yield client


def workers(client: "Client") -> int:
    """How many worker processes the cluster has now."""
    return len(client.scheduler_info()["workers"])


def require_workers(client: "Client", address: str, seconds: float = CONNECT_SECONDS) -> int:
    """How many worker processes there are; ClusterError when there is none after so many seconds."""
    try:
        client.wait_for_workers(1, timeout=seconds)
    except TimeoutError:
        raise ClusterError(
            f"the Dask scheduler at TESSERA_DASK={address} has no worker: start some with "
            f"`dask worker {address} --nthreads 1`"
        ) from None
    return workers(client)


def answer(
    client: "Client",
    future: "Future[Any]",
    stopped: Callable[[], bool] = lambda: False,
    patience: float = WORKER_SECONDS,
) -> Any:
    """Wait for a task and return its answer, or raise what it raised; withdraw it when the wait ends early.

    Raises ClusterError when the scheduler is gone, no worker was there for `patience` seconds, or the task
    took several workers down; KeyboardInterrupt when `stopped` says so.
    """
    from distributed import KilledWorker

    try:
        _wait(client, future, stopped, patience)
        if future.cancelled():
            raise ClusterError("the Dask scheduler went away with the work; what was committed stands")
        return future.result()
    except KilledWorker:
        raise ClusterError(
            "one Dask worker after the other died at this work, so it was given up: see the workers' logs; "
            "too little memory is the usual cause"
        ) from None
    finally:
        if not future.done():
            future.cancel()


def _wait(client: "Client", future: "Future[Any]", stopped: Callable[[], bool], patience: float) -> None:
    lonely = None
    looked = time.monotonic()
    while not future.done():
        if stopped():
            raise KeyboardInterrupt
        time.sleep(_POLL_SECONDS)
        if time.monotonic() - looked < _LOOK_SECONDS:
            continue
        looked = time.monotonic()
        if client.status != "running":
            continue  # it is connecting anew; the futures of a lost scheduler are cancelled
        try:
            alone = workers(client) == 0
        except OSError:
            continue
        if not alone:
            lonely = None
        elif lonely is None:
            lonely = time.monotonic()
        elif time.monotonic() - lonely > patience:
            raise ClusterError(
                f"the Dask cluster has had no worker for {patience:.0f} s: start one, then run this again"
            )


def mapper() -> Map:
    """`map` for the parts of a large work: over the cluster's workers, in order; else the built-in one.

    A task of the cluster may use it too: it gives its place to the parts while it waits for them. A part
    whose worker died is computed by another; one more than there are workers is under way at once.
    """
    address = Settings.from_environment().dask
    if address is None and not _inside():
        return map
    return _Workers(address)


class _Workers:
    """A map over a cluster: that of the task it is used in, else the one at an address."""

    def __init__(self, address: str | None) -> None:
        self._address = address

    def __call__(self, function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        """Results in the order of the items; raises what the function raises, and ClusterError."""
        with self._client() as client:
            computing = in_order(
                lambda item: client.submit(function, item, pure=False), items, workers(client)
            )
            for future in computing:
                yield answer(client, future)

    @contextmanager
    def _client(self) -> "Iterator[Client]":
        if self._address is None or _inside():
            from distributed import worker_client

            with worker_client() as client:
                yield client
        else:
            with connected(self._address) as client:
                require_workers(client, self._address)
                yield client


def _inside() -> bool:
    """Whether this is a task of a Dask worker. A process that never loaded Dask is none."""
    if "distributed" not in sys.modules:
        return False
    from distributed import get_worker

    try:
        get_worker()
    except ValueError:
        return False
    return True


def _said(error: BaseException) -> str:
    return " ".join(str(error).split()) or type(error).__name__
