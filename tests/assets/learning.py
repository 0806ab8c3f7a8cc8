"""Learners and clients for the tests of runs: some that misbehave on purpose, all with the real interface."""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from assets import pack, specs
from learners.catalog import spec_body
from learners.contract import Check, Evidence, Noun, Outcome, Plain, Run, common_fields
from tessera.client import Client

ODD = "odd:counting:v1"
SHADE = "odd:shade:v1"


def odd_spec(strategy: str, **budget: Any) -> dict[str, Any]:
    """A spec whose budget is as given."""
    body = spec_body(
        "odd",
        strategy,
        status="implemented",
        writes=(("test.odd.v1", "noun.eval_run", "learn.outputs"),),
        trigger={"on_demand": True},
        observations=1000,
        evaluation=("none", "none", "none", 0),
        verb={"category": "verb.ingest"},
    )
    return {**body, "budget": {**body["budget"], **budget}}


class Odd(Plain):
    """Counts runs; by its options it is slow, wrong, talkative or broken."""

    spec = odd_spec("counting")
    checks = (
        Check("count_is_right", "the count is that of the rows", lambda outcome: _miscounted(outcome)),
        Check("always_holds", "holds", lambda outcome: ()),
    )

    def option_faults(self, options: Any, root: str) -> list[Any]:
        """Any options."""
        return []

    def learn(self, run: Run, evidence: Evidence) -> Outcome:
        """One noun with the count."""
        time.sleep(run.options.get("seconds", 0))
        if "breaks" in run.options:
            raise ZeroDivisionError("division by zero")
        rows = run.counted(evidence).height + run.options.get("wrong_by", 0)
        body = {**common_fields("test.odd.v1", self, run), "cursor": evidence.upto, "count": rows}
        noun = Noun(*self.state_key(run.scope, run.options), "noun.eval_run", body)
        return Outcome(run, evidence, (noun,), model_calls=run.options.get("calls", 0))


class Shade(Odd):
    """Another strategy of the same facet."""

    spec = odd_spec("shade")


def _miscounted(outcome: Outcome) -> list[str]:
    right = outcome.run.counted(outcome.evidence).height
    body = outcome.nouns[0].body
    return [] if body["count"] == right else [f"{body['scope']['queue']}: {body['count']} of {right}"]


LEARNER = Odd()
SHADE_LEARNER = Shade()


def found_by_entry_point(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Make the two learners installed, as a package of their own would be."""
    info = tmp_path / "site" / "odd-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: odd\nVersion: 1\n")
    points = f"{ODD} = {__name__}:LEARNER\n{SHADE} = {__name__}:SHADE_LEARNER\n"
    (info / "entry_points.txt").write_text(f"[tessera.learners]\n{points}")
    monkeypatch.syspath_prepend(str(tmp_path / "site"))
    monkeypatch.setitem(sys.modules, __name__, sys.modules[__name__])


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
