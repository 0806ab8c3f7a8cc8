"""The pull: observations of about 2 KiB over HTTP into Parquet on this machine's disk, the server included.

Each reader is a process of its own, so that its memory is its own, and keeps what it read as Parquet: ours in
a lake, dlt in its filesystem destination, once by its source for REST and once given Arrow tables of the same
pages. Promises that all of them kept the same number of runs, and that what they import is not counted.
"""

import argparse
import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from bench.served import served
from bench.table import Line
from tessera.client import Client
from tessera.fingerprints import words

QUEUE = "bench.pull"
_BATCH = 500
_PROBLEM = "The build of one service fails on a clean machine because of a missing header {} "


def lines(*, quick: bool) -> list[Line]:
    """Rows a second and peak memory beside both ways of dlt, and rows a second of reading alone."""
    count = 10_000 if quick else 100_000
    with served() as store:
        _fill(store.url, store.secret, count)
        found = {name: _measured(name, store.url, store.secret, count) for name in READERS}
    work, binds = f"pull, {count // 1000} k observations", "Arrow conversion and compression"
    ours = found.pop("tessera")
    reach = {"dlt, REST source": ("≥ 10 ×", "≤ ¾"), "dlt, Arrow pages": ("≥ 1.2 ×", "≤ ¾")}
    made = []
    for name, theirs in found.items():
        rate, memory = reach.get(name, ("", ""))
        ratio = theirs["seconds"] / ours["seconds"]
        speeds = count / ours["seconds"], count / theirs["seconds"]
        made.append(Line(work, speeds[0], name, speeds[1], "rows/s", ratio, rate, binds))
        if memory:
            peaks = ours["mib"], theirs["mib"]
            smaller = peaks[0] / peaks[1]
            made.append(Line(f"{work}: memory", peaks[0], name, peaks[1], "MiB", smaller, memory, binds))
    return made


Reader = Callable[[], int]


def tessera(url: str, secret: str, folder: Path) -> Reader:
    """The workspace's own pull."""
    from assets.lake import Lake
    from assets.pull import pull

    def read() -> int:
        with Client(url, secret) as client:
            return pull(client, Lake(str(folder)), QUEUE).rows

    return read


def bare(url: str, secret: str, folder: Path) -> Reader:
    """The bytes of the pages, into nothing."""
    del folder
    return lambda: sum(page.count(b'"run_id":') for page in _pages(url, secret))


def rest(url: str, secret: str, folder: Path) -> Reader:
    """dlt's source for REST, as its documentation sets it up."""
    from dlt.sources.rest_api import rest_api_source

    source = rest_api_source(
        {
            "client": {
                "base_url": url,
                "auth": {"type": "bearer", "token": secret},
                "paginator": {
                    "type": "cursor",
                    "cursor_path": "next_after",
                    "cursor_param": "after",
                    "has_more_path": "has_more",
                },
            },
            "resources": [
                {
                    "name": "observations",
                    "max_table_nesting": 0,
                    "endpoint": {
                        "path": "/v1/executions",
                        "params": {"queue": QUEUE, "limit": 100},
                        "data_selector": "items",
                    },
                }
            ],
        }
    )
    return _loading(source, folder)


def arrow(url: str, secret: str, folder: Path) -> Reader:
    """dlt, given each hundred pages as an Arrow table."""
    import dlt
    import pyarrow as pa

    @dlt.resource(name="observations")
    def tables() -> Iterator[Any]:
        items: list[Any] = []
        for page in _pages(url, secret):
            items += json.loads(page)["items"]
            if len(items) >= 10_000:
                yield pa.Table.from_pylist(items)
                items = []
        if items:
            yield pa.Table.from_pylist(items)

    return _loading(tables(), folder)


READERS = {
    "tessera": tessera,
    "dlt, REST source": rest,
    "dlt, Arrow pages": arrow,
    "reading the bytes alone": bare,
}


def _loading(source: Any, folder: Path) -> Reader:
    import dlt
    import pyarrow.parquet

    pipeline = dlt.pipeline(
        "pull",
        pipelines_dir=str(folder / "state"),
        destination=dlt.destinations.filesystem(bucket_url=(folder / "out").as_uri()),
        dataset_name="pulled",
    )

    def read() -> int:
        pipeline.run(source, loader_file_format="parquet").raise_on_failed_jobs()
        files = (folder / "out").glob("pulled/observations/**/*.parquet")
        return sum(pyarrow.parquet.read_metadata(file).num_rows for file in files)

    return read


def _pages(url: str, secret: str) -> Iterator[bytes]:
    with Client(url, secret) as client:
        after, more = "0", True
        while more:
            page = client.observation_page(QUEUE, after=after)
            yield page
            end = json.loads(b"{" + page[page.rindex(b'"next_after"') :])
            after, more = end["next_after"], end["has_more"]


def _fill(url: str, secret: str, count: int) -> None:
    """Imported attempts whose observations take about 2 KiB each."""
    problem = " ".join(_PROBLEM.format(number) for number in range(12))
    assert len(words(problem)) > 10
    with Client(url, secret, timeout=60) as client:
        for start in range(0, count, _BATCH):
            client.import_attempts(
                QUEUE, [_attempt(number, problem) for number in range(start, start + _BATCH)]
            )


def _attempt(number: int, problem: str) -> dict[str, Any]:
    accepted = number % 3 > 0
    return {
        "source": "bench",
        "task_key": f"task-{number}",
        "attempt": 1,
        "kind": "verb.build",
        "problem_text": f"{problem}{number}",
        "template": "template",
        "phrasing": None,
        "shim": "shim",
        "method": f"method-{number % 5}",
        "harness": "harness",
        "model": "model",
        "accepted": accepted,
        "failure_text": None if accepted else f"error {number}: the header was not found",
        "outcome": "succeeded" if accepted else "failed",
        "input_tokens": number,
        "output_tokens": 5,
        "cost_amount": 0.25,
        "cost_currency": "USD",
        "duration_seconds": 1.5,
        "started_at": "2026-01-01T00:00:00Z",
    }


def _measured(name: str, url: str, secret: str, count: int) -> dict[str, float]:
    """One reader in a process of its own; raises RuntimeError when it kept another number of runs."""
    command = [sys.executable, "-m", "bench.pull", name, url]
    ran = subprocess.run(command, input=secret, capture_output=True, text=True, check=False)
    if ran.returncode:
        raise RuntimeError(f"{name} failed: {ran.stderr[-2000:]}")
    found: dict[str, float] = json.loads(ran.stdout.splitlines()[-1])
    if found["rows"] != count:
        raise RuntimeError(f"{name} kept {found['rows']:.0f} of {count} runs")
    return found


def main() -> None:
    """Be one reader; the key comes on standard input."""
    parser = argparse.ArgumentParser()
    parser.add_argument("name", choices=READERS)
    parser.add_argument("url")
    given = parser.parse_args()
    secret = sys.stdin.read()
    with tempfile.TemporaryDirectory() as folder:
        read = READERS[given.name](given.url, secret, Path(folder))
        begun = time.perf_counter()
        rows = read()
        seconds = time.perf_counter() - begun
    mib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"rows": rows, "seconds": seconds, "mib": mib}))


if __name__ == "__main__":
    main()
