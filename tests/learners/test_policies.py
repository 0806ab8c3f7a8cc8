"""Choosing and judging go by one formula: what a worker offers the coin is what an evaluation supposes."""

from collections.abc import Callable
from typing import Any

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.policies import mass, rows_of
from tessera.advice.choosing import category_of, shares

Observe = Callable[..., pl.DataFrame]
Draw = Callable[..., dict[str, Any]]

LABELS = st.sampled_from(["a", "b", "c", "d", "e", "f", "g", "h", "i", "j"])
SCORES = st.floats(0.01, 1)


@st.composite
def weights(draw: st.DrawFn) -> dict[str, Any]:
    """The body of a weights noun, as far as choosing reads it."""
    named = draw(st.lists(st.sampled_from(["verb.a", "verb.b", None]), unique=True))
    arms = st.dictionaries(LABELS, SCORES)
    categories = [
        {"category": one, "arms": [{"arm": arm, "score": score} for arm, score in draw(arms).items()]}
        for one in named
    ]
    reserve = st.fixed_dictionaries({"arm": LABELS, "share": st.floats(0, 1)})
    return {
        "options": draw(st.sampled_from([{}, {"by": "category"}, {"by": "template"}])),
        "epsilon": draw(st.floats(0, 1)),
        "baseline": draw(st.none() | reserve),
        "categories": categories,
    }


@given(weights(), st.lists(LABELS, min_size=1, unique=True), st.sampled_from(["verb.a", "verb.b", "verb.c"]))
def test_a_choice_offers_the_weights_that_an_evaluation_gives_the_policy(
    observe: Observe, draw: Draw, body: dict[str, Any], arms: list[str], kind: str
) -> None:
    for template in (None, "verb.a"):
        offered = dict.fromkeys(arms, 1 / len(arms))
        seen = observe({"draws": [draw("method", arms[0], offered)], "kind": kind, "template": template})
        task = {"kind": kind, "brief": {} if template is None else {"template": template}}

        ours = shares(body, category_of(task, body), arms)

        assert ours == pytest.approx(mass(rows_of(seen, "method"), body).tolist(), abs=1e-12)
        assert sum(ours) == pytest.approx(1, abs=1e-12)
