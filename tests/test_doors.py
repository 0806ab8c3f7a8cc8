"""`make` on machines that are not ready for it."""

import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    """A folder with what `make install` reads, in a path with spaces."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    for name in ("Makefile", "requirements.lock", "pyproject.toml"):
        shutil.copy(ROOT / name, folder)
    return folder


def make(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["make", *arguments], cwd=folder, capture_output=True, text=True)


@pytest.mark.parametrize(
    "target",
    ["install", "run", "test", "faults", "soak", "check", "ui", "notebook", "notebook-html", "bench"],
)
def test_an_older_python_is_refused_by_name_before_anything_is_made(checkout: Path, target: str) -> None:
    old = checkout / "python3.9"
    old.write_text('#!/bin/sh\n[ "$1" = --version ] && echo "Python 3.9.2"\nexit 1\n')
    old.chmod(0o755)

    refused = make(checkout, target, "PYTHON=./python3.9")

    assert refused.returncode == 2
    assert "Tessera needs Python 3.11 or newer" in refused.stderr
    assert "'./python3.9' says: Python 3.9.2" in refused.stderr
    assert f"make {target} PYTHON=python3.12" in refused.stderr
    assert not (checkout / ".venv").exists()


def test_make_alone_only_explains(checkout: Path) -> None:
    said = make(checkout)

    assert said.returncode == 0
    assert "make run" in said.stdout
    assert not (checkout / ".venv").exists()


def test_clean_leaves_data_where_it_is(checkout: Path) -> None:
    for folder in (".tessera", ".venv", ".venv-bench"):
        (checkout / folder).mkdir()

    make(checkout, "clean")

    assert {path.name for path in checkout.iterdir() if path.is_dir()} == {".tessera"}
