"""Installing specs and learners for the tests of runs, and a client that is stopped at the worst moment."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assets import pack, specs
from tessera.client import Client
from tests.assets import odd_learner
from tests.assets.odd_learner import ODD, SHADE


def found_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the two learners installed, as a package of their own would be."""
    info = tmp_path / "site" / "odd-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    points = f"{ODD} = {odd_learner.__name__}:LEARNER\n{SHADE} = {odd_learner.__name__}:SHADE_LEARNER\n"
    (info / "entry_points.txt").write_text(f"[tessera.learners]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setitem(sys.modules, odd_learner.__name__, odd_learner)


def install(client: Client, folder: Path, *others: str, **budget: Any) -> None:
    """Install every spec, and of the others a spec with this budget."""
    pack.write(folder, others)
    nouns = pack.read(folder)
    if budget:
        nouns = [noun if noun["key"] not in others else _with_budget(noun, budget) for noun in nouns]
    specs.install(client, nouns)


def _with_budget(noun: dict[str, Any], budget: dict[str, Any]) -> dict[str, Any]:
    body = noun["body"]
    return {**noun, "body": {**body, "budget": {**body["budget"], **budget}}}


class Dying(Client):
    """A client whose process is stopped at one call, before or after it reaches the store."""

    at: Callable[[], None] | None = None

    def submit(self, *arguments: Any, **named: Any) -> Any:
        """Is stopped before the submit."""
        raise KeyboardInterrupt
