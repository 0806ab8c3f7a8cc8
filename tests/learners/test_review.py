"""The driver of review and learn: who ends where, what stops a step, and what the bounded memory takes."""

from collections.abc import Mapping
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from learners.review import (
    BUDGETS,
    JOINER,
    BoundedMemory,
    Entry,
    LearnOutcome,
    MemoryRefused,
    ReviewError,
    Verdict,
    proposal_faults,
    review_and_learn,
    score_threshold_gate,
)


def add(text: str, score: float = 0.9, target: str = "memory", **op: Any) -> dict[str, Any]:
    return {"target": target, "op": {"action": "add", "text": text, **op}, "score": score}


def replace(match: str, text: str) -> dict[str, Any]:
    return {"target": "memory", "op": {"action": "replace", "match": match, "text": text}, "score": 0.9}


def remove(match: str) -> dict[str, Any]:
    return {"target": "memory", "op": {"action": "remove", "match": match}, "score": 0.9}


def step(*proposals: Any, memory: Any = None, gate: Any = None) -> LearnOutcome:
    return review_and_learn(
        "what happened", lambda _: list(proposals), gate or score_threshold_gate(), memory or BoundedMemory()
    )


def never(*_: Any) -> Any:
    raise AssertionError("must not be called")


class Unwritable:
    """A memory whose second write meets a store that is gone."""

    def __init__(self) -> None:
        self.inner, self.calls = BoundedMemory(), 0

    def apply(self, target: str, op: Mapping[str, Any]) -> None:
        self.calls += 1
        if self.calls == 2:
            raise OSError("the store is gone")
        self.inner.apply(target, op)


