"""What the server counts, in Prometheus's text format: requests, work done, rows written, sizes on disk.

Promises labels of bounded variety: methods, route templates, statuses and results, and no text that a caller
sent; hence no secret either. Counts are of this process since it started. Leaves out what is in the store.
"""

from collections.abc import Iterator

from prometheus_client import CONTENT_TYPE_PLAIN_0_0_4, CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import GaugeMetricFamily
from prometheus_client.registry import Collector

from tessera.store.database import Database

CONTENT_TYPE = CONTENT_TYPE_PLAIN_0_0_4
UNMATCHED = "unmatched"
"""The route of a request that found none."""
_METHODS = frozenset({"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"})
_BUCKETS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0)


class Metrics:
    """The counters of one server; safe to use from any thread."""

    def __init__(self, database: Database) -> None:
        self._registry = CollectorRegistry()
        registry = self._registry
        self._requests = Counter(
            "tessera_requests", "Requests answered.", ("method", "route", "status"), registry=registry
        )
        self._seconds = Histogram(
            "tessera_request_seconds", "Time to answer.", ("route",), buckets=_BUCKETS, registry=registry
        )
        self._enqueued = Counter("tessera_tasks_enqueued", "Tasks enqueued.", registry=registry)
        self._claimed = Counter("tessera_tasks_claimed", "Tasks claimed.", registry=registry)
        self._submitted = Counter(
            "tessera_submits", "Submits kept, repeats not counted.", ("result",), registry=registry
        )
        self._drawn = Counter("tessera_draws", "Coins thrown, repeats not counted.", registry=registry)
        self._records = Counter("tessera_records_written", "Record versions written.", registry=registry)
        self._rows = Counter(
            "tessera_rows_written",
            "Table rows inserted, changed or deleted, by route.",
            ("route",),
            registry=registry,
        )
        for result in ("accepted", "failed"):
            self._submitted.labels(result)
        self._registry.register(_Sizes(database))

    def answered(self, method: str, route: str, status: int, seconds: float) -> None:
        """A request was answered; ``route`` is the path's template."""
        known = method if method in _METHODS else "other"
        self._requests.labels(known, route, str(status)).inc()
        self._seconds.labels(route).observe(seconds)

    def wrote(self, route: str, rows: int) -> None:
        """A call wrote table rows."""
        self._rows.labels(route).inc(rows)

    def enqueued(self) -> None:
        """A task is new."""
        self._enqueued.inc()

    def claimed(self) -> None:
        """A task was handed out."""
        self._claimed.inc()

    def submitted(self, accepted: bool) -> None:
        """A submit was kept."""
        self._submitted.labels("accepted" if accepted else "failed").inc()

    def drawn(self) -> None:
        """A coin was thrown."""
        self._drawn.inc()

    def wrote_records(self, count: int) -> None:
        """Record versions were written."""
        self._records.inc(count)

    def exposition(self) -> bytes:
        """Everything, as Prometheus reads it."""
        return generate_latest(self._registry)


class _Sizes(Collector):
    """Bytes on disk, asked for when someone looks."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def collect(self) -> Iterator[GaugeMetricFamily]:
        size, log = self._database.sizes()
        yield GaugeMetricFamily("tessera_database_bytes", "Size of the database.", value=size)
        if log is not None:
            yield GaugeMetricFamily("tessera_database_log_bytes", "Size of its write-ahead log.", value=log)
