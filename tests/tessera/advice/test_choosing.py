"""Choosing against a real store: what is left alone, what is drawn, by which weights, and what is cited."""

import subprocess
import sys
from typing import Any

import pytest

from tessera.advice import AdviceFault, choose
from tessera.client import Client
from tessera.errors import Invalid
from tests.tessera.advice.learned import (
    EVALUATION,
    WEIGHTS,
    claimed,
    configure,
    drawn,
    entry,
    weights_body,
    write,
)

KEY = f"{WEIGHTS}:q:method"
JUDGED = f"{EVALUATION}:q:method"
ARMS = ["zlib", "lzma"]
EVEN = [{"arm": "zlib", "weight": 0.5}, {"arm": "lzma", "weight": 0.5}]


@pytest.fixture
def client(store: Any) -> Client:
    made: Client = store.client()
    return made


def weigh(client: Client, scores: dict[str, float], **more: Any) -> int:
    """Publish weights; their version."""
    return write(client, "learn.outputs", KEY, weights_body(scores), **more)


def judge(client: Client, version: int | None, key: str = KEY) -> None:
    """Publish an evaluation by which a version stands, or none does."""
    standing = None if version is None else {"store": "learn.outputs", "key": key, "version": version}
    write(client, "learn.outputs", JUDGED, {"schema": "tessera.evaluation.v1", "standing": standing})


def cited(version: int) -> dict[str, Any]:
    named = {"learner": "routing_weights", "strategy": "beta-bandit", "version": 1}
    return {**named, "store": "learn.outputs", "key": KEY, "record_version": version}


def offered(client: Client, arms: list[str] = ARMS, **brief: Any) -> dict[str, float]:
    """Choose for a new task, and the weights that the draw is recorded with."""
    task = claimed(client, {"template": "t", **brief})
    choose(task, "method", arms, client=client)
    (draw,) = drawn(client, task)
    return {one["arm"]: one["weight"] for one in draw["arms"]}


class TestExplicit:
    def test_the_choice_of_caller_brief_or_provider_is_returned_unchanged_without_a_draw(
        self, client: Client
    ) -> None:
        told, plain = claimed(client, {"method": "brotli"}), claimed(client)

        assert choose(told, "method", ARMS, explicit="zstd", provider="p", client=client) == ("zstd", None)
        assert choose(told, "method", ARMS, provider="lz4", client=client) == ("brotli", None)
        assert choose(plain, "method", ARMS, provider="lz4", client=client) == ("lz4", None)
        assert drawn(client, plain) == []

    def test_it_needs_no_store(self) -> None:
        nowhere = Client("http://127.0.0.1:9", "secret")

        assert choose({"queue": "q"}, "method", [], explicit="zstd", client=nowhere).arm == "zstd"

    @pytest.mark.parametrize("said", ["", "  \t", 7, None, ["zlib"]])
    def test_a_brief_that_names_none_leaves_the_choice_open(self, client: Client, said: Any) -> None:
        task = claimed(client, {"method": said})

        assert choose(task, "method", ["zlib"], client=client) == ("zlib", None)
        assert len(drawn(client, task)) == 1


class TestGate:
    def test_without_a_config_the_draw_is_uniform_and_cites_nothing(self, client: Client) -> None:
        weigh(client, {"zlib": 0.9})
        task = claimed(client)

        choice = choose(task, "method", ARMS, client=client)

        (draw,) = drawn(client, task)
        assert choice == (draw["arm"], None)
        assert draw["arms"] == EVEN
        assert draw["policy"] is None

    def test_what_stands_by_the_newest_evaluation_is_drawn_by_and_cited(self, client: Client) -> None:
        configure(client, entry(WEIGHTS), entry(EVALUATION))
        first = weigh(client, {"zlib": 0.9, "lzma": 0.3})
        weigh(client, {"zlib": 0.1, "lzma": 0.9})
        judge(client, first)
        task = claimed(client)

        choice = choose(task, "method", ARMS, client=client)

        (draw,) = drawn(client, task)
        assert choice == (draw["arm"], cited(first))
        assert draw["policy"] == {"store": "learn.outputs", "key": KEY, "version": first}
        assert [one["weight"] for one in draw["arms"]] == pytest.approx([0.725, 0.275])

    def test_until_something_stands_the_draw_is_uniform(self, client: Client) -> None:
        configure(client, entry(WEIGHTS))
        weigh(client, {"zlib": 0.9, "lzma": 0.3})
        assert offered(client) == {"zlib": 0.5, "lzma": 0.5}
        judge(client, None)
        assert offered(client) == {"zlib": 0.5, "lzma": 0.5}

    def test_a_version_of_another_strategy_that_stands_does_not_advise(self, client: Client) -> None:
        configure(client, entry(WEIGHTS))
        weigh(client, {"zlib": 0.9, "lzma": 0.3})
        judge(client, 1, f"{WEIGHTS}:other:method")

        assert offered(client) == {"zlib": 0.5, "lzma": 0.5}

    def test_the_gate_evidence_draws_by_the_newest(self, client: Client) -> None:
        configure(client, entry(WEIGHTS, gate="evidence"))
        weigh(client, {"zlib": 0.1})
        weigh(client, {"zlib": 0.9, "lzma": 0.3})

        assert offered(client) == pytest.approx({"zlib": 0.725, "lzma": 0.275})

    @pytest.mark.parametrize("mode", ["shadow", "off"])
    def test_only_an_active_strategy_advises(self, client: Client, mode: str) -> None:
        configure(client, entry(WEIGHTS, mode, gate="evidence"))
        weigh(client, {"zlib": 0.9, "lzma": 0.3})

        assert offered(client) == {"zlib": 0.5, "lzma": 0.5}

    def test_the_entry_of_the_kind_goes_before_the_queues(self, client: Client) -> None:
        configure(client, entry(WEIGHTS, gate="evidence"), entry(WEIGHTS, gate="evidence", kind="verb.a"))
        weigh(client, {"zlib": 0.9, "lzma": 0.3})
        body = weights_body({"zlib": 0.3, "lzma": 0.9})
        write(client, "learn.outputs", f"{WEIGHTS}:q:kind=verb.a:method", body)

        assert offered(client) == pytest.approx({"zlib": 0.275, "lzma": 0.725})

    def test_weights_that_the_key_may_not_read_do_not_advise(self, store: Any, client: Client) -> None:
        configure(client, entry(WEIGHTS, gate="evidence"))
        weigh(client, {"zlib": 0.9, "lzma": 0.3}, visibility="private")
        worker = store.client(["read", "work", "write"], ["q"])
        elsewhere = store.client(["read", "work", "write"], ["q"], stores=["other"])

        assert offered(worker) == {"zlib": 0.5, "lzma": 0.5}
        assert offered(elsewhere) == {"zlib": 0.5, "lzma": 0.5}


