"""What a soak's folder says: rates, latencies, slopes and sizes, as one JSON object and as a table.

Reads only what the run wrote, so that a folder can be judged again later.
"""

import json
from collections.abc import Sequence
from pathlib import Path
from statistics import mean
from typing import Any

from rich.table import Table

from bench.soak import run, verdicts
from tessera.cli.terminal import sized

PACE = 0.98
"""The share of the rate offered that must be achieved."""
CALLS = ("enqueue", "claim", "draw", "submit")


def lines(file: Path) -> list[dict[str, Any]]:
    """The objects of a JSON-lines file."""
    return [json.loads(line) for line in file.read_text("utf-8").splitlines()]


def of(out: Path, ran: dict[str, Any]) -> dict[str, Any]:
    """The findings of a run whose measurements are in `out`; `ran` is what the run returned."""
    begin, end = ran["begin"], ran["end"]
    plan = run.Plan(**ran["plan"])
    done = run.observations(out)
    machine, lag, runs = lines(out / "machine.jsonl"), lines(out / "lag.jsonl"), lines(out / "runs.jsonl")
    answered = [line for line in done if "run_id" in line]
    last = max((line["at"] for line in answered), default=end)
    offered = plan.count / plan.seconds
    return {
        **ran,
        "offered_a_minute": plan.rate,
        "achieved_a_minute": 60 * len(answered) / (last - begin) if answered else 0.0,
        "not_offered": plan.count - len(done),
        "errors": _errors(done),
        "late_seconds": verdicts.percentiles([line["late"] for line in done]),
        "milliseconds": {
            call: verdicts.percentiles([1000 * line[call] for line in done if call in line]) for call in CALLS
        },
        "lag": {
            reader: _lag(lag, reader, begin, end, offered)
            for reader in dict.fromkeys(row["reader"] for row in lag)
        },
        "memory": {
            role: _memory(machine, role, begin, end) for role in ("store", "daemon", "code server", "load")
        },
        "runs_memory_max": max((row["rss"].get("runs", 0) for row in machine), default=0),
        "cpu_share": _shares(machine, begin, end),
        "wal_max": max((row["wal"] for row in machine), default=0),
        "load_mean": mean(row["load"] for row in machine),
        "growth": _growth(machine),
        "dagster_runs": _runs(runs),
    }


def kept_pace(found: dict[str, Any]) -> bool:
    """Whether what was offered was done, so that the other verdicts are of the rate asked for."""
    return bool(found["achieved_a_minute"] >= PACE * found["offered_a_minute"])


def grows(found: dict[str, Any]) -> bool:
    """Whether any reader's lag grows."""
    return any(one["grows"] for one in found["lag"].values())


def passed(found: dict[str, Any]) -> bool:
    """Whether nothing is lost or doubled, old ones included, no lag grows, and the load kept its pace."""
    counts = found["counts"]
    whole = all(one["store"] == one["lake_rows"] == one["lake_runs"] for one in found["whole_queues"])
    return counts["lost"] == 0 and counts["doubled"] == 0 and whole and not grows(found) and kept_pace(found)


def _errors(done: Sequence[dict[str, Any]]) -> dict[str, int]:
    found: dict[str, int] = {}
    for line in done:
        if "error" in line:
            found[line["error"][:120]] = found.get(line["error"][:120], 0) + 1
    return found


def _lag(
    rows: Sequence[dict[str, Any]], reader: str, begin: float, end: float, offered: float
) -> dict[str, Any]:
    """All queues together, by sample."""
    queues = len({row["queue"] for row in rows})
    mine = [row for row in rows if row["reader"] == reader]
    samples = [mine[at : at + queues] for at in range(0, len(mine), queues)]
    points = [(sample[0]["at"], float(sum(row["lag"] for row in sample))) for sample in samples]
    part = verdicts.steady(points, begin, end)
    slope = verdicts.slope(part)
    values = [value for _, value in part]
    return {
        "mean": mean(values) if values else None,
        "max": max(values, default=None),
        "seconds_behind": mean(values) / offered if values else None,
        "slope_a_minute": _minute(slope),
        "grows": verdicts.lag_grows(slope, offered),
    }


def _memory(rows: Sequence[dict[str, Any]], role: str, begin: float, end: float) -> dict[str, Any]:
    """Of one process of the role: Dagster's daemon replaces its code server every minute, so there are two at
    times.
    """
    points = [
        (row["at"], float(row["rss"][role] / row["processes"][role])) for row in rows if role in row["rss"]
    ]
    part = verdicts.steady(points, begin, end)
    slope = verdicts.slope(part)
    return {
        "mean": mean(value for _, value in part) if part else None,
        "max": max((value for _, value in points), default=None),
        "slope_a_minute": _minute(slope),
        "grows": verdicts.memory_grows(slope),
    }


def _minute(slope: verdicts.Slope | None) -> list[float] | None:
    """Value, low and high end, a minute."""
    if slope is None:
        return None
    scaled = slope.scaled(60)
    return [scaled.value, scaled.low, scaled.high]


def _shares(rows: Sequence[dict[str, Any]], begin: float, end: float) -> dict[str, float]:
    """How much of one core each role took, over the whole load."""
    part = [row for row in rows if begin <= row["at"] <= end]
    if len(part) < 2:
        return {}
    seconds = part[-1]["at"] - part[0]["at"]
    first, last = part[0]["cpu_seconds"], part[-1]["cpu_seconds"]
    return {role: (spent - first.get(role, 0.0)) / seconds for role, spent in last.items()}


