"""Large queues in parts: the published bytes are those of one part, and nothing is ever half there."""

import os
import shutil
import time
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assets import evidence, fingerprints, specs, upkeep, windows
from assets.ahead import Ahead
from assets.lake import Lake
from assets.publish import BudgetCrossed
from assets.runs import Prepared, from_lake
from assets.spread import Processes, Spread
from assets.views import LakeConflictError, View
from assets.writer import Writer
from bench.parts import batches
from learners.catalog import PATH_STATISTICS
from learners.contract import Citation, Evidence, Reading, Run, Scope
from learners.memory import LEARNER as MEMORY
from learners.path_statistics import LEARNER
from tessera.canonical import digest
from tessera.client import Client
from tests.assets.learned import Workspace, checks, failure, fill, made
from tests.assets.odd_learner import Odd, odd_spec

ROWS = 4_500
SCORECARD = "path_statistics:wilson-grouping:v1"
PARTS = (1, 2, 7)


def in_parts(parts: int, rows: int = ROWS) -> Spread:
    """A spread that computes so many rows in so many parts."""
    return Spread(-(-rows // parts))


@pytest.fixture(scope="module")
def rows() -> pl.DataFrame:
    """Runs of queue `q` with gaps between their cursors, some private."""
    (frame,) = batches(ROWS)
    return frame.with_columns(pl.col("cursor") * 3, (pl.col("cursor") % 11 == 0).alias("private"))


@pytest.fixture(scope="module")
def original(rows: pl.DataFrame, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A lake of these runs, in files of 1,000."""
    place = tmp_path_factory.mktemp("original")
    writer = Writer(Lake(str(place)), "q", View("store", "key", ("read",), None, None))
    for part in rows.iter_slices(1_000):
        writer.append(part, int(part["cursor"][-1]))
    return place


@pytest.fixture
def filled(original: Path, tmp_path: Path) -> Lake:
    """A copy of it."""
    return Lake(str(shutil.copytree(original, tmp_path / "filled")))


@pytest.mark.parametrize("last", [1, 699, 700, 1_401, ROWS - 1, ROWS, ROWS + 1])
@pytest.mark.parametrize("kind", [None, "verb.3"])
def test_a_window_in_parts_has_the_rows_and_cursors_of_the_window_at_once(
    filled: Lake, last: int, kind: str | None
) -> None:
    filled.spread, scope = Spread(150), Scope("q", kind)
    columns = ("cursor", "run_id", "private")
    at_once = evidence.from_lake(filled, scope, Reading(last=last, columns=columns))

    cut = windows.cut(filled, filled.open("observations"), scope, last=last)

    if cut is None:
        assert at_once.rows <= 150
        return
    window = windows.Window(cut)
    assert (window.rows, window.after, window.upto) == (at_once.rows, at_once.after, at_once.upto)
    assert pl.concat(list(window.pieces(columns))).equals(at_once.frame)
    assert max(part.rows for part in cut.slices) <= 150 * 9 // 8


@pytest.mark.parametrize("surface", [None, {"queue": "q"}])
def test_a_scorecard_has_the_same_bytes_from_1_2_and_7_parts(
    filled: Lake, surface: dict[str, str] | None
) -> None:
    run = Run(Citation("learn.specs", SCORECARD, 1, "0" * 64), Scope("q"), {"last": 4_000}, surface)
    prepared = Prepared(LEARNER, PATH_STATISTICS, run)
    found = set()
    for parts in PARTS:
        filled.spread = in_parts(parts, 4_000)
        seen = from_lake(filled)(prepared)
        assert isinstance(seen, windows.Window) == (parts > 1)
        found.add(prepared.work(seen).outcome.nouns[0].sha256())

    assert len(found) == 1


def test_merging_a_range_of_values_at_a_time_gives_the_same_bytes(
    filled: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As tallies too large for memory are merged."""
    monkeypatch.setattr(windows, "RANGE_ROWS", 200)
    ranges: list[int] = []
    ends_of = windows.Spilled._ends
    monkeypatch.setattr(
        windows.Spilled, "_ends", lambda *given: ranges.append(len(found := ends_of(*given))) or found
    )
    filled.spread = in_parts(7)
    run = Run(Citation("learn.specs", SCORECARD, 1, "0" * 64), Scope("q"), {})
    prepared = Prepared(LEARNER, PATH_STATISTICS, run)

    outcome = prepared.learn(from_lake(filled)(prepared))

    filled.spread = in_parts(1)
    assert outcome.nouns == prepared.learn(from_lake(filled)(prepared)).nouns
    assert sum(ranges) > 50


def test_a_window_over_the_budget_is_refused_before_it_is_computed(filled: Lake) -> None:
    def never(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        raise AssertionError("computed")

    filled.spread = Spread(1_000, never)
    run = Run(Citation("learn.specs", SCORECARD, 1, "0" * 64), Scope("q"), {})
    tight = {**PATH_STATISTICS, "budget": {**PATH_STATISTICS["budget"], "observations": 4_000}}
    prepared = Prepared(LEARNER, tight, run)

    with pytest.raises(BudgetCrossed, match="budget of 4000 observations: 4500"):
        prepared.learn(from_lake(filled)(prepared))


def test_more_groups_than_a_noun_holds_end_the_run_at_the_first_part(filled: Lake) -> None:
    started: list[Any] = []

    def counting(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        return (started.append(item) or function(item) for item in items)

    filled.spread = Spread(1_000, counting)
    run = Run(Citation("learn.specs", SCORECARD, 1, "0" * 64), Scope("q"), {})
    tight = {**PATH_STATISTICS, "budget": {**PATH_STATISTICS["budget"], "output_bytes": 10_000}}
    prepared = Prepared(LEARNER, tight, run)

    with pytest.raises(BudgetCrossed, match="groups already, more than the budget of 10000 output_bytes"):
        prepared.learn(from_lake(filled)(prepared))

    assert len(started) == 1


def content(lake: Lake) -> str:
    """The digest of the fingerprints, however they lie in files."""
    table = lake.scan("fingerprints").sort("cursor").collect()
    return digest([repr(column.to_list()) for column in table.get_columns()])


def test_fingerprints_are_the_same_from_1_2_and_7_parts_in_one_commit(original: Path, tmp_path: Path) -> None:
    found = []
    for parts in PARTS:
        other = Lake(str(shutil.copytree(original, tmp_path / f"{parts}")), spread=in_parts(parts))
        done = fingerprints.refresh(other, "q")
        table = other.open("fingerprints")
        assert table is not None
        found.append((content(other), done.rows, done.cursor))
        assert table.version() == 1
        assert len(files_of(other)) == parts
        assert fingerprints.refresh(other, "q").rows_added == 0

    assert len(set(found)) == 1


def test_two_processes_give_what_one_gives(filled: Lake) -> None:
    filled.spread = Spread(1_500, Processes(2))
    run = Run(Citation("learn.specs", SCORECARD, 1, "0" * 64), Scope("q"), {})
    prepared = Prepared(LEARNER, PATH_STATISTICS, run)

    spread = prepared.learn(from_lake(filled)(prepared))
    fingerprints.refresh(filled, "q")

    filled.spread = Spread()
    assert spread.nouns == prepared.learn(from_lake(filled)(prepared)).nouns
    rows = filled.observations("q", columns=fingerprints.READ)
    assert filled.scan("fingerprints").sort("cursor").collect().equals(fingerprints.fingerprinted(rows))


def test_of_two_refreshes_in_parts_the_second_keeps_nothing(filled: Lake) -> None:
    def overtaken(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        fingerprints.refresh(Lake(filled.location, spread=Spread(2_000)), "q")
        return map(function, items)

    filled.spread = Spread(1_000, overtaken)
    with pytest.raises(LakeConflictError, match="committed first"):
        fingerprints.refresh(filled, "q")

    assert filled.count("fingerprints", "q") == ROWS


def test_entries_made_ahead_give_the_index_of_entries_made_in_the_run(rows: pl.DataFrame) -> None:
    run = Run(Citation("learn.specs", "memory:minhash-lsh:v1", 1, "0" * 64), Scope("q"), {}, {"queue": "q"})
    read = rows.head(500)

    ahead = MEMORY.learn(run, Evidence(read, made=MEMORY.of_rows(read)))

    assert ahead.nouns == MEMORY.learn(run, Evidence(read)).nouns
    assert ahead.nouns[-1].body["entries"] == read.height - read["private"].sum()


class Stranger(Odd):
    """A learner of another package that could be read ahead for."""

    def reading(self, run: Run) -> Reading:
        """From the beginning."""
        return Reading()

    def of_rows(self, rows: pl.DataFrame) -> list[Any]:
        """Is not for this process."""
        raise AssertionError("another package's code was called outside its own process")


def test_the_rows_of_another_packages_learner_are_not_made_ahead_in_our_processes(filled: Lake) -> None:
    run = Run(Citation("learn.specs", "odd:counting:v1", 1, "0" * 64), Scope("q"), {})
    prepared = Prepared(Stranger(), odd_spec("counting", observations=100), run)

    seen = Ahead(filled)(prepared)

    assert (seen.rows, seen.made) == (100, None)


def files_of(lake: Lake) -> list[Path]:
    return sorted(Path(lake.uri("fingerprints"), "queue=q").glob("*.parquet"))


def test_parts_that_end_in_between_leave_no_row_no_cursor_and_no_file(filled: Lake) -> None:
    def breaks(function: Callable[[Any], Any], items: Iterable[Any]) -> Iterator[Any]:
        first, *_ = items
        yield function(first)
        raise KeyboardInterrupt

    filled.spread = Spread(1_000, breaks)
    with pytest.raises(KeyboardInterrupt):
        fingerprints.refresh(filled, "q")

    assert filled.count("fingerprints", "q") == 0
    assert files_of(filled) == []
    filled.spread = Spread(1_000)
    assert fingerprints.refresh(filled, "q").rows == ROWS


def test_the_file_of_a_writer_that_was_killed_is_removed_after_a_day(filled: Lake) -> None:
    filled.spread = Spread(1_000)
    fingerprints.refresh(filled, "q")
    before = content(filled)
    abandoned, young = (files_of(filled)[0].with_name(f"parts-{name}.parquet") for name in ("old", "new"))
    for path in (abandoned, young):
        path.write_bytes(files_of(filled)[0].read_bytes())
    os.utime(abandoned, (time.time() - 25 * 3600,) * 2)

    upkeep.remove_old(filled, "fingerprints", keep_hours=0)

    assert not abandoned.exists()
    assert young.exists()
    assert content(filled) == before


def replayed(rows: pl.DataFrame, spec: Citation) -> dict[str, str]:
    """The index of some rows by key and digest, run after run of 2,000 rows, with nothing made ahead."""
    found, state, after = {}, None, "0"
    while (left := rows.filter(pl.col("cursor") > int(after))).height:
        outcome = MEMORY.learn(Run(spec, Scope("q"), {}, state=state), Evidence(left.head(2_000), after))
        found |= {noun.key: noun.sha256() for noun in outcome.nouns}
        state, after = {"body": outcome.nouns[-1].body}, outcome.evidence.upto
    return found


def test_the_workspace_publishes_the_scorecard_and_the_index_of_one_part(
    workspace: Workspace, rows: pl.DataFrame
) -> None:
    names = (SCORECARD, "memory:minhash-lsh:v1")
    for name in names:
        specs.configure(workspace.client, name, "q")
    rows = rows.head(2_300)
    fill(workspace.client, workspace.lake, rows)
    workspace.lake.spread = in_parts(7, rows.height)

    result = workspace.materialize("path_scorecard", "memory_index")

    assert result.success, failure(result)
    assert all(checks(result).values())
    citation = {name: _citation(workspace.client, name) for name in names}
    at_once = LEARNER.learn(Run(citation[SCORECARD], Scope("q"), {}), Evidence(rows))
    assert made(result, "path_scorecard")["data_version"] == at_once.nouns[0].sha256()
    expected = replayed(rows, citation[names[1]])
    published = {key: workspace.client.get_record("learn.outputs", key)["sha256"] for key in expected}
    assert published == expected
    head = workspace.client.get_record("learn.outputs", f"{names[1]}:q:head")
    assert (head["version"], head["body"]["entries"]) == (2, rows.height)


def _citation(client: Client, name: str) -> Citation:
    record = client.get_record("learn.specs", name)
    return Citation("learn.specs", name, record["version"], record["sha256"])
