"""Shows a scorecard noun in a terminal: one row a group, its interval drawn as a line of text."""

from typing import Any

from rich.table import Table

NARROW, WIDE, BESIDE = 10, 40, 66  # of the drawn line, and what stands beside it


def interval(low: float | None, rate: float | None, high: float | None, width: int = WIDE) -> str:
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


def by_kind_and_method(body: dict[str, Any], width: int = 120) -> Table:
    """A table, `width` characters wide, of a scorecard over `category` and `method`.

    The surest method of each kind comes first.
    """
    line = max(NARROW, min(WIDE, width - BESIDE))
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("kind of input", no_wrap=True)
    table.add_column("method", no_wrap=True)
    for heading in ("attempts", "rate", "95% interval"):
        table.add_column(heading, justify="right", no_wrap=True)
    table.add_column(f"0%{'100%':>{line - 2}}", no_wrap=True)
    for group in sorted(body["groups"], key=_order):
        low, rate, high = group["wilson_low"], group["acceptance_rate"], group["wilson_high"]
        table.add_row(
            group["dimensions"]["category"] or "not reported",
            group["dimensions"]["method"] or "not reported",
            str(group["attempts"]),
            "-" if rate is None else f"{rate:.0%}",
            "-" if low is None or high is None else f"{low:.0%} to {high:.0%}",
            interval(low, rate, high, line),
        )
    return table


def _order(group: dict[str, Any]) -> tuple[str, float, str]:
    names = group["dimensions"]
    return (names["category"] or "", -(group["wilson_low"] or 0.0), names["method"] or "")
