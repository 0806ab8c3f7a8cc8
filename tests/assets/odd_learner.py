"""A learner of another package: it counts runs, and is slow, wrong, talkative, broken or hangs if told to."""

import os
import re
import time
from collections.abc import Mapping
from typing import Any

from learners.catalog import spec_body
from learners.contract import Check, Evidence, Noun, Outcome, Plain, Run, common_fields

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
        misbehave(run.options)
        rows = run.counted(evidence).height + run.options.get("wrong_by", 0)
        body = {**common_fields("test.odd.v1", self, run), "cursor": evidence.upto, "count": rows}
        noun = Noun(*self.state_key(run.scope, run.options), "noun.eval_run", body)
        return Outcome(run, evidence, (noun,), model_calls=run.options.get("calls", 0))


def misbehave(options: Mapping[str, Any]) -> None:
    """Break, shout or hang as the options say."""
    if "breaks" in options:
        raise ZeroDivisionError("division by zero")
    if "raises" in options:
        raise ValueError("x" * options["raises"])
    if options.get("hangs") == "in Python":
        while True:
            pass
    if options.get("hangs") == "in C, all of the interpreter with it":
        re.match("(a+)+$", "a" * 60 + "b")
    if "ends" in options:
        os._exit(7)


class Shade(Odd):
    """Another strategy of the same facet."""

    spec = odd_spec("shade")


def _miscounted(outcome: Outcome) -> list[str]:
    right = outcome.run.counted(outcome.evidence).height
    body = outcome.nouns[0].body
    loud = "x" * outcome.run.options.get("shouts", 0)
    return [] if body["count"] == right else [f"{body['scope']['queue']}: {body['count']} of {right}{loud}"]


LEARNER = Odd()
SHADE_LEARNER = Shade()
