"""Doing one learner run: claimed verb in, published nouns and a submitted report out.

Promises that a run ends in one of three ways: published (its nouns are written in one batch), superseded (a
success with nothing written, because the state moved on, be it by an earlier attempt of this very run), or
failed (nothing written, the reason submitted). Leaves out which run to do and where observations come from.
"""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from assets import runs
from assets.apart import Raised, TimeOver
from assets.leases import Lease
from assets.publish import BudgetCrossed, Status, UnreadableState, Verified, publish
from assets.run_reports import method, report, within
from assets.runs import Prepared
from learners.contract import Evidence
from tessera.client import Client
from tessera.errors import Conflict, TesseraError

Read = Callable[[Prepared], Evidence]

_FAILURE_BYTES, _SAID_BYTES = 64 << 10, 4 << 10


class RunFailed(TesseraError):  # noqa: N818 - the sentence reads as what it is
    """A run that went wrong in the learner's own code; the sentence names the error."""


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended well: ``records`` are those that now hold; ``work`` is null when nothing was made."""

    task_id: str
    status: Status
    records: tuple[Mapping[str, Any], ...]
    prepared: Prepared
    work: Verified | None = None

    def document(self) -> dict[str, Any]:
        """``{task_id, status, records}``."""
        records = [dict(record) for record in self.records]
        return {"task_id": self.task_id, "status": self.status, "records": records}


def perform(client: Client, task: Mapping[str, Any], read: Read) -> Ended:
    """Do a claimed run to its end and submit how it went.

    Raises what made it fail, after submitting that as the failure; LeaseLost when it is another worker's by
    now, and then submits nothing.
    """
    started = time.monotonic()
    with Lease(client, task) as lease:
        try:
            ended = _attempt(client, task, read, lease, started)
        except Exception as error:
            lease.check()
            _submit(client, lease, failure=error, brief=task["brief"], seconds=time.monotonic() - started)
            raise error if isinstance(error, TesseraError) else _named(task["brief"], error) from error
        _submit(client, lease, ended=ended, brief=task["brief"], seconds=time.monotonic() - started)
    return ended


def _attempt(client: Client, task: Mapping[str, Any], read: Read, lease: Lease, started: float) -> Ended:
    brief = task["brief"]
    prepared = runs.of_brief(client, brief)
    pinned = int(brief["state"]["version"])
    if prepared.state_version > pinned:
        return Ended(lease.task_id, "superseded", (_known(prepared.run.state),), prepared)
    if prepared.state_version < pinned:
        state = brief["state"]
        raise UnreadableState(state["store"], state["key"])
    clock = _Clock(prepared, started)
    lease.until = started + clock.seconds
    seen = read(prepared)
    clock.check()
    try:
        work = prepared.work(seen, clock.left())
    except TimeOver:
        raise clock.crossed() from None
    clock.check()
    lease.check()
    done = publish(client, work)
    return Ended(lease.task_id, done.status, done.records, prepared, work)


class _Clock:
    """The run's time, held against its budget."""

    def __init__(self, prepared: Prepared, started: float) -> None:
        self.seconds = float(prepared.spec["budget"]["runtime_seconds"])
        self._name, self._started = prepared.name, started

    def left(self) -> float:
        return self.seconds - (time.monotonic() - self._started)

    def check(self) -> None:
        if self.left() < 0:
            raise self.crossed()

    def crossed(self) -> BudgetCrossed:
        spent = time.monotonic() - self._started
        return BudgetCrossed(
            f"{self._name} crosses its budget of {self.seconds:g} runtime_seconds: {spent:.1f}; nothing "
            "was published"
        )


def _submit(
    client: Client,
    lease: Lease,
    *,
    brief: Any,
    seconds: float,
    ended: Ended | None = None,
    failure: Exception | None = None,
) -> None:
    """Submit the end of a run; what was published stands, whatever becomes of the submit."""
    said = None if failure is None else within(_sentence(failure), _FAILURE_BYTES)
    output = None
    if ended is not None:
        output = {name: value for name, value in ended.document().items() if name != "task_id"}
    status = None if ended is None else ended.status
    calls = ended.work.outcome.model_calls if ended is not None and ended.work is not None else 0
    try:
        client.submit(
            lease.task_id,
            lease.fence,
            failure is None,
            output=output,
            failure=said,
            execution_report=report(brief, seconds, status, said, calls),
        )
    except TesseraError as error:
        if failure is not None:
            failure.add_note(f"and the failure could not be submitted: {error}")
        elif not isinstance(error, Conflict) or client.get_task(lease.task_id)["state"] != "succeeded":
            raise


def _sentence(error: Exception) -> str:
    known = isinstance(error, TesseraError | Raised)
    return str(error) if known else f"{type(error).__name__}: {error}"


def _named(brief: Any, error: Exception) -> RunFailed:
    said = within(_sentence(error), _SAID_BYTES)
    return RunFailed(f"{method(brief)} failed: {said}; nothing was published")


def _known(state: Mapping[str, Any] | None) -> dict[str, Any]:
    return {name: state[name] for name in ("store", "key", "version", "sha256")} if state else {}
