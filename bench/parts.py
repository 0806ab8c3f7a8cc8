"""One queue in parts: the same bytes from 1, 2 and 7 parts, with the seconds and the memory that each takes.

`python -m bench.parts [--rows N]` fills a lake of that many synthetic runs in a temporary folder and computes
its scorecard and its fingerprints anew for each number of parts and processes, in a process of its own.
Leaves out the store: the lake is filled without one.
"""

import argparse
import hashlib
import json
import multiprocessing
import resource
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import polars as pl

from assets import evidence, fingerprints, windows
from assets.lake import Lake
from assets.spread import Processes, Spread, begin
from assets.views import View
from assets.writer import Writer
from learners.contract import Citation, Run, Scope
from learners.path_statistics import LEARNER
from schemas.fingerprints import SCHEMA as FINGERPRINTS
from schemas.observations import COLUMNS, SCHEMA
from tessera.canonical import digest

QUEUE, CYCLES = "q", ((1, 1), (2, 1), (7, 1), (7, 2))
_AT_ONCE = 100_000
_WORDS = ("pack", "index", "merge", "library", "report", "feed", "parser", "cache", "image", "table")


def batches(rows: int) -> Iterator[pl.DataFrame]:
    """Seeded rows of the observations table: 200 paths, half reported, a tenth failed with a text."""
    dice = np.random.default_rng(11)
    for start in range(0, rows, _AT_ONCE):
        count = min(_AT_ONCE, rows - start)
        yield _batch(dice, start, count)


