"""Which config entries have enough new work for a run, by the store alone.

Promises that the answer does not depend on Dagster's history or on a remembered cursor, so that nothing is
dropped when either is lost: an entry stays due until its state has moved. Leaves out launching.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from assets import runs, specs
from assets.runs import Prepared
from learners.contract import FollowsRecords, Scope
from pipelines.schedules import newest_window_end
from tessera.client import Client
from tessera.errors import ConnectionFault, TesseraError, Unauthorized, Unavailable

NEW = "new observations"
AWAY = (ConnectionFault, Unavailable, Unauthorized)
"""What a store raises that does not answer, or not to this key: no fault of what was asked about."""


@dataclass(frozen=True, slots=True)
class Entry:
    """Where one config entry stands: how much waits after its state's cursor, and why it is due, if it is.

    ``waiting`` counts up to ``trigger``, which is null for a spec without a threshold; ``problem`` is why the
    entry cannot run.
    """

    spec: str
    queue: str
    mode: str
    identity: str | None = None
    cursor: str = "0"
    waiting: int = 0
    trigger: int | None = None
    reason: str | None = None
    problem: str | None = None
    prepared: Prepared | None = None

    def document(self) -> dict[str, Any]:
        """The entry as a JSON object."""
        names = ("spec", "mode", "identity", "cursor", "waiting", "trigger", "reason", "problem")
        return {name: getattr(self, name) for name in names}


def of_queue(client: Client, queue: str, config: Mapping[str, Any] | None = None) -> Iterator[Entry]:
    """Each entry of a queue that is not off. A store that does not answer is raised; others are told.

    ``config`` is the body of the config noun, when it has been read already.
    """
    try:
        entries = specs.entries_of(client, queue, config)
    except AWAY:
        raise
    except TesseraError as error:
        yield Entry("config", queue, "off", problem=str(error))
        return
    for entry in entries:
        try:
            yield of_entry(client, entry, entries)
        except AWAY:
            raise
        except TesseraError as error:
            yield Entry(entry["spec"], queue, entry["mode"], problem=str(error))


def config_of(client: Client) -> Mapping[str, Any] | None:
    """The body of the config noun, read once for all queues; None for one that each queue is to tell of."""
    try:
        return specs.config(client)[1]
    except specs.ConfigError:
        return None


def of_entry(client: Client, entry: Mapping[str, Any], entries: Sequence[Mapping[str, Any]] = ()) -> Entry:
    """Where an entry stands now."""
    prepared = runs.prepare(client, entry, entries)
    run, state = prepared.run, prepared.run.state
    cursor = "0" if state is None else runs.cursor_of(state)
    trigger: int | None = prepared.spec["trigger"].get("new_observations")
    waiting = 0
    if trigger is not None:
        answer = client.pending(run.scope.queue, kind=run.scope.kind, after=cursor, cap=min(trigger, 10_000))
        waiting = int(answer["count"])
    return Entry(
        spec=entry["spec"],
        queue=entry["queue"],
        mode=entry["mode"],
        identity=runs.identity(prepared.brief()),
        cursor=cursor,
        waiting=waiting,
        trigger=trigger,
        reason=_reason(client, prepared, waiting, trigger),
        prepared=prepared,
    )


def _reason(client: Client, prepared: Prepared, waiting: int, trigger: int | None) -> str | None:
    """Why the entry is to run now: what the trigger counts, or a change that makes it start anew."""
    unasked = prepared.due(_nothing_later)
    if unasked is not None and unasked != NEW:
        return unasked
    if isinstance(prepared.learner, FollowsRecords) and unasked is None:
        return None
    if trigger is not None:
        return f"{waiting} new observations" if waiting >= trigger else None
    schedule = prepared.spec["trigger"].get("schedule")
    if schedule is None:
        return None  # on demand: whoever wants it enqueues it
    ended, state = newest_window_end(client, schedule), prepared.run.state
    if ended is None or (state is not None and str(state["created_at"]) >= ended):
        return None
    return f"schedule {schedule}" if prepared.due(runs.later_in_store(client)) is not None else None


def _nothing_later(_: Scope, __: str) -> bool:
    return False
