"""What `workspace doctor` looks at: files, cursors and rows of the lake, nouns and their pins, and runs.

Promises to read and never to write, and that each finding says where, what is wrong and what to do. Rows are
counted against the store up to the lake's cursor; the first and the newest hundred of a queue are compared to
the bit. Leaves out mending: each remedy is a command of its own.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass
from typing import Any

import polars as pl

from assets.lake import TABLES, Lake
from assets.upkeep import damaged, files
from assets.views import LakeError, View
from pipelines import resources, turns
from pipelines.due import AWAY
from schemas import pages
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import NotFound, TesseraError
from tessera.settings import Settings

NOUN_STORES = ("learn.specs", "learn.outputs", "learn.memory", "learn.schedules")
COUNTED_AT_ONCE = 10_000
_COMPARED = 100
_NOUN_TABLES = ("scorecards", "routing_weights", "evaluations", "memory_entries", "review_outcomes")


@dataclass(frozen=True, slots=True)
class Finding:
    """One thing that is wrong: where, what, and what to do about it."""

    where: str
    problem: str
    remedy: str

    def document(self) -> dict[str, str]:
        """As a JSON object."""
        return asdict(self)


@dataclass(slots=True)
class Looked:
    """What was looked at and what was found; nothing found is a clean bill."""

    findings: list[Finding]
    counts: dict[str, int]

    def count(self, what: str, number: int = 1) -> None:
        """Add to what was looked at."""
        self.counts[what] = self.counts.get(what, 0) + number

    def add(self, where: str, problem: str, remedy: str) -> None:
        """Add a finding."""
        self.findings.append(Finding(where, problem, remedy))


def examine(settings: Settings, client: Client, chosen: list[str] | None = None) -> Looked:
    """Look at everything, or at the chosen queues and all nouns. Raises when the store does not answer."""
    looked = Looked([], {})
    lake, view = Lake(settings.lake), View.of(client.whoami())
    lake.check_store(view.store_id)
    broken = _files(lake, looked)
    for queue in chosen or lake.queues():
        looked.count("queues")
        if queue in broken:
            continue  # nothing can be said of rows that cannot be read
        try:
            lake.check_view(queue, view)
            _rows(lake, client, queue, looked)
        except AWAY:
            raise
        except TesseraError as error:
            looked.add(f"queue {queue}", str(error), f"workspace rebuild --queue {queue}")
    _nouns(client, lake, looked)
    if not broken:
        _tables(client, lake, looked)
    _runs(settings, looked)
    return looked


def _files(lake: Lake, looked: Looked) -> set[str]:
    """Each file that the log names is there, whole; returns the queues whose observations are not."""
    broken: set[str] = set()
    for name in (*TABLES, "views"):
        try:
            table = lake.open(name)
        except LakeError as error:
            looked.add(f"table {name}", str(error), "restore the table's folder from a backup")
            continue
        if table is None:
            continue
        looked.count("files", files(table))
        for queue, problem in damaged(table):
            looked.add(f"table {name}, queue {queue}", problem, _remedy(name, queue))
            if name == "observations":
                broken.add(queue)
    return broken


def _remedy(table: str, queue: str) -> str:
    if table in ("observations", "quarantine"):
        return f"workspace rebuild --queue {queue}"
    if table == "views":
        return "nothing is lost but the name of a key in a refusal: workspace rebuild names it again"
    return f"workspace rebuild --queue {queue} and then workspace run --queue {queue}"


def _rows(lake: Lake, client: Client, queue: str, looked: Looked) -> None:
    """The lake's rows of a queue against the store: order, number, and some of them to the bit."""
    where, remedy = f"queue {queue}", f"workspace rebuild --queue {queue}"
    cursor = lake.cursor(queue)
    rows = lake.observations(queue, columns=["cursor", "run_id"])
    looked.count("rows", rows.height)
    cursors = rows["cursor"]
    distinct = min(cursors.n_unique(), rows["run_id"].n_unique())
    if distinct != rows.height:
        looked.add(where, f"{rows.height - distinct} runs or cursors stand twice in the lake", remedy)
    if rows.height and int(cursors[-1]) > cursor:
        looked.add(where, f"the lake has a row at {cursors[-1]}, behind its own cursor {cursor}", remedy)
    readable = _count(client, queue, 0) - _count(client, queue, cursor)
    quarantined = _quarantined(lake, queue)
    if rows.height + quarantined != readable:
        fewer = "" if rows.height + quarantined < readable else " --allow-fewer"
        looked.add(
            where,
            f"up to cursor {cursor} the store has {readable} readable runs, the lake {rows.height} rows and "
            f"{quarantined} in quarantine",
            remedy + fewer,
        )
        return
    differing = _differing(lake, client, queue, rows)
    looked.count("rows compared to the bit", min(rows.height, 2 * _COMPARED))
    if differing:
        looked.add(where, f"{len(differing)} rows differ from the store, the first {differing[0]}", remedy)


