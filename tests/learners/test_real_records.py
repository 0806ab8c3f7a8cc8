"""Scorecards of real records, against figures that were computed elsewhere (scipy and statsmodels)."""

import gzip
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from learners.contract import Citation, Evidence, Run, Scope
from learners.parts import merge
from learners.path_statistics import LEARNER, groups
from learners.statistics import Pinned, exact_median
from schemas import pages
from tessera.observations import attempt_parts, build_item

DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
pytestmark = [
    pytest.mark.skipif(not DATA.is_dir(), reason="the real records are not beside this checkout"),
    pytest.mark.xdist_group("real records"),  # which are read once
]

DIMENSIONS = {
    "overall": (),
    "by_model_harness": ("model", "harness"),
    "by_kind": ("category",),
    "by_full_path": ("model", "harness", "method", "template", "shim"),
    "by_kind_model_harness": ("category", "model", "harness"),
}
SETS = ("swebench_verified_paths", "openhands_index")


@pytest.fixture(scope="module", params=SETS)
def records(request: pytest.FixtureRequest) -> tuple[str, pl.DataFrame]:
    """A set's name, and its attempts as the store would serve them and the lake would hold them."""
    items = []
    with gzip.open(DATA / f"{request.param}.jsonl.gz", "rb") as lines:
        for cursor, line in enumerate(lines, 1):
            parts = attempt_parts(json.loads(line), "q")
            server = {name: value for name, value in parts.server.items() if name != "input_digest"}
            items.append(
                build_item(
                    run_id=f"run-{cursor}",
                    cursor=cursor,
                    brief=parts.brief,
                    report=parts.report,
                    input_digest=parts.server["input_digest"],
                    key_id="key",
                    **server,
                )
            )
    parts_of = [items[start : start + 1000] for start in range(0, len(items), 1000)]
    texts = [json.dumps({"items": part}, separators=(",", ":")) for part in parts_of]
    frames = [pages.read([text.encode()]).rows for text in texts]
    return request.param, pl.concat(frames)


@pytest.fixture(scope="module")
def expected(records: tuple[str, pl.DataFrame]) -> dict[str, Any]:
    """What the set's figures are."""
    figures: dict[str, Any] = json.loads((DATA / "expected.json").read_text())["sets"][records[0]]
    return figures


@pytest.mark.parametrize("grouping", DIMENSIONS)
def test_the_published_figures_come_out(
    grouping: str, records: tuple[str, pl.DataFrame], expected: dict[str, Any]
) -> None:
    dimensions = DIMENSIONS[grouping]
    wanted = [expected[grouping]] if grouping == "overall" else expected[grouping]

    found = groups(records[1], dimensions)

    assert len(found) == len(wanted)
    by_path = {tuple(group["dimensions"].values()): group for group in found}
    for figures in wanted:
        path = tuple(figures["kind" if name == "category" else name] for name in dimensions)
        group = by_path[path]
        assert (group["attempts"], group["accepted"]) == (figures["attempts"], figures["accepted"])
        assert group["imported"] == figures["attempts"]
        assert group["acceptance_rate"] == pytest.approx(figures["rate"], abs=1e-12)
        assert group["wilson_low"] == pytest.approx(figures["wilson95_low"], abs=1e-12)
        assert group["wilson_high"] == pytest.approx(figures["wilson95_high"], abs=1e-12)
        assert group["median_reported_duration_seconds"] == figures["duration_seconds_median"]
        assert group["median_cost"].get("USD") == figures["cost_amount_median"]
        assert set(group["median_cost"]) <= {"USD"}


def test_the_token_medians_and_the_known_counts_come_out(
    records: tuple[str, pl.DataFrame], expected: dict[str, Any]
) -> None:
    names = {
        "input_tokens": "input_tokens",
        "output_tokens": "output_tokens",
        "duration_seconds": "reported_duration_seconds",
        "cost_amount": "cost_amount",
    }
    for name, column in names.items():
        known, median = records[1].select(pl.col(column).count(), exact_median(column).alias("median")).row(0)

        assert known == expected["overall"][f"{name}_known"]
        assert median == expected["overall"][f"{name}_median"]


@pytest.mark.parametrize("count", [2, 7])
def test_a_real_scorecard_has_the_same_bytes_in_parts(records: tuple[str, pl.DataFrame], count: int) -> None:
    frame = records[1]
    run = Run(Citation("learn.specs", "path_statistics:wilson-grouping:v1", 1, "0" * 64), Scope("q"))
    pinned, partials = Pinned(), []
    for rows in frame.iter_slices(-(-frame.height // count)):
        pinned.add_rows(rows)
        partials.append(LEARNER.partial(run, rows))

    merged = LEARNER.merged(run, Evidence(frame), pinned, merge(partials, LEARNER.examples))

    assert len(partials) == count
    assert merged.nouns == LEARNER.learn(run, Evidence(frame)).nouns
