"""How a scorecard looks in a terminal."""

import io

import pytest
from rich.console import Console

from examples.scorecard import by_kind_and_method, interval


@pytest.mark.parametrize(
    ("low", "rate", "high", "line"),
    [
        (0.3, 0.5, 0.7, "···━━●━━··"),
        (0.0, 0.0, 0.2, "●━━·······"),
        (0.8, 1.0, 1.0, "········━●"),
        (0.0, 0.5, 1.0, "━━━━━●━━━━"),
        (None, None, None, "··········"),
    ],
    ids=["middle", "none accepted", "all accepted", "anything", "no evidence"],
)
def test_an_interval_is_drawn_on_a_line_from_nought_to_one(
    low: float | None, rate: float | None, high: float | None, line: str
) -> None:
    assert interval(low, rate, high, width=10) == line


def group(
    kind: str | None, method: str | None, accepted: int, low: float | None, high: float | None
) -> dict[str, object]:
    attempts = 20 if low is not None else 0
    return {
        "dimensions": {"category": kind, "method": method},
        "attempts": attempts,
        "accepted": accepted,
        "acceptance_rate": accepted / attempts if attempts else None,
        "wilson_low": low,
        "wilson_high": high,
    }


def test_the_surest_method_of_a_kind_comes_first_and_unknown_is_said() -> None:
    groups = [
        group("verb.b", "weak", 5, 0.11, 0.47),
        group("verb.b", None, 0, None, None),
        group("verb.b", "strong", 17, 0.64, 0.95),
        group("verb.a", "only", 10, 0.30, 0.70),
    ]
    console = Console(width=120, file=io.StringIO())

    console.print(by_kind_and_method({"groups": groups}))

    printed = console.file.getvalue()  # type: ignore[attr-defined]
    rows = [line.split()[:2] for line in printed.splitlines() if line.startswith("verb.")]
    assert rows == [["verb.a", "only"], ["verb.b", "strong"], ["verb.b", "weak"], ["verb.b", "not"]]
