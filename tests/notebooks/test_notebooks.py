"""Each notebook runs without a screen: as a script, as a page, on an empty lake, and with a broken cell."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from pipelines import notebook_pages, notebooks
from tests.notebooks.conftest import NOTEBOOKS, QUEUE, ROOT, Home, started

pytestmark = pytest.mark.xdist_group("notebooks")  # their home is filled and exported once


def name(path: Path) -> str:
    return path.stem


@pytest.fixture(scope="module")
def scripts(home: Home, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str]]:
    """Every notebook as a plain script from another folder: how it ended, and what it said."""
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    running = {path.stem: started([str(path)], elsewhere, home.environment) for path in NOTEBOOKS}
    ended = {}
    for stem, process in running.items():
        out, err = process.communicate(timeout=240)
        ended[stem] = process.returncode, out + err
    assert list(elsewhere.iterdir()) == []
    return ended


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_notebook_is_also_a_plain_script(notebook: Path, scripts: dict[str, tuple[int, str]]) -> None:
    assert scripts[notebook.stem] == (0, "")


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_fresh_processes_export_the_same_bytes_from_any_folder_with_caches_or_without(
    notebook: Path, exported: tuple[Path, Path]
) -> None:
    first, second = (folder / f"{notebook.stem}.html" for folder in exported)

    assert first.read_bytes() == second.read_bytes()


SAYS = {
    "one_queue": (QUEUE, "up to cursor 84", "0 runs wait in the store", "timeout after #"),
    "compare_paths": ("Observational.", "2 comparisons were made", "Holm", "not tested: small", "(small)"),
    "follow_lesson": ("verb.pack", "verified ✓", "the same runs ✓", "of 42 ✓", "(observational)"),
    "try_recall": ("84 runs are indexed", "Evidence only", "equal", "learner: memory"),
}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_a_page_answers_its_question_and_shows_stored_text_as_text(
    notebook: Path, exported: tuple[Path, Path]
) -> None:
    page = (exported[0] / f"{notebook.stem}.html").read_text("utf-8")

    assert [words for words in SAYS[notebook.stem] if words not in page] == []
    assert "<svg" in page
    assert "<script" not in page
    assert 'href="http://example' not in page


@pytest.fixture
def alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[pytest.MonkeyPatch]:
    """A home in which nothing is, and no store."""
    for variable in ("TESSERA_LAKE", "TESSERA_KEY", "TESSERA_DATABASE_URL"):
        monkeypatch.delenv(variable, raising=False)
    monkeypatch.setenv("TESSERA_HOME", str(tmp_path))
    monkeypatch.setenv("TESSERA_URL", "http://127.0.0.1:9")
    return monkeypatch


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=name)
def test_an_empty_lake_gives_a_page_that_says_what_to_do(
    notebook: Path, alone: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    page = notebooks.page(notebook)

    assert "The lake has no" in page
    assert "make run" in page
    assert "workspace run" in page
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("stem", "words"),
    [
        ("one_queue", "how much waits there is not known"),
        ("compare_paths", "2 comparisons were made"),
        ("follow_lesson", "tessera serve"),
        ("try_recall", "tessera serve"),
    ],
)
def test_without_a_store_a_page_shows_what_the_lake_has_and_says_the_rest(
    stem: str, words: str, home: Home, alone: pytest.MonkeyPatch
) -> None:
    alone.setenv("TESSERA_LAKE", str(home.folder / "lake"))

    assert words in notebooks.page(ROOT / "notebooks" / f"{stem}.py")


@pytest.fixture(scope="module")
def broken(home: Home, tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[int, str, Path]]:
    """A notebook with one bad cell, as a script and exported beside a good one: status, words, pages."""
    folder = tmp_path_factory.mktemp("broken")
    path, pages = folder / "one_queue.py", folder / "pages"
    text = (ROOT / "notebooks" / path.name).read_text("utf-8")
    path.write_text(text.replace('_query = """', '_query = 1 / 0 * """', 1), "utf-8")
    pages.mkdir()
    (pages / "one_queue.html").write_text("of before")
    good = str(ROOT / "notebooks" / "compare_paths.py")
    html = ["-m", "pipelines.notebooks", "html", good, str(path), "--output", str(pages)]
    running = {"html": started(html, folder, home.environment)}
    running["script"] = started([str(path)], folder, home.environment)
    ended = {}
    for how, process in running.items():
        out, err = process.communicate(timeout=240)
        ended[how] = process.returncode, out + err, pages
    return ended


def test_a_broken_cell_fails_the_export_by_name_and_keeps_no_page_of_any(
    broken: dict[str, tuple[int, str, Path]],
) -> None:
    status, said, pages = broken["html"]

    assert status == 1, said
    assert "one_queue.py, cell failures, at `_query = 1 / 0" in said
    assert "ZeroDivisionError: division by zero" in said
    assert {path.name: path.read_text() for path in pages.iterdir()} == {"one_queue.html": "of before"}


def test_a_broken_cell_fails_the_plain_script_and_shows_its_line(
    broken: dict[str, tuple[int, str, Path]],
) -> None:
    status, said, _ = broken["script"]

    assert status == 1
    assert "_query = 1 / 0" in said
    assert "ZeroDivisionError" in said


def test_duckdb_reaches_neither_files_nor_extensions(tmp_path: Path) -> None:
    import duckdb
    import polars as pl

    (tmp_path / "a.csv").write_text("a\n1\n")

    counted = notebook_pages.sql("SELECT sum(a)::BIGINT AS a FROM runs", runs=pl.DataFrame({"a": [1, 2]}))

    assert counted.to_dicts() == [{"a": 3}]
    for query in (f"SELECT * FROM '{tmp_path}/a.csv'", "SELECT * FROM delta_scan('x')", "INSTALL delta"):
        with pytest.raises(duckdb.Error):
            notebook_pages.sql(query)


def test_what_is_not_known_is_a_dash_and_never_zero() -> None:
    page = notebook_pages.table({"a": "a#", "b": "b"}, [{"a": None, "b": "<b>"}], most=1)

    assert ">–<" in page
    assert "&lt;b&gt;" in page
