"""Shows a scorecard noun in a terminal: one row a group, its interval drawn as a line of text."""

from typing import Any

from rich.table import Table

WIDTH = 40


def interval(low: float | None, rate: float | None, high: float | None, width: int = WIDTH) -> str:
    """The span from `low` to `high` on a line from 0 to 1, `width` characters long, the rate a dot in it.

    Without evidence (None) the line is empty.
    """
    line = ["·"] * width
    if low is None or rate is None or high is None:
        return "".join(line)
    for place in range(_place(low, width), _place(high, width) + 1):
        line[place] = "━"
    line[_place(rate, width)] = "●"
    return "".join(line)


def _place(share: float, width: int) -> int:
    return min(width - 1, int(share * width))


def by_kind_and_method(body: dict[str, Any]) -> Table:
    """A table of a scorecard over `category` and `method`, the surest method of each kind first."""
    table = Table(box=None, pad_edge=False, header_style="bold")
    for heading, justify in (("kind of input", "left"), ("method", "left"), ("attempts", "right")):
        table.add_column(heading, justify=justify)  # type: ignore[arg-type]
    table.add_column("accepted", justify="right")
    table.add_column("rate", justify="right")
    table.add_column("95% interval", justify="right")
    table.add_column(f"0%{'':{WIDTH - 6}}100%", no_wrap=True)
    groups = sorted(body["groups"], key=_order)
    for number, group in enumerate(groups):
        kind, low, rate, high = (
            group["dimensions"]["category"],
            group["wilson_low"],
            group["acceptance_rate"],
            group["wilson_high"],
        )
        last = number + 1 == len(groups) or groups[number + 1]["dimensions"]["category"] != kind
        table.add_row(
            kind,
            group["dimensions"]["method"] or "not reported",
            str(group["attempts"]),
            str(group["accepted"]),
            "-" if rate is None else f"{rate:.0%}",
            "-" if low is None or high is None else f"{low:.0%} to {high:.0%}",
            interval(low, rate, high),
            end_section=last,
        )
    return table


def _order(group: dict[str, Any]) -> tuple[str, float, str]:
    names = group["dimensions"]
    return (names["category"] or "", -(group["wilson_low"] or 0.0), names["method"] or "")
