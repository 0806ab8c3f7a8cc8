"""The lake: Delta tables of one key's view of one store, and the only way in and out of them.

Promises that each write is one commit against one snapshot, and that a reader sees one version or the next,
never a mix. The cursor of a queue is the application transaction of that name in `observations`, so that rows
and cursor cannot part; beside it, in the same commits, stands the fingerprint of the view that the rows
belong to. Leaves out what the rows mean and where they come from.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import polars as pl
import pyarrow.fs
from deltalake import CommitProperties, DeltaTable, Transaction, WriterProperties, write_deltalake
from deltalake.exceptions import DeltaError, TableNotFoundError
from deltalake.fs import DeltaStorageHandler

from assets import conditional_put, object_storage, snapshots
from assets.snapshots import Snapshot
from assets.spread import Spread
from assets.views import (
    AnotherSchemaError,
    AnotherStoreError,
    AnotherViewError,
    LakeConflictError,
    LakeError,
    View,
)
from schemas import observations
from tessera import canonical

LAKE_SCHEMA = "1"
TABLES = (
    "observations",
    "fingerprints",
    "scorecards",
    "routing_weights",
    "evaluations",
    "memory_entries",
    "review_outcomes",
    "quarantine",
)
VIEWS = {"queue": pl.String(), "fingerprint": pl.Int64(), "view": pl.String(), "name": pl.String()}

_STORE, _VERSION = "tessera.store_id", "tessera.lake_schema"
_STATISTICS = {"observations": "cursor,kind", "quarantine": "cursor", "views": "fingerprint"}
_QUEUE = re.compile(r"[A-Za-z0-9._-]{1,64}")
_NO_QUEUE = "__HIVE_DEFAULT_PARTITION__"  # how Delta's paths write that a row has no queue
# in a folder's path, by deltalake, which takes it for a URL
_MISREAD = re.compile(r"[\[\]^|\\]|%[0-9A-Fa-f]{2}")
_TRIES = 5
_REMOTE_CHECKPOINT = "10"  # commits; to open a table is two requests for each commit since the last one


class Lake:
    """Delta tables under `location`, a folder or `s3://bucket/prefix`.

    What object storage is told comes from the environment; `storage_options` go before that. `spread` is how
    work on a large queue is divided; it stays behind when the lake goes to another process.
    """

    def __init__(
        self,
        location: str,
        storage_options: Mapping[str, str] | None = None,
        spread: Spread = Spread(),  # noqa: B008 - it cannot be changed
    ) -> None:
        self.location = _usable(location.rstrip("/"))
        self.spread = spread
        told = object_storage.options(location)
        self._options = None if told is None else {**told, **(storage_options or {})}

    def __reduce__(self) -> tuple[type["Lake"], tuple[str, Mapping[str, str] | None]]:
        return Lake, (self.location, self._options)

    @property
    def parquet(self) -> WriterProperties:
        """How the lake's files are written."""
        return _PARQUET

    def beside(self, name: str) -> "Lake":
        """A lake of its own within this one's place, for data that is not this lake's yet."""
        return Lake(f"{self.location}/{name}", self._options)

    def uri(self, table: str) -> str:
        """Where a table lies."""
        return f"{self.location}/{table}"

    def filesystem(self, table: str) -> pyarrow.fs.FileSystem:
        """The files of a table by their paths in it, wherever it lies."""
        return pyarrow.fs.PyFileSystem(DeltaStorageHandler(self.uri(table), self._options))

    # --- what is there ------------------------------------------------------------------------------------

    def open(self, table: str, version: int | None = None) -> Snapshot | None:
        """The newest snapshot of a table, or that of a version; None where there is none.

        Refused if another version of the software wrote it.
        """
        with self.trouble(f"read {table}"):
            try:
                found = Snapshot(self.uri(table), self._options, version)
            except TableNotFoundError:
                return None
        written = found.metadata().configuration.get(_VERSION)
        if written != LAKE_SCHEMA:
            raise AnotherSchemaError(
                f"the lake at {self.location} has schema version {written}, this software reads and writes "
                f"{LAKE_SCHEMA}. Nothing was touched. Set TESSERA_LAKE to an empty place (the store still "
                "has every run; a pull fills it again), or run the version that wrote it."
            )
        return found

    def store_id(self) -> str | None:
        """The store that the lake was filled from; None while it is empty."""
        table = self.open("observations")
        return None if table is None else table.metadata().configuration[_STORE]

    def cursor(self, queue: str) -> int:
        """The cursor up to which the queue's runs are in the lake; 0 before the first pull."""
        table = self.open("observations")
        return 0 if table is None else table.transaction_version(queue) or 0

    def version(self, table: str) -> int | None:
        """The table's newest version; None where there is none."""
        found = self.open(table)
        return None if found is None else int(found.version())

    def queues(self) -> list[str]:
        """The queues that have rows, sorted."""
        table = self.open("observations")
        return [] if table is None else sorted(part["queue"] for part in table.partitions())

    def count(self, table: str, queue: str) -> int:
        """How many rows a table has of a queue."""
        found = self.open(table)
        return 0 if found is None else count_rows(found, queue)

    # --- whose it is --------------------------------------------------------------------------------------

    def check_store(self, store_id: str) -> None:
        """Refuse any store but the one that the lake was filled from."""
        table = self.open("observations")
        if table is not None:
            self._compare_store(table, store_id)

    def require_name(self, queue: str) -> None:
        """Refuse a name under which no table can hold rows."""
        if queue == _NO_QUEUE:
            raise LakeError(
                f"the lake cannot hold a queue named {queue}: its tables would read it as no queue at all. "
                "The store keeps its runs; enqueue further ones under another name"
            )

    def check_view(self, queue: str, view: View) -> None:
        """Refuse another store, and for a queue that has been pulled another key or other grants."""
        table = self.open("observations")
        if table is not None:
            self.compare_view(table, queue, view)

    def compare_view(self, table: Snapshot, queue: str, view: View) -> None:
        """Refuse another store or view than those that this snapshot of `observations` has of the queue."""
        self._compare_store(table, view.store_id)
        recorded = table.transaction_version(view_of(queue))
        if recorded is None or recorded == view.fingerprint:
            return
        raise AnotherViewError(
            f"the lake's runs of queue {queue} were read by {self._described(queue, recorded)}; now the key "
            f"is {view}. Another key or other grants see other runs, so the two are never mixed. Nothing was "
            f"touched. Run `workspace rebuild --queue {queue}` to read the queue anew under this key, or use "
            "the key of before."
        )

    def _compare_store(self, table: Snapshot, store_id: str) -> None:
        known = table.metadata().configuration[_STORE]
        if known != store_id:
            raise AnotherStoreError(
                f"the lake at {self.location} holds runs of store {known}, but {store_id} answers now. "
                "Nothing was touched. Set TESSERA_LAKE to another place for this store, or TESSERA_URL to "
                "the store that the lake belongs to."
            )

    def remember_view(self, queue: str, view: View) -> None:
        """Keep a view's particulars for a later refusal to name; the check needs only its number."""
        table = self.ensure("views", VIEWS, view.store_id)
        known = self.collect(table.lazy().filter(queue=queue, fingerprint=view.fingerprint))
        if known.is_empty():
            text = canonical.dumps(view.document()).decode()
            new = pl.DataFrame([(queue, view.fingerprint, text, str(view))], schema=VIEWS, orient="row")
            self.append(table, new, {})

    def _described(self, queue: str, fingerprint: int) -> str:
        views = self.open("views")
        if views is not None:
            found = self.collect(views.lazy().filter(queue=queue, fingerprint=fingerprint))
            if not found.is_empty():
                return str(found["name"][0])
        return "another key"

    # --- reading ------------------------------------------------------------------------------------------

    def scan(self, table: str) -> pl.LazyFrame:
        """A table's newest snapshot as a lazy frame, for `collect`. Raises LakeError where there is none."""
        found = self.open(table)
        if found is None:
            raise LakeError(f"the lake at {self.location} has no table {table} yet: `workspace run` fills it")
        return found.lazy()

    def collect(self, rows: pl.LazyFrame) -> pl.DataFrame:
        """What a frame over the lake's rows comes to. Raises LakeError when the storage fails meanwhile."""
        with self.trouble("read"):
            return rows.collect()

    def observations(
        self,
        queue: str,
        *,
        kind: str | None = None,
        after: int | None = None,
        first: int | None = None,
        last: int | None = None,
        upto: int | None = None,
        columns: Sequence[str] | None = None,
        version: int | None = None,
    ) -> pl.DataFrame:
        """A queue's rows in capture order: of one kind, with `after` < cursor <= `upto`.

        Of these the oldest `first` or the newest `last`, of these the `columns`; of a `version` of the table.
        Private rows are there and marked; the caller leaves them out of a surface.
        """
        wanted = list(columns) if columns is not None else list(observations.SCHEMA)
        table = self.open("observations", version)
        if table is None:
            return pl.DataFrame(schema=observations.SCHEMA).select(wanted)
        rows = table.lazy().filter(pl.col("queue") == queue)
        if kind is not None:
            rows = rows.filter(pl.col("kind") == kind)
        if after is not None:
            rows = rows.filter(pl.col("cursor") > after)
        if upto is not None:
            rows = rows.filter(pl.col("cursor") <= upto)
        if first is not None:
            rows = rows.filter(pl.col("cursor") <= self._bound(rows, pl.col("cursor").bottom_k(first).max()))
        if last is not None:
            rows = rows.filter(pl.col("cursor") >= self._bound(rows, pl.col("cursor").top_k(last).min()))
        return (
            self.collect(rows.select(list(dict.fromkeys([*wanted, "cursor"])))).sort("cursor").select(wanted)
        )

    def _bound(self, rows: pl.LazyFrame, expression: pl.Expr) -> pl.Expr:
        """The cursor that bounds a window; null, which no row passes, for a window without rows."""
        return pl.lit(self.collect(rows.select(expression)).item(), dtype=pl.Int64())

    # --- writing ------------------------------------------------------------------------------------------

    def write_table(self, table: str, queue: str, frame: pl.DataFrame) -> int:
        """Replace a queue's rows of a table in one commit; returns the new version."""
        store_id = self.store_id()
        if store_id is None:
            raise LakeError(f"the lake at {self.location} is empty: pull observations before {table}")
        for attempt in range(_TRIES):
            found = self.ensure(table, frame.schema, store_id)
            try:
                self.replace(found, queue, frame, {})
            except LakeConflictError:
                if attempt == _TRIES - 1:
                    raise
            else:
                break
        return int(found.version())

    def ensure(self, table: str, schema: Mapping[str, Any], store_id: str) -> Snapshot:
        """The table, made with the store's id and the schema version if it is not there yet."""
        found = self.open(table)
        if found is not None:
            return found
        configuration = {_STORE: store_id, _VERSION: LAKE_SCHEMA}
        if table in _STATISTICS:
            configuration["delta.dataSkippingStatsColumns"] = _STATISTICS[table]
        if self._options is not None:
            if table == "observations" or self.store_id() is None:
                conditional_put.check(self.location, self._options)
            configuration["delta.checkpointInterval"] = _REMOTE_CHECKPOINT
        with self.trouble(f"make {table}"):
            try:
                DeltaTable.create(
                    self.uri(table),
                    pl.DataFrame(schema=schema).to_arrow().schema,
                    partition_by=["queue"],
                    name=table,
                    configuration=configuration,
                    storage_options=self._options,
                    raise_if_key_not_exists=False,
                )
            except DeltaError:  # another process may have been first; what is there then decides
                if not DeltaTable.is_deltatable(self.uri(table), storage_options=self._options):
                    raise
        made = self.open(table)
        if made is None:
            raise LakeError(f"the table {table} at {self.location} vanished while it was made")
        return made

    def append(self, table: Snapshot, frame: pl.DataFrame, transactions: Mapping[str, int]) -> None:
        """Add rows, maybe none, and application transactions in one commit on this snapshot."""
        brought = properties(transactions)
        with self.trouble("write"):
            if frame.is_empty():
                table.create_write_transaction(
                    [], "append", table.schema(), partition_by=["queue"], commit_properties=brought
                )
                table.update_incremental()
                return
            write_deltalake(
                table, frame, mode="append", commit_properties=brought, writer_properties=_PARQUET
            )

    def replace(self, table: Snapshot, queue: str, rows: Any, transactions: Mapping[str, int]) -> None:
        """Replace a queue's rows, by a frame or an Arrow stream, in one commit on this snapshot."""
        if not _QUEUE.fullmatch(queue):
            raise LakeError(f"{queue!r} is no queue's name")
        with self.trouble("write"):
            write_deltalake(
                table,
                rows,
                mode="overwrite",
                predicate=f"queue = '{queue}'",
                commit_properties=properties(transactions),
                writer_properties=_PARQUET,
            )

    @contextmanager
    def trouble(self, doing: str) -> Iterator[None]:
        """Say what a fault of the storage means for the lake."""
        with snapshots.trouble(self.location, doing):
            yield