def _count(client: Client, queue: str, after: int) -> int:
    """How many readable runs lie after a cursor, however many."""
    total, cursor = 0, str(after)
    while True:
        answer = client.pending(queue, after=cursor, cap=COUNTED_AT_ONCE)
        total += int(answer["count"])
        if not answer["capped"] or answer["last"] in (None, cursor):
            return total
        cursor = str(answer["last"])


def _quarantined(lake: Lake, queue: str) -> int:
    """How many runs are in quarantine; one may be there for several reasons."""
    table = lake.open("quarantine")
    if table is None:
        return 0
    mine = lake.collect(table.lazy().filter(pl.col("queue") == queue).select("item_sha256"))
    return mine["item_sha256"].n_unique()


def _differing(lake: Lake, client: Client, queue: str, rows: pl.DataFrame) -> list[str]:
    """The run ids whose row is not what the store says now, of the first hundred and the newest."""
    if not rows.height:
        return []
    starts = {0, int(rows["cursor"][max(0, rows.height - _COMPARED)]) - 1}
    found: list[str] = []
    for start in sorted(starts):
        theirs = pages.read([client.observation_page(queue, after=str(start), limit=_COMPARED)], queue).rows
        ours = lake.observations(queue, after=start, first=_COMPARED)
        last = int(ours["cursor"][-1]) if ours.height else start
        theirs = theirs.filter(pl.col("cursor") <= last)
        if theirs.height == ours.height and theirs.equals(ours.select(theirs.columns)):
            continue
        by_run = {row["run_id"]: row for row in theirs.to_dicts()}
        found += [row["run_id"] for row in ours.to_dicts() if by_run.get(row["run_id"]) != row]
    return list(dict.fromkeys(found))


def _nouns(client: Client, lake: Lake, looked: Looked) -> None:
    """Each noun's digest, its pins and its cursor."""
    known: dict[tuple[str, str, int], str | None] = {}
    for store in NOUN_STORES:
        for record in _newest(client, store):
            looked.count("nouns")
            where = f"noun {store}/{record['key']} version {record['version']}"
            if digest(record["body"]) != record["sha256"]:
                looked.add(where, "its body is not what its sha256 says", "restore the store from a backup")
            for pin in _pins(record["body"], store):
                looked.count("pins")
                problem = _fault_of_pin(client, pin, known)
                if problem is not None:
                    looked.add(where, problem, _refresh(record))
            _cursor(client, lake, record, where, looked)


def _newest(client: Client, store: str) -> Iterator[dict[str, Any]]:
    after: str | None = None
    while True:
        page = client.list_records(store=store, after=after)
        for item in page["items"]:
            yield client.get_record(store, item["key"])
        if not page["has_more"]:
            return
        after = page["next_after"]


