"""The picture of a soak: lag, memory and latency over time, one above the other, as an SVG."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.soak import findings, run

_WIDTH, _HEIGHT = 640, 150
_EVERY = 5.0
"""Seconds of the load in one point of the latencies."""


def draw(out: Path, begin: float, title: str) -> str:
    """The SVG of a soak's folder."""
    import altair as alt
    import vl_convert

    chart = alt.vconcat(
        _lines(_lag(out, begin), "runs behind", "reader"),
        _lines(_memory(out, begin), "memory of a process, MiB", "role"),
        _lines(_latency(out, begin), "latency, ms", "call", scale="log"),
        title=title,
    ).resolve_scale(color="independent")
    return str(vl_convert.vegalite_to_svg(chart.to_dict()))


def _lines(rows: Sequence[dict[str, Any]], what: str, name: str, scale: str = "linear") -> Any:
    import altair as alt

    return (
        alt.Chart(alt.InlineData(values=list(rows)))
        .mark_line(strokeWidth=1.5)
        .encode(
            x=alt.X("minute:Q", title="minutes of load"),
            y=alt.Y("value:Q", title=what, scale=alt.Scale(type=scale)),
            color=alt.Color("name:N", title=name),
        )
        .properties(width=_WIDTH, height=_HEIGHT)
    )


def _lag(out: Path, begin: float) -> list[dict[str, Any]]:
    rows = findings.lines(out / "lag.jsonl")
    queues = len({row["queue"] for row in rows})
    found = []
    for reader in dict.fromkeys(row["reader"] for row in rows):
        mine = [row for row in rows if row["reader"] == reader]
        for at in range(0, len(mine), queues):
            sample = mine[at : at + queues]
            total = sum(row["lag"] for row in sample)
            found.append(_point(sample[0]["at"] - begin, reader.partition(":")[0], total))
    return found


def _memory(out: Path, begin: float) -> list[dict[str, Any]]:
    rows = findings.lines(out / "machine.jsonl")
    return [
        _point(row["at"] - begin, role, bytes_ / (1 << 20) / row["processes"][role])
        for row in rows
        for role, bytes_ in row["rss"].items()
    ]


def _latency(out: Path, begin: float) -> list[dict[str, Any]]:
    done = run.observations(out)
    found = []
    for call in ("claim", "submit"):
        timed = [(line["at"] - begin, 1000 * line[call]) for line in done if call in line]
        spans: dict[int, list[float]] = {}
        for at, value in timed:
            spans.setdefault(int(at // _EVERY), []).append(value)
        for span, values in sorted(spans.items()):
            p50, p99 = np.percentile(values, [50, 99])
            found.append(_point(span * _EVERY, f"{call}, median", float(p50)))
            found.append(_point(span * _EVERY, f"{call}, p99", float(p99)))
    return found


def _point(seconds: float, name: str, value: float) -> dict[str, Any]:
    return {"minute": seconds / 60, "name": name, "value": value}