class TestTheStep:
    def test_a_blank_summary_calls_nothing_and_gives_an_empty_outcome(self) -> None:
        for blank in ("", " \t\r\n\v\f"):
            assert review_and_learn(blank, never, never, BoundedMemory()) == LearnOutcome()

    def test_white_space_beyond_ascii_is_a_summary(self) -> None:
        seen: list[str] = []
        review_and_learn("\u00a0", lambda text: seen.append(text) or [], never, BoundedMemory())
        assert seen == ["\u00a0"]

    def test_no_proposals_call_neither_gate_nor_memory(self) -> None:
        assert step(gate=never) == LearnOutcome([], [], [])

    def test_the_gate_refuses_0_69_and_takes_0_70(self) -> None:
        outcome = step(add("under", 0.69), add("at", 0.70))
        assert outcome.rejected == [
            {
                "proposal": add("under", 0.69),
                "reason": "score 0.69 < threshold 0.7 (learn only from validated wins)",
            }
        ]
        assert outcome.applied == [add("at", 0.70)]

    def test_another_threshold_moves_the_bound(self) -> None:
        outcome = step(add("a", 0.94), add("b", 0.95), gate=score_threshold_gate(min=0.95))
        assert (outcome.applied, len(outcome.rejected)) == ([add("b", 0.95)], 1)

    def test_both_reasons_name_score_and_threshold(self) -> None:
        gate = score_threshold_gate()
        assert gate(add("x", 0.7)) == Verdict(True, "score 0.7 ≥ threshold 0.7")
        assert gate(add("x", 0.5)).reason == "score 0.5 < threshold 0.7 (learn only from validated wins)"
        assert score_threshold_gate(1)(add("x", 1)) == Verdict(True, "score 1 ≥ threshold 1")

    def test_the_threshold_gate_is_total(self) -> None:
        gate = score_threshold_gate()
        for odd in ({}, {"score": None}, {"score": True}, {"score": float("nan")}, {"score": "0.9"}, None):
            assert gate(odd).approved is False

    def test_failed_is_not_rejected(self) -> None:
        outcome = step(add("x" * 2201), add("low", 0.1))
        assert [entry["reason"] for entry in outcome.failed] == [
            "over budget: 2201 of 2200 code points of memory"
        ]
        assert len(outcome.rejected) == 1
        assert outcome.applied == []

    def test_a_store_that_fails_in_mid_batch_fails_one_proposal_and_the_step_goes_on(self) -> None:
        memory = Unwritable()
        outcome = step(add("one"), add("two"), add("three"), memory=memory)
        assert outcome.applied == [add("one"), add("three")]
        assert outcome.failed == [{"proposal": add("two"), "reason": "the store is gone"}]
        assert memory.inner.entries("memory") == ["one", "three"]

    def test_a_repeated_proposal_is_applied_twice_and_stands_once(self) -> None:
        memory = BoundedMemory()
        outcome = step(add("same"), add("same"), memory=memory)
        assert (len(outcome.applied), memory.entries("memory")) == (2, ["same"])

    def test_an_error_of_the_proposer_stops_the_step_with_an_empty_outcome(self) -> None:
        def broken(_: str) -> list[Mapping[str, Any]]:
            raise TimeoutError("model timed out")

        with pytest.raises(ReviewError, match="the proposer failed: model timed out") as caught:
            review_and_learn("s", broken, never, BoundedMemory())
        assert caught.value.outcome == LearnOutcome()
        assert caught.value.proposal is None

    @pytest.mark.parametrize("answer", [None, 3, "text", {"target": "memory"}])
    def test_a_proposer_that_answers_no_list_stops_the_step(self, answer: Any) -> None:
        with pytest.raises(ReviewError, match="not a list of proposals"):
            review_and_learn("s", lambda _: answer, never, BoundedMemory())

    def test_an_error_of_the_gate_stops_the_step_and_keeps_what_was_applied(self) -> None:
        memory, gate = BoundedMemory(), score_threshold_gate()

        def sometimes(proposal: dict[str, Any]) -> Verdict:
            if proposal["op"]["text"] == "bad":
                raise ConnectionError("validator offline")
            return gate(proposal)

        with pytest.raises(ReviewError, match="the gate failed: validator offline") as caught:
            step(add("good"), add("bad"), add("late"), memory=memory, gate=sometimes)
        assert caught.value.outcome == LearnOutcome(applied=[add("good")])
        assert caught.value.proposal == add("bad")
        assert memory.entries("memory") == ["good"]

    def test_a_gate_that_answers_no_verdict_is_an_error_of_the_gate(self) -> None:
        with pytest.raises(ReviewError, match="the gate answered bool"):
            step(add("x"), gate=lambda _: True)

    def test_a_bad_shape_in_mid_batch_stops_the_step_after_what_came_before(self) -> None:
        memory = BoundedMemory()
        bad = {"target": "memory", "op": {"action": "add"}, "score": 2}
        with pytest.raises(ReviewError) as caught:
            step(add("first"), bad, add("late"), memory=memory)
        assert caught.value.outcome.applied == [add("first")]
        assert caught.value.proposal is bad
        assert [fault.path for fault in caught.value.faults] == ["op.text", "score"]
        assert memory.entries("memory") == ["first"]

    def test_a_batch_of_five_meets_every_fate(self) -> None:
        memory = BoundedMemory()
        outcome = step(
            add("kept"),
            add("weak", 0.3),
            add("y" * 2300),
            replace("nothing like it", "z"),
            remove("kept"),
            memory=memory,
        )
        assert outcome.applied == [add("kept"), remove("kept")]
        assert [entry["proposal"] for entry in outcome.rejected] == [add("weak", 0.3)]
        assert [entry["reason"].split(":")[0] for entry in outcome.failed] == ["over budget", "no match"]
        assert memory.entries("memory") == []

    def test_a_gate_or_memory_that_changes_its_argument_changes_nothing_of_the_outcome(self) -> None:
        def meddling(proposal: dict[str, Any]) -> Verdict:
            proposal["op"]["text"] = "something else"
            return Verdict(True, "fine")

        memory = BoundedMemory()
        assert step(add("mine"), memory=memory, gate=meddling).applied == [add("mine")]
        assert memory.entries("memory") == ["mine"]


class TestProposals:
    @pytest.mark.parametrize(
        ("proposal", "paths"),
        [
            (None, [""]),
            ([], [""]),
            ({}, ["target", "op", "score"]),
            (add("x", target="elsewhere"), ["target"]),
            ({**add("x"), "target": 1}, ["target"]),
            ({**add("x"), "op": "add"}, ["op"]),
            ({**add("x"), "op": {"action": "drop", "text": "x"}}, ["op.action"]),
            ({**add("x"), "op": {"text": "x"}}, ["op.action"]),
            (add("  "), ["op.text"]),
            (add("\ud800"), ["op.text"]),
            (add("x", key=5), ["op.key"]),
            (add("x", key=None), ["op.key"]),
            (add("x", match="y"), ["op.match"]),
            ({**remove("x"), "op": {"action": "remove", "match": ""}}, ["op.match"]),
            ({**replace("a", "b"), "op": {"action": "replace", "match": "a"}}, ["op.text"]),
            (add("x", True), ["score"]),
            (add("x", "0.9"), ["score"]),
            (add("x", float("nan")), ["score"]),
            (add("x", 10**400), ["score"]),
            (add("x", -0.01), ["score"]),
            ({**add("x"), "rationale": ""}, ["rationale"]),
            ({**add("x"), "why": 1, "also": 2}, ["also", "why"]),
        ],
    )
    def test_each_fault_is_named_by_its_path(self, proposal: Any, paths: list[str]) -> None:
        assert [fault.path for fault in proposal_faults(proposal)] == paths

    @pytest.mark.parametrize(
        "good", [add("x", 0), add("x", 1.0, key="k"), remove("x"), {**add("x"), "rationale": "r"}]
    )
    def test_a_well_formed_proposal_has_no_faults(self, good: Any) -> None:
        assert proposal_faults(good) == []

    @given(
        st.recursive(
            st.none() | st.booleans() | st.floats() | st.text(), lambda c: st.dictionaries(st.text(), c)
        )
    )
    def test_judging_is_total(self, value: Any) -> None:
        assert isinstance(proposal_faults(value), list)