def _batch(dice: np.random.Generator, start: int, count: int) -> pl.DataFrame:
    number = pl.int_range(start + 1, start + count + 1, dtype=pl.Int64, eager=True).alias("cursor")
    frame = number.to_frame().with_columns(
        pl.Series("path", dice.integers(0, 200, count)),
        pl.Series("ok", dice.random(count) < 0.9),
        pl.Series("held", (dice.exponential(30, count) * 1000).astype(np.int64)),
        pl.Series("spent", dice.exponential(30, count).round(3)),
        pl.Series("told", dice.random(count) < 0.5),
        *(pl.Series(f"word{place}", dice.choice(_WORDS, count)) for place in range(4)),
    )
    given = {
        "queue": pl.lit(QUEUE),
        "cursor": pl.col("cursor"),
        "run_id": pl.format("run_{}", pl.col("cursor").cast(pl.String).str.pad_start(32, "0")),
        "task_id": pl.format("task_{}", (pl.col("cursor") // 2).cast(pl.String).str.pad_start(31, "0")),
        "kind": pl.format("verb.{}", pl.col("path") % 5),
        "template": pl.format("template-{}", pl.col("path") % 20),
        "shim": pl.when("told").then(pl.format("shim-{}", pl.col("path") // 20)),
        "result": pl.when("ok").then(pl.lit("accepted")).otherwise(pl.lit("failed")),
        "failure_text": pl.when(~pl.col("ok")).then(pl.format("timeout after {} s in {}", "held", "word0")),
        "claimed_at": pl.lit(datetime(2026, 1, 1, tzinfo=UTC)),
        "submitted_at": pl.lit(datetime(2026, 1, 1, tzinfo=UTC)) + pl.duration(milliseconds="held"),
        "reported_duration_seconds": pl.when("told").then("spent"),
        "total_tokens": pl.when("told").then(pl.col("held") % 50_000),
        "cost_amount": pl.when("told").then(pl.col("spent") / 100),
        "cost_currency": pl.when("told").then(pl.lit("EUR")),
        "worker_outcome": pl.when("told").then(pl.lit("succeeded")),
        "retry": pl.col("cursor") % 2 == 1,
        "origin": pl.lit("live"),
        "wording": pl.struct(title=pl.concat_str("word0", "word1", "word2", "word3", "held", separator=" ")),
        **dict.fromkeys(("private", "model_reported", "has_report"), pl.lit(value=False)),
    }
    made = frame.select(
        given[name].cast(dtype).alias(name) if name in given else pl.lit(None, dtype).alias(name)
        for name, dtype in SCHEMA.items()
    )
    required = [column for column in COLUMNS if not column.nullable and column.name not in given]
    return made.with_columns(
        pl.lit(_PLAIN[column.dtype.base_type()], column.dtype).alias(column.name) for column in required
    )


_PLAIN = {pl.String: "", pl.Int64: 1, pl.Boolean: False, pl.List: []}


def fill(place: str, rows: int) -> None:
    """A lake of so many runs, as if they had been pulled."""
    view = View("bench", "key", ("read",), None, None)
    writer = Writer(Lake(place), QUEUE, view)
    for frame in batches(rows):
        writer.append(frame, int(frame["cursor"][-1]))


def measured(place: str, rows: int, parts: int, processes: int) -> dict[str, object]:
    """One cycle: digests of the scorecard and the fingerprints, seconds, and the peak of any process."""
    spread = Spread(-(-rows // parts), map if processes == 1 else Processes(processes))
    lake = Lake(place, spread=spread)
    started = time.perf_counter()
    scorecard = learned(lake, rows)
    learnt = time.perf_counter()
    lake.replace(
        lake.ensure("fingerprints", FINGERPRINTS, "bench"),
        QUEUE,
        pl.DataFrame(schema=FINGERPRINTS),
        {QUEUE: 0},
    )
    fingerprints.refresh(lake, QUEUE)
    done = time.perf_counter()
    peaks = [resource.getrusage(who).ru_maxrss for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return {
        "parts": parts,
        "processes": processes,
        "scorecard_seconds": round(learnt - started, 1),
        "fingerprint_seconds": round(done - learnt, 1),
        "peak_mib": max(peaks) // 1024,
        "scorecard": scorecard,
        "fingerprints": content(lake),
    }


def learned(lake: Lake, rows: int) -> str:
    """The digest of the scorecard over all rows."""
    run = Run(
        Citation("learn.specs", "path_statistics:wilson-grouping:v1", 1, "0" * 64),
        Scope(QUEUE),
        {"last": rows},
    )
    reading = LEARNER.reading(run)
    cut = windows.cut(lake, lake.open("observations"), run.scope, last=rows)
    if cut is None:
        outcome = LEARNER.learn(run, evidence.from_lake(lake, run.scope, reading))
    else:
        outcome = windows.Window(cut).learn(LEARNER, run, reading.columns)
    return digest(outcome.nouns[0].body)


def content(lake: Lake) -> str:
    """The digest of the table's rows in the order of their cursor, however they lie in files."""
    hashed, table, after = hashlib.sha256(), lake.scan("fingerprints"), 0
    while True:
        rows = (
            table.filter(pl.col("cursor") > after, pl.col("cursor") <= after + _AT_ONCE)
            .sort("cursor")
            .collect()
        )
        if rows.is_empty():
            return hashed.hexdigest()
        for column in rows.select(list(FINGERPRINTS)):
            hashed.update(repr(column.to_list()).encode())
        after += _AT_ONCE


def main() -> None:
    """Print one JSON line a cycle; status 1 when two cycles differ."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--rows", type=int, default=1_000_000)
    rows = arguments.parse_args().rows
    fresh = multiprocessing.get_context("spawn")
    seen = set()
    with tempfile.TemporaryDirectory() as folder:
        place = str(Path(folder) / "lake")
        with ProcessPoolExecutor(1, mp_context=fresh, initializer=begin) as pool:
            pool.submit(fill, place, rows).result()
        for parts, processes in CYCLES:
            with ProcessPoolExecutor(1, mp_context=fresh, initializer=begin) as pool:
                found = pool.submit(measured, place, rows, parts, processes).result()
            seen.add((found["scorecard"], found["fingerprints"]))
            print(json.dumps(found), flush=True)
    if len(seen) != 1:
        raise SystemExit("the parts differ")


if __name__ == "__main__":
    main()
