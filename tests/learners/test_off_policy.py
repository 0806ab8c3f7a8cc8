"""The estimates against a slow reading of their formulas, at both ends, and with nothing at all."""

import math
import statistics
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.off_policy import (
    Draws,
    alpha_of,
    compared,
    half_width,
    predictions,
    sequence,
    supported,
    verdict,
)

Z = 1.959963984540054


def draws_of(rows: list[dict[str, Any]]) -> Draws:
    """Rows of `{group, weights, arm, reward}`, arms being positions in `weights`."""
    sizes = [len(row["weights"]) for row in rows]
    starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(np.int64)[: len(rows)]
    taken = np.array([row["arm"] for row in rows], dtype=np.int64)
    weight = np.array([w for row in rows for w in row["weights"]], dtype=np.float64)
    return Draws(
        starts,
        np.array([arm for size in sizes for arm in range(size)], dtype=np.int64),
        weight,
        starts + taken,
        weight[starts + taken] if rows else np.zeros(0),
        np.array([row["group"] for row in rows], dtype=np.int64),
        np.array([row["reward"] for row in rows], dtype=np.float64),
    )


@st.composite
def logged(draw: Any, least: int = 0) -> list[dict[str, Any]]:
    rows = []
    for _ in range(draw(st.integers(least, 30))):
        raw = draw(st.lists(st.floats(0.05, 1), min_size=2, max_size=4))
        weights = [w / sum(raw) for w in raw]
        arm = draw(st.integers(0, len(weights) - 1))
        rows.append(
            {
                "group": draw(st.integers(0, 2)),
                "weights": weights,
                "arm": arm,
                "reward": draw(st.sampled_from([0, 1])),
            }
        )
    return rows


def slowly(rows: list[dict[str, Any]], policy: Any) -> tuple[list[float], list[float], list[float]]:
    """w, the IPS terms and the DR terms, row by row as the contract writes them."""
    seen: dict[tuple[int, int], list[int]] = {}
    ws, ips, dr = [], [], []
    for row in rows:
        pi = policy(row)
        q = [
            (1 + sum(seen.get((row["group"], b), []))) / (2 + len(seen.get((row["group"], b), [])))
            for b in range(len(pi))
        ]
        w = pi[row["arm"]] / row["weights"][row["arm"]]
        ws.append(w)
        ips.append(w * row["reward"])
        dr.append(sum(p * one for p, one in zip(pi, q, strict=True)) + w * (row["reward"] - q[row["arm"]]))
        seen.setdefault((row["group"], row["arm"]), []).append(row["reward"])
    return ws, ips, dr


def first_heavy(row: dict[str, Any]) -> list[float]:
    size = len(row["weights"])
    return [0.7 + 0.3 / size] + [0.3 / size] * (size - 1)


def even(row: dict[str, Any]) -> list[float]:
    return [1 / len(row["weights"])] * len(row["weights"])


def flat(rows: list[dict[str, Any]], policy: Any) -> Any:
    return np.array([p for row in rows for p in policy(row)], dtype=np.float64)


@given(logged(least=2))
def test_the_estimates_are_those_of_their_formulas(rows: list[dict[str, Any]]) -> None:
    found = compared(draws_of(rows), flat(rows, first_heavy), flat(rows, even), 0.025, 100)["estimates"]
    rewards = [row["reward"] for row in rows]
    (wc, ipsc, drc), (wb, ipsb, drb) = slowly(rows, first_heavy), slowly(rows, even)
    gaps = {
        "ips": [a - b for a, b in zip(ipsc, ipsb, strict=True)],
        "dr": [a - b for a, b in zip(drc, drb, strict=True)],
    }
    for name, one, other in (("ips", ipsc, ipsb), ("dr", drc, drb)):
        for side, values, least in (
            ("candidate", one, 0),
            ("baseline", other, 0),
            ("difference", gaps[name], -1),
        ):
            mean = statistics.fmean(values)
            half = Z * statistics.stdev(values) / math.sqrt(len(values))
            assert found[name][side]["estimate"] == pytest.approx(mean, abs=1e-12)
            assert found[name][side]["low"] == pytest.approx(min(max(mean - half, least), 1), abs=1e-9)
            assert found[name][side]["high"] == pytest.approx(min(max(mean + half, least), 1), abs=1e-9)
    ratio = sum(ipsc) / sum(wc)
    pull = [w * (r - ratio) / statistics.fmean(wc) for w, r in zip(wc, rewards, strict=True)]
    half = Z * statistics.stdev(pull) / math.sqrt(len(rows))
    assert found["snips"]["candidate"]["estimate"] == pytest.approx(ratio, abs=1e-12)
    assert found["snips"]["candidate"]["high"] == pytest.approx(min(ratio + half, 1), abs=1e-9)
    assert found["snips"]["difference"]["estimate"] == pytest.approx(ratio - sum(ipsb) / sum(wb), abs=1e-12)


@given(logged())
def test_no_figure_is_ever_nan(rows: list[dict[str, Any]]) -> None:
    figures = compared(draws_of(rows), flat(rows, first_heavy), flat(rows, even), 0.025, 100)

    def walk(value: Any) -> None:
        if isinstance(value, dict):
            for one in value.values():
                walk(one)
        elif isinstance(value, float):
            assert math.isfinite(value)

    walk(figures)


def test_predictions_know_only_what_was_captured_earlier() -> None:
    row = {"group": 0, "weights": [0.5, 0.5], "arm": 0, "reward": 1}
    rows = [row, {**row, "reward": 0}, {**row, "arm": 1}, {**row, "group": 1}, row]
    assert predictions(draws_of(rows)).reshape(-1, 2).tolist() == [
        [1 / 2, 1 / 2],
        [2 / 3, 1 / 2],
        [2 / 4, 1 / 2],
        [1 / 2, 1 / 2],
        [2 / 4, 2 / 3],
    ]