def _usable(location: str) -> str:
    misread = None if object_storage.is_remote(location) else _MISREAD.search(location)
    if misread is not None:
        raise LakeError(
            f"a lake cannot lie at {location}: Delta's software reads {misread[0]} in a path as another. "
            "Set TESSERA_LAKE to a folder whose path has none of [ ] ^ | \\ and no % before two hex digits"
        )
    return location


_PARQUET = WriterProperties(compression="ZSTD", compression_level=1)


def properties(transactions: Mapping[str, int]) -> CommitProperties:
    """A commit that brings application transactions with it."""
    return CommitProperties(app_transactions=[Transaction(name, at) for name, at in transactions.items()])


def view_of(queue: str) -> str:
    """The application transaction that holds a queue's view; no queue has a colon in its name."""
    return f"view:{queue}"


def count_rows(table: Snapshot, queue: str) -> int:
    """How many rows this snapshot has of a queue, by its log alone: also when a file of it is gone."""
    files = pl.DataFrame(table.get_add_actions(flatten=True))
    mine = files.filter(pl.col("partition.queue") == queue) if files.height else files
    if mine.height and mine["num_records"].null_count():
        rows = table.lazy().filter(pl.col("queue") == queue)
        with snapshots.trouble(table.table_uri, "read"):
            return int(rows.select(pl.len()).collect().item())
    return int(mine["num_records"].sum()) if mine.height else 0
