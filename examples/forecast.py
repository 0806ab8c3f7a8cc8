"""Shows what an evaluation predicted and what happened then, in a terminal.

Promises each figure with its interval and its label, and a verdict that moves nothing said as the valid
result it is. Leaves out where the figures come from.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from examples.rounds import Drawn, Prediction
from examples.scorecard import NARROW, WIDE, interval
from tessera.statistics import wilson_interval

BESIDE = 78  # what stands beside the drawn line, which a narrower terminal goes without
VERDICTS = {
    "better": "the weights would have done better, so the next choices are drawn by them",
    "worse": "the weights would have done worse: choices stay as they were, and the next weights are tried",
    "keep_baseline": "not enough to tell them apart: choices stay as they were. That is a valid result",
}
LABELS = (
    "randomized: the store drew each run's method and kept the probability, so a policy's value is estimated "
    "without bias.\nobservational: rounds met different tasks at different times, so the step from one round "
    "to the next is no such estimate."
)


def policy(version: int | None) -> str:
    """What a choice went by, in words."""
    return "uniform draws" if version is None else f"weights version {version}"


def shown(found: Prediction, judged_on: Sequence[Drawn], then: Sequence[Drawn], width: int) -> RenderableType:
    """The forecast, the runs it was made from and the runs that came after, one table; and what it means."""
    body = found.body
    line = min(WIDE, width - BESIDE)
    drawn = line >= NARROW
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("", no_wrap=True)
    for heading in ("runs", "accepted", "95% interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    if drawn:
        table.add_column(f"0%{'100%':>{line - 2}}", no_wrap=True)
    table.add_column("label", no_wrap=True)
    dr, rows = body["estimates"]["dr"], str(body["rows"])
    baseline = None if body["baseline"] is None else body["baseline"]["version"]
    named = (("candidate", found.candidate), ("baseline", baseline))
    for side, version in named:
        table.add_row(
            f"predicted for {policy(version)}", rows, *_figures(dr[side], line)[: 2 + drawn], "randomized"
        )
    gap = dr["difference"]
    table.add_row("predicted difference", rows, *_signed(gap), *([""] * drawn), "randomized")
    for title, runs in (("judged on", judged_on), ("this round", then)):
        for version, some in _by_policy(runs):
            accepted = sum(run.accepted for run in some)
            low, high = wilson_interval(accepted, len(some))
            rate = {"estimate": accepted / len(some), "low": low, "high": high}
            name = f"{title}, by {policy(version)}"
            table.add_row(name, str(len(some)), *_figures(rate, line)[: 2 + drawn], "observational")
    return Group(table, Text(""), Text(_verdict(body)), Text(LABELS))


def _by_policy(runs: Sequence[Drawn]) -> Iterator[tuple[int | None, list[Drawn]]]:
    """The runs, apart by what they were drawn by, in the order of the first of each."""
    for version in dict.fromkeys(run.policy for run in runs):
        yield version, [run for run in runs if run.policy == version]


def _verdict(body: Mapping[str, Any]) -> str:
    bounds, least = body["sequence"], min(body["effective_sample_size"].values())
    if bounds["low"] is None:
        known = "no sequence yet"
    else:
        known = f"the difference is within {bounds['low']:+.1%} to {bounds['high']:+.1%}, whenever one looks"
    told = f"verdict: {body['verdict']} ({known}; effective sample size {least:.0f})\n"
    return told + VERDICTS[body["verdict"]]


def _figures(value: Mapping[str, float | None], line: int) -> tuple[str, str, str]:
    low, rate, high = value["low"], value["estimate"], value["high"]
    if rate is None:
        return "-", "-", interval(None, None, None, line)
    between = "-" if low is None or high is None else f"{low:.0%} to {high:.0%}"
    return f"{rate:.0%}", between, interval(low, rate, high, line)


def _signed(value: Mapping[str, float | None]) -> tuple[str, str]:
    low, gap, high = value["low"], value["estimate"], value["high"]
    if gap is None:
        return "-", "-"
    return f"{gap:+.0%}", "-" if low is None or high is None else f"{low:+.0%} to {high:+.0%}"