def test_nothing_at_all_gives_unknown_figures_and_keeps_the_baseline() -> None:
    nothing = compared(draws_of([]), np.zeros(0), np.zeros(0), 0.025, 100)
    assert nothing["verdict"] == "keep_baseline"
    assert nothing["sequence"] == {"low": None, "high": None}
    assert nothing["estimates"]["dr"]["difference"] == {"estimate": None, "low": None, "high": None}
    assert nothing["effective_sample_size"] == {"candidate": 0.0, "baseline": 0.0}
    assert nothing["largest_weight"] == {"candidate": None, "baseline": None}


def test_one_row_has_an_estimate_and_no_interval() -> None:
    rows = [{"group": 0, "weights": [0.5, 0.5], "arm": 0, "reward": 1}]
    found = compared(draws_of(rows), np.array([1.0, 0.0]), np.array([0.5, 0.5]), 0.025, 100)
    assert found["estimates"]["ips"]["candidate"] == {"estimate": 2.0, "low": None, "high": None}


def test_none_of_n_and_n_of_n_stay_within_bounds() -> None:
    for reward in (0, 1):
        rows = [{"group": 0, "weights": [0.5, 0.5], "arm": i % 2, "reward": reward} for i in range(50)]
        found = compared(draws_of(rows), flat(rows, first_heavy), flat(rows, even), 0.025, 100)["estimates"]
        assert found["snips"]["candidate"] == {"estimate": reward, "low": reward, "high": reward}
        assert 0 <= found["dr"]["candidate"]["low"] <= found["dr"]["candidate"]["high"] <= 1


def test_a_row_that_a_policy_could_not_have_met_is_not_supported() -> None:
    rows = [
        {"group": 0, "weights": [0.0, 1.0], "arm": 1, "reward": 1},
        {"group": 0, "weights": [0.5, 0.5], "arm": 1, "reward": 1},
    ]
    draws = draws_of(rows)
    assert supported(draws, np.array([0.5, 0.5, 0.5, 0.5])).tolist() == [False, True]
    assert supported(draws, np.array([0.0, 1.0, 0.5, 0.5])).tolist() == [True, True]
    assert supported(draws, np.array([0.0, 1.0, 0.5, 0.5]), np.array([0.1, 0.9, 0.0, 1.0])).tolist() == [
        False,
        True,
    ]
    assert len(draws.keep(np.array([False, True]))) == 1


def test_a_row_that_offers_no_arm_of_a_policy_is_not_supported() -> None:
    rows = [{"group": 0, "weights": [0.5, 0.5], "arm": 1, "reward": 1} for _ in range(2)]
    all_to_an_arm_of_the_second_row = np.array([0.0, 0.0, 1.0, 0.0])
    assert supported(draws_of(rows), all_to_an_arm_of_the_second_row).tolist() == [False, True]


def test_equal_weights_count_in_full_and_one_heavy_weight_counts_for_little() -> None:
    rows = [{"group": 0, "weights": [0.5, 0.5], "arm": 0, "reward": 1} for _ in range(100)]
    even_mass = np.full(200, 0.5)
    assert compared(draws_of(rows), even_mass, even_mass, 0.025, 100)["effective_sample_size"][
        "candidate"
    ] == pytest.approx(100)
    heavy = np.full(200, 0.005)
    heavy[0] = 0.5
    found = compared(draws_of(rows), heavy, even_mass, 0.025, 100)
    assert found["effective_sample_size"]["candidate"] == pytest.approx(1.99**2 / (1 + 99e-4), rel=1e-12)
    assert found["verdict"] == "keep_baseline"


def test_the_sequence_is_the_papers_formula() -> None:
    alpha, count, evidence, deviation = 0.025, 400, 100, 0.8
    rho = (-2 * math.log(alpha) + math.log(1 - 2 * math.log(alpha))) / evidence
    inside = 2 * (count * rho + 1) / (count**2 * rho) * math.log(math.sqrt(count * rho + 1) / alpha)
    assert half_width(deviation, count, alpha, evidence) == pytest.approx(
        deviation * math.sqrt(inside), rel=1e-12
    )
    values = np.concatenate([np.full(200, 0.5), np.full(200, 0.1)])
    bounds = sequence(values, alpha, evidence)
    half = half_width(float(np.std(values, ddof=1)), count, alpha, evidence)
    assert bounds == {"low": pytest.approx(0.3 - half), "high": pytest.approx(0.3 + half)}


def test_the_errors_of_all_candidates_together_stay_under_five_percent() -> None:
    assert alpha_of(1) == 0.025
    assert 0.0499 < sum(alpha_of(k) for k in range(1, 2000)) < 0.05


def test_a_verdict_needs_rows_and_both_effective_sizes() -> None:
    better = {"low": 0.1, "high": 0.2}
    assert verdict(better, 100, (100.0, 100.0), 100) == "better"
    assert verdict({"low": -0.2, "high": -0.1}, 100, (100.0, 100.0), 100) == "worse"
    assert verdict({"low": -0.1, "high": 0.1}, 100, (100.0, 100.0), 100) == "keep_baseline"
    assert verdict(better, 99, (100.0, 100.0), 100) == "keep_baseline"
    assert verdict(better, 100, (99.9, 100.0), 100) == "keep_baseline"
    assert verdict(better, 100, (100.0, 99.9), 100) == "keep_baseline"
    assert verdict({"low": None, "high": None}, 100, (100.0, 100.0), 100) == "keep_baseline"
