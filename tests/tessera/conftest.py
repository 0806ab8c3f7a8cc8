"""The public vectors and the real records, beside the checkout; tests that need them skip without."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import settings

# Hypothesis' deadline measures how busy the machine is, not what a test claims.
settings.register_profile("no-deadline", deadline=None)
settings.load_profile("no-deadline")

SHARED = Path(__file__).resolve().parents[3] / "shared"


@pytest.fixture(scope="session")
def vectors() -> "Vectors":
    return Vectors(SHARED / "vectors")


@pytest.fixture(scope="session")
def records() -> Path:
    folder = SHARED / "data"
    if not folder.is_dir():
        pytest.skip("the real execution records are not beside this checkout")
    return folder


class Vectors:
    """The vectors by name."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def text(self, name: str) -> str:
        if not self._folder.is_dir():
            pytest.skip("the public vectors are not beside this checkout")
        return (self._folder / name).read_text("utf-8")

    def cases(self, name: str) -> list[dict[str, Any]]:
        cases: list[dict[str, Any]] = json.loads(self.text(f"{name}.json"))
        assert cases
        return cases
