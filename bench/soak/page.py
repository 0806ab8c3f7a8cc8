"""The table of docs/scale.md, from the folder of a soak: `python -m bench.soak.page FOLDER` prints it."""

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tessera.cli.terminal import sized

Found = dict[str, Any]
Cell = Callable[[Found], str]

READERS = {
    "lake": "the lake",
    "memory:minhash-lsh:v1": "the memory",
    "path_statistics:wilson-grouping:v1": "the scorecard",
    "routing_weights:beta-bandit:v1": "the weights",
    "evaluation:off-policy:v1": "the evaluation",
    "lessons:review-and-learn:v1": "the lessons",
}
ROLES = ("store", "load", "runs", "code server", "daemon")


def table(halves: list[Found]) -> str:
    """Markdown: a row a figure, a column a half."""
    heads = [f"beside {old:,} old runs" if (old := one["plan"]["old"]) else "empty store" for one in halves]
    lines = ["| | " + " | ".join(heads) + " |", "| --- |" + " --- |" * len(halves)]
    lines += [f"| {name} | " + " | ".join(cell(one) for one in halves) + " |" for name, cell in _rows()]
    return "\n".join(lines)


def _rows() -> list[tuple[str, Cell]]:
    return [
        (
            "observations a minute: offered, achieved",
            lambda one: f"{one['offered_a_minute']:,.0f}, {one['achieved_a_minute']:,.0f}",
        ),
        ("acknowledged submits", lambda one: f"{one['counts']['acknowledged']:,}"),
        (
            "of them in the store; rows in the lake; distinct runs",
            lambda one: "; ".join(f"{one['counts'][name]:,}" for name in ("store", "lake_rows", "lake_runs")),
        ),
        (
            "**lost, doubled**, unanswered",
            lambda one: (
                f"**{one['counts']['lost']}, {one['counts']['doubled']}**, {one['counts']['unanswered']}"
            ),
        ),
        ("with the old ones: store; lake; distinct", _whole),
        *((f"{call}: median, p99, most", _latency(call)) for call in ("enqueue", "claim", "draw", "submit")),
        *((f"lag of {name}: mean, most; a minute", _lag(reader)) for reader, name in READERS.items()),
        *((f"memory of a process, {role}; a minute", _memory(role)) for role in ("store", "code server")),
        ("memory of all runs together, at most", lambda one: sized(one["runs_memory_max"])),
        (f"cores: {', '.join(ROLES)}", _cores),
        (
            "Dagster runs, of them successes",
            lambda one: (
                f"{one['dagster_runs']['launched']}, {one['dagster_runs']['by_status'].get('SUCCESS', 0)}"
            ),
        ),
        ("database, lake, Dagster's history grew by", _growth),
        ("write-ahead log at most", lambda one: sized(one["wal_max"])),
        ("caught up after the load", lambda one: f"{one['catching_up_seconds']:.0f} s"),
        ("load of the machine", lambda one: f"{one['load_mean']:.1f}"),
    ]


def _whole(one: Found) -> str:
    names = ("store", "lake_rows", "lake_runs")
    return "; ".join(f"{sum(queue[name] for queue in one['whole_queues']):,}" for name in names)


def _latency(call: str) -> Cell:
    def cell(one: Found) -> str:
        found = one["milliseconds"][call]
        return ", ".join(f"{found[name]:.0f}" for name in ("p50", "p99", "max")) + " ms"

    return cell


def _lag(reader: str) -> Cell:
    def cell(one: Found) -> str:
        found = one["lag"][reader]
        told = f"{found['mean']:,.0f} ({found['seconds_behind']:.0f} s), {found['max']:,.0f}"
        return told + _slope(found, 1, ",.0f")

    return cell


def _memory(role: str) -> Cell:
    def cell(one: Found) -> str:
        found = one["memory"][role]
        return sized(round(found["mean"])) + _slope(found, 1 << 20, ".2f", " MiB")

    return cell


def _slope(found: Found, unit: int, form: str, name: str = "") -> str:
    if found["slope_a_minute"] is None:
        return ""
    value, low, high = (part / unit for part in found["slope_a_minute"])
    return f"; {value:+{form}}{name} ({low:+{form}} to {high:+{form}})"


def _cores(one: Found) -> str:
    return ", ".join(f"{one['cpu_share'].get(role, 0):.2f}" for role in ROLES)


def _growth(one: Found) -> str:
    return ", ".join(sized(one["growth"][name]) for name in ("database", "lake_bytes", "dagster_bytes"))


def main() -> None:
    """Print the table of the halves that are in a folder."""
    files = [Path(sys.argv[1]) / half / "findings.json" for half in ("empty", "old")]
    print(table([json.loads(file.read_text("utf-8")) for file in files if file.exists()]))


if __name__ == "__main__":
    main()
