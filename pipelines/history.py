"""Running the jobs in this process, and reading back what they left in Dagster's history.

Promises that each run is recorded in the instance, so that the UI shows it, and that a failure comes back as
one sentence. Leaves out what is printed.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any

import dagster as dg
from dagster_shared.error import SerializableErrorInfo

from assets.partitions import queues
from tessera.cli.terminal import one_line
from tessera.errors import TesseraError

_OURS = (
    "tessera.",
    "assets.",
    "pipelines.",
    "schemas.",
    "learners.",
    "dagster._core.definitions.events.Failure",
)
"""Errors whose sentence is ours, so that their class need not be told."""
QUIET = {"loggers": {"console": {"config": {"log_level": "CRITICAL"}}}}


@dataclass(slots=True)
class Outcome:
    """How one queue's run went: its id, what was materialized with which metadata, or the error."""

    queue: str
    job: str
    run_id: str | None = None
    error: str | None = None
    materialized: dict[str, dict[str, Any]] = field(default_factory=dict)

    @property
    def ok(self) -> bool:
        """Whether the whole run succeeded."""
        return self.error is None

    def document(self) -> dict[str, Any]:
        """The outcome as a JSON object."""
        return {
            "queue": self.queue,
            "job": self.job,
            "ok": self.ok,
            "run_id": self.run_id,
            "error": self.error,
            "materialized": self.materialized,
        }


def add_queues(instance: dg.DagsterInstance, names: Sequence[str]) -> None:
    """Make the queues partitions, those that are not yet."""
    known = set(instance.get_dynamic_partitions(str(queues.name)))
    instance.add_dynamic_partitions(str(queues.name), [name for name in names if name not in known])


def run(job: dg.JobDefinition, instance: dg.DagsterInstance, queue: str) -> Outcome:
    """One run of a job for a queue, in this process; an error of it is an outcome, not raised.

    A signal that asks this process to end is a KeyboardInterrupt, whatever Dagster makes of it.
    """
    try:
        add_queues(instance, [queue])
        result = job.execute_in_process(
            instance=instance, partition_key=queue, raise_on_error=False, run_config=QUIET
        )
    except Exception as error:  # of Dagster, or of the database that it writes its history into
        return Outcome(queue, job.name, error=sentence(error))
    except dg.DagsterExecutionInterruptedError as interrupted:
        raise KeyboardInterrupt from interrupted
    return outcome(result, queue, job.name)


def outcome(result: dg.ExecuteInProcessResult | dg.JobExecutionResult, queue: str, job: str) -> Outcome:
    """What a run's events say of it; one whose process was asked to end is a KeyboardInterrupt."""
    if any(_interrupted(event) for event in result.all_events):
        raise KeyboardInterrupt  # Dagster took it for a failure of the run, which is recorded
    found = Outcome(queue, job, run_id=result.run_id)
    for event in result.all_events:
        if event.is_step_materialization:
            made = event.step_materialization_data.materialization
            found.materialized[made.asset_key.to_user_string()] = _plain(made.metadata)
    if not result.success:
        found.error = "; ".join(_failures(result.all_events)) or "the run failed; see its log in the UI"
    return found


def report(instance: dg.DagsterInstance, asset: str, queue: str, metadata: dict[str, Any]) -> None:
    """Record in the history what was made outside a job."""
    add_queues(instance, [queue])
    instance.report_runless_asset_event(
        dg.AssetMaterialization(asset_key=asset, partition=queue, metadata=metadata)
    )


def last_materializations(instance: dg.DagsterInstance, assets: Iterable[str], queue: str) -> dict[str, Any]:
    """By asset, when it was last made for the queue and by which run; null where it never was."""
    found: dict[str, Any] = {}
    for asset in assets:
        records = instance.fetch_materializations(
            dg.AssetRecordsFilter(dg.AssetKey(asset), asset_partitions=[queue]), limit=1
        ).records
        found[asset] = None
        if records:
            made = datetime.fromtimestamp(records[0].timestamp, UTC)
            when = made.isoformat(timespec="milliseconds").replace("+00:00", "Z")
            found[asset] = {"at": when, "run_id": records[0].run_id or None}
    return found


def last_failure(instance: dg.DagsterInstance, queue: str) -> dict[str, Any] | None:
    """The queue's newest run, if it failed: when and what it said."""
    newest = instance.get_run_records(dg.RunsFilter(tags={"dagster/partition": queue}), limit=1)
    if not newest or newest[0].dagster_run.status is not dg.DagsterRunStatus.FAILURE:
        return None
    [record] = newest
    run_id = record.dagster_run.run_id
    events = [entry.dagster_event for entry in instance.all_logs(run_id) if entry.dagster_event is not None]
    return {"run_id": run_id, "error": "; ".join(_failures(events)) or "see its log in the UI"}


def sentence(error: BaseException) -> str:
    """An error in one line, without its class when the sentence is ours."""
    if isinstance(error, TesseraError):
        return one_line(error)
    return f"{type(error).__name__}: {' '.join(str(error).split())}"


def _interrupted(event: dg.DagsterEvent) -> bool:
    """Whether a run ended because its process was asked to."""
    if event.event_type is not dg.DagsterEventType.RUN_FAILURE:
        return False
    reason = event.job_failure_data.failure_reason
    return reason is not None and reason.value == "UNEXPECTED_TERMINATION"


def _failures(events: Sequence[dg.DagsterEvent]) -> list[str]:
    errors = [event.step_failure_data.error for event in events if event.is_step_failure]
    if not errors:  # no step was to blame, so the run says itself what went wrong
        errors = [event.job_failure_data.error for event in events if event.is_run_failure]
    return list(dict.fromkeys(_root(error) for error in errors if error is not None))


def _root(error: SerializableErrorInfo) -> str:
    """The message of the error that began it, not of Dagster's wrapping."""
    while error.cause is not None and (error.cls_name or "").startswith("Dagster"):
        error = error.cause
    name, _, rest = error.message.strip().partition(": ")
    if name.startswith(_OURS) and rest:
        return one_line(rest)
    return " ".join(error.message.split())


def _plain(metadata: Any) -> dict[str, Any]:
    """Numbers and short texts of an event's metadata; tables and plots are for the UI."""
    short = (dg.IntMetadataValue, dg.FloatMetadataValue, dg.TextMetadataValue)
    return {name: value.value for name, value in metadata.items() if isinstance(value, short)}
