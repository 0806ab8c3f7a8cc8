"""The memory's incremental cost: a run over 32 new observations, when 1,000 and when many are indexed.

The whole run against a real store and a real lake: read, learn, check, publish. What stands already is made,
not learned: only its size matters to the run.
"""

import statistics
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import polars as pl

from assets import pack, scope_runs, specs
from assets.lake import Lake
from assets.views import View
from assets.writer import Writer
from bench.table import Line
from learners.contract import Scope
from learners.memory import LEARNER
from schemas import observations
from schemas.memory import HEAD, PINNED_SEGMENTS, SEGMENT_ENTRIES
from tessera.canonical import digest
from tessera.client import Client
from tessera.observations import WORDING, build_item
from tessera.server.serve import Running

NEW = 32
RUNS = 7
QUEUE = "work"


def lines(*, quick: bool) -> list[Line]:
    """One line: the run beside few old runs, the same beside many."""
    few, many = 1_000, 100_000 if quick else 1_000_000
    small, large = _median(few), _median(many)
    label = f"{many // 1000} k" if many < 1_000_000 else f"{many // 1_000_000} M"
    binds = "opening the lake's files, and the store's answers"
    return [
        Line(
            f"index run, {NEW} new of {label}",
            large * 1e3,
            f"{NEW} new of {few // 1000} k",
            small * 1e3,
            "ms",
            small / large,
            "≥ 0.5 ×",
            binds,
        )
    ]


def _median(old: int) -> float:
    with (
        tempfile.TemporaryDirectory() as folder,
        Running(Path(folder) / "home", grace_seconds=1.0) as running,
    ):
        running.start()
        key = (Path(folder) / "home" / "admin.key").read_text("ascii").strip()
        with Client(running.url, key) as client:
            return _measured(client, Lake(str(Path(folder) / "lake")), old)


def _measured(client: Client, lake: Lake, old: int) -> float:
    specs.install(client, [pack.noun(name, spec) for name, spec in pack.SPECS.items()])
    specs.configure(client, "memory:minhash-lsh:v1", QUEUE)
    writer = Writer(lake, QUEUE, View.of(client.whoami()))
    for start in range(0, old, 20_000):
        count = min(20_000, old - start)
        writer.append(rows(start + 1, count), start + count)
    _pretend(client, old)
    (entry,) = specs.entries_of(client, QUEUE)
    taken = []
    for run in range(RUNS):
        after = old + run * NEW
        writer.append(rows(after + 1, NEW), after + NEW)
        started = time.perf_counter()
        stand = scope_runs.of_entry(client, lake, entry)
        taken.append(time.perf_counter() - started)
        assert (stand.fault, stand.runs) == (None, 1)
    return statistics.median(taken)


def rows(first: int, count: int) -> pl.DataFrame:
    """So many observations from a cursor on, each with a text of its own."""
    item = _item()
    one = observations.frame([item])
    many = one.select(pl.all().repeat_by(count).explode()) if count else one.head(0)
    numbers = pl.int_range(first, first + count, eager=True, dtype=pl.Int64)
    texts = (
        "run " + numbers.cast(pl.String) + " packs part " + (numbers % 97).cast(pl.String) + " of the library"
    )
    given = pl.DataFrame(dict.fromkeys(WORDING, None), schema=dict.fromkeys(WORDING, pl.String))
    wording = pl.DataFrame({"title": texts}).join(given, on="title", how="left").select(WORDING)
    return many.with_columns(
        numbers.alias("cursor"),
        ("run-" + numbers.cast(pl.String)).alias("run_id"),
        ("task-" + numbers.cast(pl.String)).alias("task_id"),
        wording.to_struct("wording"),
    )


def _item() -> dict[str, Any]:
    now = datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return build_item(
        run_id="run", cursor=1, brief={"title": "t"}, input_digest="ab" * 32, origin="live", private=False,
        task_id="task", kind="verb.pack", queue=QUEUE, fence=1, lapsed=0, key_id="key", claimed_at=now,
        submitted_at=now, lease_seconds=60, result="accepted", state_after="succeeded", failure=None,
        receipt_sha256="cd" * 32, draws=[], report=None,
    )  # fmt: skip


def _pretend(client: Client, old: int) -> None:
    """Write the head that so many indexed runs would have left, its pins and manifests of real size."""
    store, head = LEARNER.state_key(Scope(QUEUE), {})
    name = head.removesuffix(":head")
    pins = [
        _pin(f"{name}:seg:{number:06d}", SEGMENT_ENTRIES, number - 1, number)
        for number in range(1, old // SEGMENT_ENTRIES + 1)
    ]
    manifests: list[dict[str, Any]] = []
    while len(pins) > PINNED_SEGMENTS:
        pins = pins[PINNED_SEGMENTS:]
        ends = len(manifests) * PINNED_SEGMENTS, (len(manifests) + 1) * PINNED_SEGMENTS
        held = PINNED_SEGMENTS * SEGMENT_ENTRIES
        manifests.append(_pin(f"{name}:man:{len(manifests) + 1:04d}", held, *ends))
    body = {
        "schema": HEAD,
        "spec": {},
        "options": {},
        "cursor": str(old),
        "entries": sum(pin["entries"] for pin in (*pins, *manifests)),
        "segments": pins,
        "manifests": manifests,
    }
    write = {
        "store": store,
        "key": head,
        "expected_version": 0,
        "category": "noun.eval_run",
        "tags": [],
        "visibility": "private",
        "body": body,
    }
    client.write_records([write])


def _pin(key: str, entries: int, start: int, stop: int) -> dict[str, Any]:
    """A pin of a noun that is not there; the learner never reads what it pins."""
    return {
        "key": key,
        "version": 1,
        "sha256": digest({"key": key}),
        "entries": entries,
        "first": str(start * SEGMENT_ENTRIES + 1),
        "last": str(stop * SEGMENT_ENTRIES),
    }