def _growth(rows: Sequence[dict[str, Any]]) -> dict[str, int]:
    """By how much files grew, first sample to last."""
    known = [row for row in rows if "lake_bytes" in row]
    if not known:
        return {}
    names = ("database", "lake_bytes", "lake_files", "dagster_bytes", "dagster_files")
    return {name: known[-1][name] - known[0][name] for name in names}


def _runs(rows: Sequence[dict[str, Any]]) -> dict[str, Any]:
    launched = [row for row in rows if row["asset"] != "workspace run"]
    whole = [row for row in launched if row["started"] and row["ended"] and row["status"] == "SUCCESS"]
    by_status: dict[str, int] = {}
    for row in launched:
        by_status[row["status"]] = by_status.get(row["status"], 0) + 1
    by_asset = {
        asset: {
            "runs": len(mine),
            "seconds": verdicts.percentiles([row["ended"] - row["started"] for row in mine]),
            "waited": verdicts.percentiles([row["started"] - row["created"] for row in mine]),
        }
        for asset in sorted({row["asset"] for row in whole})
        for mine in [[row for row in whole if row["asset"] == asset]]
    }
    return {"launched": len(launched), "by_status": by_status, "by_asset": by_asset}


def table(found: dict[str, Any]) -> Table:
    """The findings for a terminal."""
    shown = Table(box=None, pad_edge=False, header_style="bold", show_header=False)
    shown.add_column(no_wrap=True)
    shown.add_column()
    counts = found["counts"]
    shown.add_row(
        "counts",
        f"{counts['acknowledged']:,} acknowledged, {counts['store']:,} in the store, {counts['lake_rows']:,} "
        f"rows of {counts['lake_runs']:,} runs in the lake: {counts['lost']} lost, {counts['doubled']} "
        f"doubled, {counts['unanswered']} kept without an answer",
    )
    kept = sum(one["store"] for one in found["whole_queues"])
    rows, runs = (sum(one[name] for one in found["whole_queues"]) for name in ("lake_rows", "lake_runs"))
    shown.add_row("with the old ones", f"{kept:,} in the store, {rows:,} rows of {runs:,} runs in the lake")
    shown.add_row(
        "rate a minute",
        f"{found['offered_a_minute']:,.0f} offered, {found['achieved_a_minute']:,.0f} achieved; late "
        f"{_three(found['late_seconds'], 's')}",
    )
    for error, times in found["errors"].items():
        shown.add_row("error", f"{times} × {error}")
    for call, values in found["milliseconds"].items():
        shown.add_row(call, _three(values, "ms"))
    for reader, one in found["lag"].items():
        shown.add_row(f"lag, {reader}", _lag_told(one))
    for role, one in found["memory"].items():
        shown.add_row(f"memory, {role}, a process", _memory_told(one))
    shown.add_row("memory, runs", f"{sized(found['runs_memory_max'])} at most, all together")
    shares = ", ".join(f"{role} {share:.2f}" for role, share in sorted(found["cpu_share"].items()))
    shown.add_row("cores taken", f"{shares}; load of the machine {found['load_mean']:.1f}")
    growth = found["growth"]
    if growth:
        shown.add_row(
            "grew by",
            f"database {sized(growth['database'])}, lake {sized(growth['lake_bytes'])} in "
            f"{growth['lake_files']} files, Dagster {sized(growth['dagster_bytes'])} in "
            f"{growth['dagster_files']} files; log at most {sized(found['wal_max'])}",
        )
    for asset, one in found["dagster_runs"]["by_asset"].items():
        shown.add_row(
            f"runs, {asset}",
            f"{one['runs']}; took {_three(one['seconds'], 's')}; waited {_three(one['waited'], 's')}",
        )
    statuses = ", ".join(
        f"{times} {status.lower()}" for status, times in found["dagster_runs"]["by_status"].items()
    )
    shown.add_row("runs launched", f"{found['dagster_runs']['launched']}: {statuses or 'none'}")
    shown.add_row("caught up", f"in {found['catching_up_seconds']} s after the load, by `workspace run`")
    return shown


def _three(values: dict[str, float | None], unit: str) -> str:
    if values["p50"] is None:
        return "none"
    return (
        f"p50 {values['p50']:.3g} {unit}, p99 {values['p99']:.3g} {unit}, at most {values['max']:.3g} {unit}"
    )


def _lag_told(one: dict[str, Any]) -> str:
    if one["mean"] is None:
        return "too short to tell"
    told = f"{one['mean']:,.0f} runs on average ({one['seconds_behind']:.0f} s), {one['max']:,.0f} at most"
    if one["slope_a_minute"] is None:
        return f"{told}; too short for a slope"
    value, low, high = one["slope_a_minute"]
    verdict = "grows" if one["grows"] else "does not grow"
    return f"{told}; {value:+,.0f} a minute ({low:+,.0f} to {high:+,.0f}): {verdict}"


def _memory_told(one: dict[str, Any]) -> str:
    if one["mean"] is None:
        return "not seen"
    told = f"{sized(round(one['mean']))} on average, {sized(round(one['max']))} at most"
    if one["slope_a_minute"] is None:
        return f"{told}; too short for a slope"
    value, low, high = (part / (1 << 20) for part in one["slope_a_minute"])
    verdict = "grows" if one["grows"] else "flat"
    return f"{told}; {value:+.2f} MiB a minute ({low:+.2f} to {high:+.2f}): {verdict}"
