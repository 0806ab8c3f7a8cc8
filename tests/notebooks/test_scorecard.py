"""The scorecard notebook runs without a screen, with runs and without."""

import subprocess
import sys
from pathlib import Path

import pytest

from assets.lake import Lake
from schemas import observations, path_scorecard

ROOT = Path(__file__).parents[2]
NOTEBOOK = ROOT / "notebooks" / "scorecard.py"
QUEUE, KEY = "demo.compress", "path_statistics:wilson-grouping:v1:demo.compress"


def group(method: str | None, attempts: int, accepted: int) -> dict[str, object]:
    rate = accepted / attempts if attempts else None
    return {
        "dimensions": {"category": "verb.compress.source", "method": method},
        **dict.fromkeys(("distinct_tasks", "retried", "imported", "blocked", "randomized"), 0),
        **dict.fromkeys(
            (
                "median_server_duration_seconds",
                "median_total_tokens",
                "median_reported_duration_seconds",
            )
        ),
        **{name: [] for name in ("failure_reasons", "problems", "example_run_ids")},
        **{name: {} for name in ("median_cost", "worker_outcomes")},
        "attempts": attempts,
        "accepted": accepted,
        "acceptance_rate": rate,
        "wilson_low": None if rate is None else 0.0,
        "wilson_high": None if rate is None else 1.0,
        "small": attempts < 5,
    }


def fill(home: Path, groups: list[dict[str, object]]) -> None:
    lake = Lake(str(home / "lake"))
    lake.ensure("observations", observations.SCHEMA, "store-of-the-test")
    body = {"cursor": "7", "use_policy": {"training_corpus": "excluded_by_default"}, "groups": groups}
    lake.write_table("scorecards", QUEUE, path_scorecard.rows(QUEUE, 3, "f" * 64, KEY, body))


def export(home: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """The page that a reader gets, as HTML."""
    monkeypatch.setenv("TESSERA_HOME", str(home))
    for name in ("TESSERA_LAKE", "TESSERA_URL", "TESSERA_KEY"):
        monkeypatch.delenv(name, raising=False)
    page = home / "page.html"
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "marimo",
            "export",
            "html",
            str(NOTEBOOK),
            "-o",
            str(page),
            "--no-include-code",
        ],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return page.read_text("utf-8")


def test_an_empty_lake_gives_a_page_that_says_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = export(tmp_path, monkeypatch)

    assert "No scorecards yet" in page
    assert "make run" in page


def test_the_page_shows_every_group_and_where_it_comes_from(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fill(tmp_path, [group("lzma-6", 20, 17), group(None, 2, 0), group("bz2-9", 0, 0)])

    page = export(tmp_path, monkeypatch)

    assert "lzma-6" in page
    assert "not reported" in page
    assert "Published as version 3" in page


@pytest.mark.parametrize("filled", [False, True], ids=["empty lake", "no groups"])
def test_the_notebook_is_also_a_plain_script(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, filled: bool
) -> None:
    if filled:
        fill(tmp_path, [])
    monkeypatch.setenv("TESSERA_HOME", str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(ROOT))

    done = subprocess.run(
        [sys.executable, str(NOTEBOOK)], cwd=tmp_path, capture_output=True, text=True, timeout=120
    )

    assert done.returncode == 0, done.stderr
    assert "Traceback" not in done.stderr
