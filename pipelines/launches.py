"""What Dagster's history says of a learner run's identity, and when it may be launched again.

Promises that one identity is never launched twice at once or after it succeeded, and that a run which failed
is tried again, later each time. A Dagster run that went through without its verb counts as one that failed.
Leaves out which identities are due (`pipelines.due`).
"""

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import dagster as dg

from assets import run_verbs
from assets.runs import Prepared
from pipelines.resources import PARTITION
from tessera.client import Client

IDENTITY, SPEC, ASSET = "tessera/identity", "tessera/spec", "tessera/asset"
LONGEST_WAIT_MINUTES = 60
MINUTE_SECONDS = 60.0
_TAG_CHARACTERS = 40  # of a value that names a tag: Dagster allows 63 after the slash

_IN_FLIGHT = [
    dg.DagsterRunStatus.QUEUED,
    dg.DagsterRunStatus.STARTING,
    dg.DagsterRunStatus.STARTED,
    dg.DagsterRunStatus.CANCELING,
]


@dataclass(frozen=True, slots=True)
class Launch:
    """Whether an identity may be launched now: ``attempt`` counts its runs that ended without success, and
    ``held`` is why not.
    """

    attempt: int
    held: str | None = None


def of(
    instance: dg.DagsterInstance, client: Client, prepared: Prepared, identity: str, now: float | None = None
) -> Launch:
    """What the history, and for a run that went through the store, say of an identity that is due.

    `now` is in seconds since 1970, by default the clock's.
    """
    records = _records(instance, {}, IDENTITY, identity)
    ended = [record for record in records if record.dagster_run.is_finished]
    if any(record.dagster_run.status in _IN_FLIGHT for record in records):
        return Launch(len(ended), "its run is under way")
    if not ended:
        return Launch(0)
    through = any(record.dagster_run.is_success for record in ended)
    if through and run_verbs.enqueue(client, prepared).state == "succeeded":
        return Launch(len(ended), "its verb has succeeded, and its state stands: nothing is left to do")
    last = max(record.end_time or record.update_timestamp.timestamp() for record in ended)
    left = last + wait_minutes(len(ended)) * MINUTE_SECONDS - (time.time() if now is None else now)
    if left > 0:
        return Launch(
            len(ended), f"failed {len(ended)} times, tried again in {left / MINUTE_SECONDS:.0f} minutes"
        )
    return Launch(len(ended))


def wait_minutes(failures: int) -> int:
    """How long to wait after the n-th failure: 2^n minutes, at most 60."""
    return int(min(2**failures, LONGEST_WAIT_MINUTES)) if failures < 10 else LONGEST_WAIT_MINUTES


def sibling_in_flight(instance: dg.DagsterInstance, queue: str, asset: str) -> bool:
    """Whether a run of the same asset and queue is under way: it does all of the asset's entries there."""
    return bool(_records(instance, {PARTITION: queue}, ASSET, asset, _IN_FLIGHT))


def tags(parts: Iterable[tuple[str, str]]) -> dict[str, str]:
    """The tags of a run for some identities, each with its asset.

    Those of the first are the plain ones; each further one has tags of its own, since a tag has one value.
    """
    (identity, asset), *further = parts
    named = {IDENTITY: identity, ASSET: asset}
    for other, its_asset in further:
        named |= {_also(IDENTITY, other): other, _also(ASSET, its_asset): its_asset}
    return named


def _also(tag: str, value: str) -> str:
    return f"{tag}.{value[:_TAG_CHARACTERS]}"


def _records(
    instance: dg.DagsterInstance,
    all_of: dict[str, str],
    tag: str,
    value: str,
    statuses: Sequence[dg.DagsterRunStatus] | None = None,
) -> list[dg.RunRecord]:
    """The runs that have a value under the plain tag or under its own name."""
    return [
        record
        for name in (tag, _also(tag, value))
        for record in instance.get_run_records(dg.RunsFilter(tags={**all_of, name: value}, statuses=statuses))
    ]
