"""How a forecast and what came of it look in a terminal."""

import io
from typing import Any

import pytest
from rich.console import Console

from examples.forecast import shown
from examples.rounds import Drawn, Prediction


def body(verdict: str, gap: tuple[float | None, float | None, float | None]) -> dict[str, Any]:
    def three(low: float | None, estimate: float | None, high: float | None) -> dict[str, Any]:
        return {"low": low, "estimate": estimate, "high": high}

    return {
        "candidate": {"version": 1},
        "baseline": None,
        "rows": 250,
        "verdict": verdict,
        "estimates": {
            "dr": {
                "candidate": three(0.50, 0.57, 0.64),
                "baseline": three(0.39, 0.45, 0.51),
                "difference": three(*gap),
            }
        },
        "sequence": {"low": gap[0], "high": gap[2]},
        "effective_sample_size": {"candidate": 203.4, "baseline": 250.0},
    }


def runs(count: int, accepted: int, policy: int | None) -> list[Drawn]:
    return [Drawn(number, "k", "a", policy, number < accepted) for number in range(count)]


def printed(found: Prediction, judged_on: list[Drawn], then: list[Drawn]) -> str:
    console = Console(width=150, file=io.StringIO())
    console.print(shown(found, judged_on, then, console.width))
    said: str = console.file.getvalue()  # type: ignore[attr-defined]
    return said


def test_a_forecast_stands_beside_what_happened_then_with_intervals_and_labels() -> None:
    found = Prediction({"body": body("better", (0.10, 0.12, 0.14))}, stands=True)

    said = printed(found, runs(250, 112, None), runs(100, 55, 1))

    rows = [" ".join(line.split()) for line in said.splitlines()]
    assert rows[1].startswith("predicted for weights version 1 250 57% 50% to 64%")
    assert rows[1].endswith("randomized")
    assert rows[2].startswith("predicted for uniform draws 250 45% 39% to 51%")
    assert rows[3].startswith("predicted difference 250 +12% +10% to +14%")
    assert rows[4].startswith("judged on, by uniform draws 250 45% 39% to 51%")
    assert rows[5].startswith("this round, by weights version 1 100 55% 45% to 64%")
    assert rows[5].endswith("observational")
    assert "verdict: better (the difference is within +10.0% to +14.0%" in said


@pytest.mark.parametrize("gap", [(-0.02, 0.01, 0.04), (None, None, None)], ids=["too close", "unknown"])
def test_keeping_the_baseline_is_said_to_be_a_valid_result(gap: Any) -> None:
    found = Prediction({"body": body("keep_baseline", gap)}, stands=False)

    said = printed(found, runs(1, 0, None), runs(20, 8, None))

    assert "verdict: keep_baseline" in said
    assert "That is a valid result" in said
    assert "this round, by uniform draws" in said


def test_a_round_that_was_drawn_by_two_policies_has_a_row_for_each() -> None:
    found = Prediction({"body": body("better", (0.10, 0.12, 0.14))}, stands=True)

    said = printed(found, [], [*runs(3, 1, 1), *runs(2, 2, 4)])

    assert "this round, by weights version 1" in said
    assert "this round, by weights version 4" in said


def test_a_narrow_terminal_goes_without_the_drawn_line_and_cuts_no_word() -> None:
    console = Console(width=80, file=io.StringIO())
    found = Prediction({"body": body("better", (0.10, 0.12, 0.14))}, stands=True)

    console.print(shown(found, runs(250, 112, None), runs(100, 55, 1), console.width))

    said: str = console.file.getvalue()  # type: ignore[attr-defined]
    assert "…" not in said
    assert "this round, by weights version 1   100" in said
