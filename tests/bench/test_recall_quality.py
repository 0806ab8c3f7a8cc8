"""The command that says how good recall is prints figures and never a text of a run."""

import io

import pytest
from rich.console import Console

from bench.recall_quality import measured, show
from schemas import observations
from tests.observation_items import observation


@pytest.mark.parametrize("asked", [False, True])
def test_the_figures_are_shown_and_no_text_is(asked: bool) -> None:
    secret = "confidential wording of the task at hand"
    items = [observation(n, brief__wording={"problem": f"{secret} {n % 3}"}) for n in range(1, 13)]
    matches = {item["run_id"]: [items[0]["run_id"]] for item in items} if asked else None
    written = io.StringIO()

    show(measured(observations.frame(items), matches), Console(file=written, width=200))

    said = written.getvalue()
    assert "12 runs, 12 with text, 3 distinct texts" in said
    assert ("store, best ten" in said) is asked
    assert "confidential" not in said
