"""`python -m bench.recall_quality --queue Q`: how good the memory is on a queue's runs in the lake.

Prints the estimate's error and the band curve against exact Jaccard overlap, the bands against the exact
scan, and whether recalled runs foretell a run's own result better than its category does, with the store's
own recall beside it where the store answers. Prints figures, never a text of a run.
"""

import argparse
import json
import sys
from collections.abc import Mapping, Sequence
from typing import Any

import polars as pl
from rich.console import Console
from rich.progress import track
from rich.table import Table

from assets.lake import Lake
from learners import memory_quality
from learners.memory import COLUMNS
from tessera.client import Client
from tessera.errors import ConnectionFault, NotFound, Problem
from tessera.settings import Settings

MOST_MATCHES = 100


def measured(frame: pl.DataFrame, store_matches: Mapping[str, Sequence[str]] | None) -> dict[str, Any]:
    """Every figure of the rows, as a JSON object."""
    runs = memory_quality.runs_of(frame)
    return {
        "runs": frame.height,
        "with_text": len(runs),
        "texts": len(set(runs.texts.tolist())),
        "estimate": memory_quality.estimates(runs),
        "bands": {
            "all runs": memory_quality.bands(runs, one_of_a_text=False),
            "one run a text": memory_quality.bands(runs, one_of_a_text=True),
        },
        "foretelling": memory_quality.foretelling(runs, store_matches),
        "store_answered": store_matches is not None,
    }


def matches_of_the_store(client: Client, queue: str, frame: pl.DataFrame) -> dict[str, list[str]] | None:
    """What the store's own recall finds for each run with text, by run id; None where it does not answer."""
    found: dict[str, list[str]] = {}
    run_ids = memory_quality.runs_of(frame).frame["run_id"].to_list()
    for run_id in track(run_ids, "asking the store", console=Console(stderr=True), transient=True):
        run = client.get_execution(run_id)
        try:
            answer = client.recall(
                queue,
                run["server"]["kind"],
                run["brief_full"],
                input_digest=run["input_digest"],
                limit=MOST_MATCHES,
            )
        except (NotFound, ConnectionFault):
            return None
        except Problem as problem:
            if problem.status in (404, 405, 501):
                return None
            raise
        found[run_id] = [match["run_id"] for match in answer["matches"]]
    return found


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(prog="bench.recall_quality", description="How good the memory is.")
    parser.add_argument("--queue", required=True, help="the queue whose runs in the lake are used")
    parser.add_argument("--json", action="store_true", help="print the figures as JSON")
    parser.add_argument("--without-store", action="store_true", help="leave the store's own recall out")
    chosen = parser.parse_args()
    lake = Lake(Settings.from_environment().lake)
    frame = lake.observations(chosen.queue, columns=[*COLUMNS, "phrasing"])
    matches = None
    if not chosen.without_store:
        with Client() as client:
            matches = matches_of_the_store(client, chosen.queue, frame)
    figures = measured(frame, matches)
    if chosen.json:
        json.dump(figures, sys.stdout, indent=2)
    else:
        show(figures, Console(width=None if sys.stdout.isatty() else 140))
    return 0


def show(figures: Mapping[str, Any], out: Console) -> None:
    """The figures as tables."""
    out.print(f"{figures['runs']} runs, {figures['with_text']} with text, {figures['texts']} distinct texts")
    out.print(_table("the estimate against exact Jaccard overlap", figures["estimate"]))
    bands = [{"over": name, **row} for name, row in figures["bands"].items()]
    out.print(_table("bands against the exact scan", bands))
    out.print(_table("do recalled runs foretell a run's result?", figures["foretelling"]))
    if not figures["store_answered"]:
        out.print("the store's own recall was not asked, or did not answer")


def _table(title: str, rows: Sequence[Mapping[str, Any]]) -> Table:
    table = Table(title=title, box=None, title_justify="left", pad_edge=False)
    for name in rows[0] if rows else ():
        table.add_column(name, justify="left" if isinstance(rows[0][name], str) else "right")
    for row in rows:
        table.add_row(*(_figure(value) for value in row.values()))
    return table


def _figure(value: Any) -> str:
    if value is None:
        return "–"
    return f"{value:.3f}" if isinstance(value, float) else str(value)


if __name__ == "__main__":
    sys.exit(main())