def _pins(value: Any, store: str) -> Iterator[dict[str, Any]]:
    """Everything in a body that names a record's version: `{key, version}` with a store or a digest."""
    if isinstance(value, Mapping):
        named = isinstance(value.get("key"), str) and isinstance(value.get("version"), int)
        if named and ("sha256" in value or "store" in value):
            yield {"store": store, **value}
        for below in value.values():
            yield from _pins(below, store)
    elif isinstance(value, list):
        for below in value:
            yield from _pins(below, store)


def _fault_of_pin(
    client: Client, pin: Mapping[str, Any], known: dict[tuple[str, str, int], str | None]
) -> str | None:
    at = (pin["store"], pin["key"], int(pin["version"]))
    if at not in known:
        try:
            record = client.get_record(*at)
            known[at] = str(record["sha256"]) if digest(record["body"]) == record["sha256"] else ""
        except NotFound:
            known[at] = None
    found, name = known[at], f"{at[0]}/{at[1]} version {at[2]}"
    if found is None:
        return f"it pins {name}, which this key cannot read"
    if pin.get("sha256") not in (None, found):
        return f"it pins {name} with digest {pin['sha256'][:12]}…, the store has {found[:12]}…"
    return None


def _refresh(record: Mapping[str, Any]) -> str:
    queue = record["body"].get("scope", {}).get("queue") if isinstance(record["body"], Mapping) else None
    if queue is None:
        return "write the noun again, or restore the store from a backup"
    return f"switch the entry's surface off and on, workspace run --queue {queue} after each, to learn anew"


def _cursor(client: Client, lake: Lake, record: Mapping[str, Any], where: str, looked: Looked) -> None:
    """A learned noun's cursor lies within what the store and the lake have."""
    body = record["body"]
    if not isinstance(body.get("cursor"), str) or not isinstance(body.get("scope"), Mapping):
        return
    queue, cursor = body["scope"]["queue"], body["cursor"]
    try:
        client.pending(queue, after=cursor, cap=1)
    except AWAY:
        raise
    except TesseraError as error:
        looked.add(
            where,
            f"its cursor {cursor} is not one of the store's: {error}",
            f"the store was put back to an earlier state: workspace rebuild --queue {queue} --allow-fewer",
        )
        return
    if lake.cursor(queue) < int(cursor):
        looked.add(
            where,
            f"it counts runs up to {cursor}, the lake only has them up to {lake.cursor(queue)}",
            f"workspace pull --queue {queue}",
        )


def _tables(client: Client, lake: Lake, looked: Looked) -> None:
    """The lake's copies of nouns are of versions that the store has, by digest."""
    for name in _NOUN_TABLES:
        table = lake.open(name)
        if table is None:
            continue
        columns = table.lazy().collect_schema().names()
        if not {"queue", "key", "version", "sha256"} <= set(columns):
            continue
        try:
            copies = lake.collect(table.lazy().select("queue", "key", "version", "sha256").unique())
        except LakeError:
            continue  # a file is gone: that was told
        for queue, key, version, sha256 in copies.sort("queue", "key", "version").iter_rows():
            looked.count("copies of nouns")
            store = "learn.memory" if name == "review_outcomes" else "learn.outputs"
            problem = _fault_of_pin(
                client, {"store": store, "key": key, "version": version, "sha256": sha256}, {}
            )
            if problem is not None:
                remedy = f"workspace run --queue {queue}"
                looked.add(
                    f"table {name}, queue {queue}", problem.replace("it pins", "its rows are of"), remedy
                )


def _runs(settings: Settings, looked: Looked) -> None:
    """Dagster runs whose process is gone."""
    if not (settings.dagster_home / "dagster.yaml").exists():
        return
    from pipelines import instance

    with instance.instance(settings.dagster_home) as dagster:
        for run_id in turns.left_behind(dagster, resources.turns_of(settings)):
            looked.add(f"run {run_id}", turns.DIED, "workspace run, which marks it as failed and goes on")
