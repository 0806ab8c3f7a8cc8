"""The fleet's work: what is accepted, what is refused and what is said about it."""

import sys
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import compress as work
from tessera.reports import faults


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty root for briefs to name files in."""
    root = tmp_path / "root"
    root.mkdir()
    monkeypatch.setitem(work.ROOTS, "stdlib", root)
    return root


def brief(
    path: str, *, size_budget: float = 0.5, length: int = 1 << 20, form: str = "bytes"
) -> dict[str, object]:
    file = {"root": "stdlib", "path": path, "offset": 0, "length": length, "form": form}
    return {"file": file, "size_budget": size_budget}


@pytest.mark.parametrize("method", sorted(work.METHODS))
@settings(deadline=None, max_examples=40)  # a deadline would measure the machine
@given(data=st.binary(max_size=2000))
def test_every_method_gives_its_input_back(method: str, data: bytes) -> None:
    encode, decode = work.METHODS[method]

    assert decode(encode(data)) == data


def test_text_that_repeats_fits_half_its_size(folder: Path) -> None:
    (folder / "text").write_bytes(b"the same line again\n" * 500)

    attempt = work.compress(brief("text"), "zlib-9")

    assert attempt.accepted
    assert attempt.failure is None
    assert attempt.output is not None
    assert attempt.output["of"] == 10_000
    assert attempt.output["bytes"] <= attempt.output["allowed"] == 5_000
    assert attempt.report["learning"]["outcome"] == "succeeded"


def test_a_result_over_the_size_budget_is_refused_with_the_figures(folder: Path) -> None:
    (folder / "text").write_bytes(bytes(range(256)) * 40)

    attempt = work.compress(brief("text", size_budget=0.001), "zlib-1")

    assert not attempt.accepted
    assert attempt.failure is not None
    assert attempt.failure.startswith("over the size budget: ")
    assert attempt.failure.endswith(" bytes of 10 allowed, from 10240")
    assert attempt.report["learning"]["went_wrong"] == [attempt.failure]


def test_a_method_slower_than_the_machine_allows_is_refused(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (folder / "text").write_bytes(b"slow\n" * 2000)
    monkeypatch.setattr(work, "cpu_budget", lambda size: 0.0)

    attempt = work.compress(brief("text"), "lzma-6")

    assert attempt.failure is not None
    assert attempt.failure.startswith("over the time budget: ")
    assert attempt.failure.endswith("0.0 ms allowed")


def test_a_result_no_smaller_than_its_input_changed_nothing(folder: Path) -> None:
    (folder / "tiny").write_bytes(b"ab")

    attempt = work.compress(brief("tiny", size_budget=1.0), "bz2-9")

    assert attempt.report["learning"]["outcome"] == "no_change"


@pytest.mark.parametrize("path", ["absent", "../outside", "/etc/hostname"])
def test_a_file_that_is_absent_or_elsewhere_blocks_the_attempt(folder: Path, path: str) -> None:
    attempt = work.compress(brief(path), "zlib-1")

    assert not attempt.accepted
    assert attempt.output is None
    assert attempt.report["learning"]["outcome"] == "blocked"


def test_an_empty_file_is_a_failure_and_not_an_error(folder: Path) -> None:
    (folder / "empty").write_bytes(b"")

    attempt = work.compress(brief("empty"), "lzma-6")

    assert attempt.failure is not None
    assert attempt.failure.endswith("of 0 allowed, from 0")


def test_bytecode_of_one_source_is_the_same_bytes_each_time(folder: Path) -> None:
    (folder / "module.py").write_text("x = {'a', 'b', 'c'}\ndef f(y=(1, 2)): return x in y\n")
    file = brief("module.py", form="bytecode")["file"]

    first, again = work.read_input(file), work.read_input(file)  # type: ignore[arg-type]

    assert first == again
    assert b"module.py" in first


def test_source_that_does_not_compile_blocks_the_attempt(folder: Path) -> None:
    (folder / "broken.py").write_text("def (:\n")

    attempt = work.compress(brief("broken.py", form="bytecode"), "zlib-1")

    assert attempt.failure is not None
    assert attempt.failure.startswith("broken.py does not compile: ")


@pytest.mark.parametrize("path", ["text", "absent"])
def test_every_report_keeps_the_contract(folder: Path, path: str) -> None:
    (folder / "text").write_bytes(b"words and words\n" * 100)

    report = work.compress(brief(path), "bz2-9").report

    assert faults(report) == []
    assert report["model"] is None
    assert report["learning"]["path"] == {"shim": "python-stdlib", "method": "bz2-9"}
    assert report["learning"]["duration_seconds"] > 0


def test_the_advice_that_the_method_was_chosen_by_is_cited(folder: Path) -> None:
    (folder / "text").write_bytes(b"words and words\n" * 100)
    advice = {"learner": "l", "strategy": "s", "version": 1, "store": "o", "key": "k", "record_version": 2}

    report = work.compress(brief("text"), "bz2-9", advice).report

    assert report["learning"]["advice"] == [advice]
    assert faults(report) == []


def test_the_time_budget_grows_with_the_input() -> None:
    assert 0 < work.cpu_budget(0) < work.cpu_budget(96 * 1024) < sys.float_info.max