class TestWeights:
    def test_a_new_arm_never_starves_and_an_arm_not_offered_counts_for_nothing(self, client: Client) -> None:
        configure(client, entry(WEIGHTS, gate="evidence"))
        weigh(client, {"zlib": 0.9, "gone": 0.8})

        assert offered(client, ["zlib", "new"]) == pytest.approx(
            {"zlib": 0.05 + 0.9 * 0.9 / 1.4, "new": 0.05 + 0.9 * 0.5 / 1.4}
        )

    def test_a_category_that_the_weights_do_not_know_is_drawn_uniformly_and_uncited(
        self, client: Client
    ) -> None:
        configure(client, entry(WEIGHTS, gate="evidence"))
        weigh(client, {"zlib": 0.9, "lzma": 0.3})
        task = claimed(client, kind="verb.unseen")

        assert choose(task, "method", ARMS, client=client).advice is None
        (draw,) = drawn(client, task)
        assert (draw["arms"], draw["policy"]) == (EVEN, None)

    def test_weights_by_template_are_looked_up_by_the_briefs(self, client: Client) -> None:
        configure(client, entry(WEIGHTS, gate="evidence"))
        body = weights_body({"zlib": 0.9, "lzma": 0.3}, category="t", options={"by": "template"})
        write(client, "learn.outputs", KEY, body)

        assert offered(client) == pytest.approx({"zlib": 0.725, "lzma": 0.275})
        assert offered(client, template="u") == {"zlib": 0.5, "lzma": 0.5}

    def test_the_draw_of_a_lapsed_claim_stands(self, store: Any, client: Client) -> None:
        first = claimed(client)
        before = choose(first, "method", ARMS, client=client)
        store.clock.move(400)
        second = client.claim("q", task_id=first["task_id"])
        assert second is not None

        again = choose(second, "method", [*reversed(ARMS), "third"], client=client)

        assert second["fence"] == 2
        assert again.arm == before.arm


class TestRefused:
    @pytest.mark.parametrize("arms", [[], "zlib", ["zlib", 7]])
    def test_arms_that_are_none_are_refused_in_a_sentence(self, client: Client, arms: Any) -> None:
        with pytest.raises(AdviceFault, match="list of at least one name"):
            choose(claimed(client), "method", arms, client=client)

    @pytest.mark.parametrize("arms", [["a", "a"], ["a", " "], ["a", "x" * 10_000]])
    def test_what_the_store_does_not_draw_among_it_refuses_by_path(self, client: Client, arms: Any) -> None:
        with pytest.raises(Invalid, match="arms"):
            choose(claimed(client), "method", arms, client=client)

    @pytest.mark.parametrize(
        "broken",
        [
            {"schema": "tessera.routing-weights.v2"},
            {"categories": [{"category": "verb.a", "arms": [{"arm": "zlib"}]}]},
            {"categories": None},
            {"categories": [{"category": "verb.a", "arms": [{"arm": "zlib", "score": 0}]}]},
            {"categories": [{"category": "verb.a", "arms": [{"arm": ["zlib"], "score": 0.5}]}]},
            {"epsilon": 2},
            {"epsilon": "0.1"},
            {"baseline": {"arm": "zlib"}},
            {"options": None},
        ],
    )
    def test_weights_that_are_none_are_named_with_their_version(self, client: Client, broken: Any) -> None:
        configure(client, entry(WEIGHTS, gate="evidence"))
        write(client, "learn.outputs", KEY, {**weights_body({"zlib": 0.9}), **broken})

        with pytest.raises(AdviceFault, match=f"{KEY} version 1 cannot be relied on"):
            choose(claimed(client), "method", ARMS, client=client)

    def test_a_standing_that_is_no_citation_is_named(self, client: Client) -> None:
        configure(client, entry(WEIGHTS))
        write(client, "learn.outputs", JUDGED, {"schema": "tessera.evaluation.v1", "standing": {"key": KEY}})

        with pytest.raises(AdviceFault, match="no citation"):
            choose(claimed(client), "method", ARMS, client=client)

    def test_a_config_that_is_none_advises_nothing(self, client: Client) -> None:
        write(client, "learn.specs", "config", {"entries": [7, {"spec": 1}, {"spec": WEIGHTS}]})

        assert offered(client) == {"zlib": 0.5, "lzma": 0.5}


def test_a_worker_that_asks_for_advice_loads_no_arrays() -> None:
    program = (
        "import sys, tessera.advice; print([m for m in ('numpy', 'polars', 'httpx') if m in sys.modules])"
    )

    told = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)

    assert told.stdout.strip() == "[]"
