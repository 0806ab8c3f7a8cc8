"""Old runs taken out of Dagster's history, which keeps each one, with its tables and plots, for ever.

Promises to keep what is not finished, each queue's newest run, and the runs that last made an asset, so that
the UI and `workspace status` still say where everything stands. Leaves out the lake (`assets.upkeep`).
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import dagster as dg
from dagster._core.storage.event_log import SqliteEventLogStorage

from assets.partitions import queues
from pipelines.resources import PARTITION

Progress = Callable[[int], None]
_FINISHED = [dg.DagsterRunStatus.SUCCESS, dg.DagsterRunStatus.FAILURE, dg.DagsterRunStatus.CANCELED]


def remove(instance: dg.DagsterInstance, keep_days: float, progress: Progress | None = None) -> int:
    """Delete the runs that ended more than `keep_days` ago, their events, output and files; returns how many.

    Room in an SQLite history is used again, not given back. `progress` is told how many are done.
    """
    ended = dg.RunsFilter(statuses=_FINISHED, updated_before=datetime.now(UTC) - timedelta(days=keep_days))
    kept = _kept(instance)
    old = [run_id for run_id in instance.get_run_ids(ended) if run_id not in kept]
    for done, run_id in enumerate(old, start=1):
        _delete(instance, run_id)
        if progress is not None:
            progress(done)
    return len(old)


def _kept(instance: dg.DagsterInstance) -> set[str]:
    """The newest run of each queue, and those that last made an asset, of each queue and at all."""
    names = instance.get_dynamic_partitions(str(queues.name))
    kept: set[str] = set()
    for name in names:
        kept.update(instance.get_run_ids(dg.RunsFilter(tags={PARTITION: name}), limit=1))
    for asset in instance.all_asset_keys():
        for partitions in (None, *([name] for name in names)):
            made = dg.AssetRecordsFilter(asset, asset_partitions=partitions)
            kept.update(record.run_id for record in instance.fetch_materializations(made, limit=1).records)
    return kept


def _delete(instance: dg.DagsterInstance, run_id: str) -> None:
    """Its files last: a run without them would be an error in the UI, files without a run are nobody's."""
    instance.delete_run(run_id)
    instance.compute_log_manager.delete_logs(prefix=[run_id])
    events = instance.event_log_storage
    if isinstance(events, SqliteEventLogStorage):
        shard = Path(events.path_for_shard(run_id))
        for file in (shard, *(shard.with_name(shard.name + ending) for ending in ("-wal", "-shm"))):
            with suppress(FileNotFoundError):
                file.unlink()