def op(action: str, **fields: str) -> dict[str, str]:
    return {"action": action, **fields}


class TestTheBoundedMemory:
    def test_the_budgets_count_code_points_with_the_joiner(self) -> None:
        memory = BoundedMemory()
        memory.apply("memory", op("add", text="\U0001f600" * 1000))
        memory.apply("memory", op("add", text="b" * (2200 - 1000 - len(JOINER))))
        assert len(JOINER.join(memory.entries("memory"))) == BUDGETS["memory"]
        with pytest.raises(MemoryRefused, match="over budget: 2204 of 2200"):
            memory.apply("memory", op("add", text="c"))

    def test_the_targets_have_budgets_of_their_own(self) -> None:
        memory = BoundedMemory()
        memory.apply("user", op("add", text="u" * 1375))
        with pytest.raises(MemoryRefused, match="1379 of 1375"):
            memory.apply("user", op("add", text="v"))
        memory.apply("memory", op("add", text="v"))
        assert memory.entries("memory") == ["v"]

    def test_a_key_that_is_there_is_replaced_in_its_place(self) -> None:
        memory = BoundedMemory()
        for text, key in (("old", "k"), ("other", "o"), ("new", "k"), ("new", "k")):
            memory.apply("memory", op("add", text=text, key=key))
        assert memory.keyed("memory") == [Entry("new", "k"), Entry("other", "o")]

    def test_a_replacement_by_key_that_does_not_fit_leaves_the_old_entry(self) -> None:
        memory = BoundedMemory({"memory": [Entry("old", "k")]})
        with pytest.raises(MemoryRefused):
            memory.apply("memory", op("add", text="x" * 2201, key="k"))
        assert memory.entries("memory") == ["old"]

    def test_a_match_must_lie_in_exactly_one_entry(self) -> None:
        memory = BoundedMemory({"memory": [Entry("red apple apple"), Entry("red pear")]})
        with pytest.raises(MemoryRefused, match="ambiguous match"):
            memory.apply("memory", op("remove", match="red"))
        with pytest.raises(MemoryRefused, match="no match"):
            memory.apply("memory", op("replace", match="plum", text="x"))
        memory.apply("memory", op("replace", match="apple", text="green apple"))
        assert memory.entries("memory") == ["green apple", "red pear"]

    def test_a_replacement_made_before_is_a_no_op_and_one_that_stands_elsewhere_is_not_doubled(self) -> None:
        memory = BoundedMemory({"memory": [Entry("alpha"), Entry("beta")]})
        memory.apply("memory", op("replace", match="alpha", text="gamma"))
        memory.apply("memory", op("replace", match="alpha", text="gamma"))
        assert memory.entries("memory") == ["gamma", "beta"]
        memory.apply("memory", op("replace", match="beta", text="gamma"))
        assert memory.entries("memory") == ["gamma"]

    def test_a_target_that_is_none_is_refused(self) -> None:
        with pytest.raises(MemoryRefused, match="no such target"):
            BoundedMemory().apply("disk", op("add", text="x"))

    @given(
        st.lists(
            st.tuples(
                st.sampled_from(["add", "replace", "remove"]),
                st.text(alphabet="ab ", min_size=1, max_size=3).filter(str.strip),
                st.text(alphabet="ab", min_size=1, max_size=900),
                st.none() | st.sampled_from(["k1", "k2"]),
            ),
            max_size=30,
        )
    )
    def test_whatever_is_asked_the_budget_holds_and_nothing_stands_twice(self, asked: list[Any]) -> None:
        memory = BoundedMemory()
        for action, match, text, key in asked:
            before = memory.keyed("memory")
            fields = {
                "add": {"text": text},
                "replace": {"match": match, "text": text},
                "remove": {"match": match},
            }
            operation = op(action, **fields[action]) | ({"key": key} if action == "add" and key else {})
            try:
                memory.apply("memory", operation)
            except MemoryRefused:
                assert memory.keyed("memory") == before
            texts = memory.entries("memory")
            assert len(JOINER.join(texts)) <= 2200
            assert len(set(texts)) == len(texts)
            keys = [entry.key for entry in memory.keyed("memory") if entry.key]
            assert len(set(keys)) == len(keys)
