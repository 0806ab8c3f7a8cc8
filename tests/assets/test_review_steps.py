"""Review and learn outside a run, against a real store; and a run whose gate waits for a person."""

import sys
import threading
from pathlib import Path
from typing import Any

import polars as pl
import pytest

from assets import preview, review_steps, runs, specs
from assets.command_proposer import CommandProposer
from assets.human_gate import answer, questions
from assets.review_steps import StoreMemory, step
from learners.contract import LearnerError
from learners.review import MemoryRefused, ReviewError
from schemas.lessons import body_faults
from tessera.client import Client
from tessera.errors import ConnectionFault
from tests.assets.learned import Workspace, fill, made
from tests.assets.test_lessons import AT, CARD, NAME, attempts

USER = ("learn.memory", f"{NAME}:q:user")


def add(text: str, score: float = 0.9, **more: Any) -> dict[str, Any]:
    return {"target": "memory", "op": {"action": "add", "text": text}, "score": score, **more}


def texts(client: Client, at: tuple[str, str] = AT) -> list[str]:
    return [entry["text"] for entry in client.get_record(*at)["body"]["entries"]]


@pytest.fixture
def client(workspace: Workspace) -> Client:
    """A store with an active lessons entry and nothing learned yet."""
    specs.configure(workspace.client, NAME, "q")
    return workspace.client


@pytest.fixture
def carded(workspace: Workspace) -> Workspace:
    """A store whose scorecard carries two lessons that nobody has learned yet."""
    fill(workspace.client, workspace.lake, attempts())
    specs.configure(workspace.client, CARD, "q", options={"dimensions": ["category", "method"]})
    workspace.materialize("path_scorecard")
    return workspace


class TestMemory:
    def test_each_operation_is_one_version_and_what_is_there_already_is_none(self, client: Client) -> None:
        memory = StoreMemory(client, "q")

        memory.apply("memory", {"action": "add", "text": "one", "key": "k"})
        memory.apply("memory", {"action": "add", "text": "one", "key": "k"})
        memory.apply("memory", {"action": "add", "text": "two"})
        memory.apply("memory", {"action": "replace", "match": "on", "text": "three"})
        memory.apply("memory", {"action": "remove", "match": "two"})

        record = client.get_record(*AT)
        assert record["version"] == 4
        assert [(entry["key"], entry["text"]) for entry in record["body"]["entries"]] == [("k", "three")]
        assert body_faults(record["body"]) == []
        assert record["tags"] == [NAME, "queue:q"]
        assert record["visibility"] == "private"

    def test_the_targets_are_nouns_of_their_own(self, client: Client) -> None:
        memory = StoreMemory(client, "q")
        memory.apply("user", {"action": "add", "text": "likes tables"})
        memory.apply("memory", {"action": "add", "text": "prefer lzma"})
        memory.apply("user", {"action": "add", "text": "dislikes plots"})

        assert texts(client, USER) == ["likes tables", "dislikes plots"]
        assert texts(client) == ["prefer lzma"]

    def test_two_writers_lose_nothing(self, client: Client) -> None:
        def write(who: str) -> None:
            for number in range(4):
                StoreMemory(client, "q").apply("memory", {"action": "add", "text": f"{who} {number}"})

        writers = [threading.Thread(target=write, args=(who,)) for who in ("a", "b")]
        for writer in writers:
            writer.start()
        for writer in writers:
            writer.join()

        assert sorted(texts(client)) == sorted(f"{who} {number}" for who in "ab" for number in range(4))
        assert client.get_record(*AT)["version"] == 8

    @pytest.mark.parametrize(
        ("op", "why"),
        [
            ({"action": "add", "text": "x" * 2201}, "over budget: 2215 of 2200"),
            ({"action": "remove", "match": "nowhere"}, "no match"),
            ({"action": "replace", "match": "e", "text": "y"}, "ambiguous match"),
        ],
    )
    def test_a_refused_operation_writes_nothing(self, client: Client, op: Any, why: str) -> None:
        memory = StoreMemory(client, "q")
        memory.apply("memory", {"action": "add", "text": "one"})
        memory.apply("memory", {"action": "add", "text": "three"})

        with pytest.raises(MemoryRefused, match=why):
            memory.apply("memory", op)

        assert client.get_record(*AT)["version"] == 2

    def test_a_queue_without_an_active_entry_has_no_memory(self, client: Client) -> None:
        specs.configure(client, NAME, "q", mode="shadow")

        with pytest.raises(runs.RunError, match="no active config entry"):
            StoreMemory(client, "q").apply("memory", {"action": "add", "text": "one"})


class TestStep:
    def test_a_step_by_hand_learns_what_the_figures_carry_with_its_support(self, carded: Workspace) -> None:
        specs.configure(carded.client, NAME, "q")

        outcome = step(carded.client, "q")
        again = step(carded.client, "q")

        record = carded.client.get_record(*AT)
        assert len(outcome.applied) == len(record["body"]["entries"]) == 2
        assert all(entry["support"] and entry["earned_at"] for entry in record["body"]["entries"])
        assert len(again.applied) == 2  # no-ops: what is there already is written once
        assert carded.client.get_record(*AT)["version"] == record["version"] == 2

    def test_a_run_goes_on_from_what_a_step_wrote(self, carded: Workspace) -> None:
        specs.configure(carded.client, NAME, "q")
        StoreMemory(carded.client, "q").apply("memory", {"action": "add", "text": "given by hand"})

        told = made(carded.materialize("lessons"), "lessons")

        assert (told["status"], told["record_version"], told["applied"]) == ("published", 2, 2)
        assert texts(carded.client)[0] == "given by hand"
        assert len(texts(carded.client)) == 3

    def test_a_command_is_told_the_figures_and_its_proposals_pass_the_gate(
        self, carded: Workspace, tmp_path: Path
    ) -> None:
        specs.configure(carded.client, NAME, "q")
        code = (
            "import json, sys; summary = json.load(sys.stdin)['summary']; "
            f"open({str(tmp_path / 'told')!r}, 'w').write(summary); "
            f"print(json.dumps([{add('use fast')!r}, {add('hunch', 0.69)!r}]))"
        )

        outcome = step(carded.client, "q", proposer=CommandProposer([sys.executable, "-c", code]))

        assert [one["op"]["text"] for one in outcome.applied] == ["use fast"]
        assert outcome.rejected[0]["reason"].startswith("score 0.69 < threshold 0.7")
        assert texts(carded.client) == ["use fast"]
        assert '"fast" is accepted more often' in (tmp_path / "told").read_text()

    def test_a_summary_of_ones_own_is_told_instead(self, client: Client) -> None:
        heard: list[str] = []

        step(client, "q", proposer=lambda summary: heard.append(summary) or [], summary="what happened")
        step(client, "q", proposer=lambda summary: heard.append(summary) or [])

        assert heard == ["what happened"]

    def test_a_store_that_cannot_be_reached_fails_the_proposal_and_the_step_goes_on(
        self, client: Client, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        real, calls = client.write_records, []

        def broken(*arguments: Any, **named: Any) -> Any:
            calls.append(1)
            if len(calls) == 1:
                raise ConnectionFault("http://127.0.0.1:9", "connection refused")
            return real(*arguments, **named)

        monkeypatch.setattr(client, "write_records", broken)

        outcome = step(client, "q", proposer=lambda _: [add("lost"), add("kept")], summary="s")

        assert [one["proposal"]["op"]["text"] for one in outcome.failed] == ["lost"]
        assert [one["op"]["text"] for one in outcome.applied] == ["kept"]
        assert texts(client) == ["kept"]

    def test_what_was_applied_before_an_error_stays(self, client: Client) -> None:
        with pytest.raises(ReviewError) as stopped:
            step(client, "q", proposer=lambda _: [add("kept"), {"target": "nobody"}], summary="s")

        assert len(stopped.value.outcome.applied) == 1
        assert texts(client) == ["kept"]


class TestPorts:
    def test_other_packages_ports_are_found_by_name(
        self, client: Client, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _installed(tmp_path, monkeypatch)

        outcome = step(client, "q", proposer="stranger", gate="nobody", summary="s")

        assert outcome.rejected == [{"proposal": add("a stranger's"), "reason": "nobody may"}]

    def test_a_run_takes_the_ports_that_its_options_name(
        self, carded: Workspace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _installed(tmp_path, monkeypatch)
        specs.configure(carded.client, NAME, "q", options={"proposer": "stranger"})

        told = made(carded.materialize("lessons"), "lessons")

        assert (told["applied"], told["rejected"], told["failed"]) == (1, 0, 0)
        assert texts(carded.client) == ["a stranger's"]

    @pytest.mark.parametrize("named", [{"proposer": "no-such"}, {"gate": "no-such"}, {"gate": "python -c 1"}])
    def test_a_name_that_nobody_offers_fails_naming_those_there_are(
        self, client: Client, named: dict[str, str]
    ) -> None:
        with pytest.raises(LearnerError, match=r"there are: (evidence|score, human)"):
            step(client, "q", **named)


class TestHumanGate:
    @pytest.fixture
    def asked(self, carded: Workspace) -> Workspace:
        specs.configure(carded.client, NAME, "q", options={"gate": "human", "threshold": 0.7})
        return carded

    def test_a_preview_shows_that_a_person_would_be_asked_and_asks_nobody(self, asked: Workspace) -> None:
        seen = preview.from_queue(asked.client, NAME, "q", {"gate": "human"})

        assert seen.outcome.nouns[-1].body["entries"] == []
        assert list(questions(asked.client)) == []

    def test_a_run_puts_its_proposals_to_a_person_and_a_later_step_gets_the_answers(
        self, asked: Workspace
    ) -> None:
        told = made(asked.materialize("lessons"), "lessons")
        yes, no = sorted(
            questions(asked.client), key=lambda one: "Warning" in one.body["proposal"]["op"]["text"]
        )
        answer(asked.client, yes.task_id, True, "I looked at the runs")
        answer(asked.client, no.task_id, False, "a warning too many")

        outcome = step(asked.client, "q")

        assert (told["applied"], told["rejected"], told["lessons"]) == (0, 2, 0)
        assert f"waiting for review {yes.task_id}" in told["rejected_proposals"]
        me = asked.client.whoami()["id"]
        assert [one["reason"] for one in outcome.rejected] == [f"refused by {me}: a warning too many"]
        (entry,) = asked.client.get_record(*AT)["body"]["entries"]
        assert entry["text"] == yes.body["proposal"]["op"]["text"]
        assert entry["support"][0]["key"] == f"{CARD}:q:category+method"
        rows = asked.lake.scan("review_outcomes").collect()
        assert rows.filter(pl.col("reason").str.starts_with("waiting for review")).height == 2


def _installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A package that offers a proposer and a gate."""
    site = tmp_path / "site"
    info = site / "stranger-1.dist-info"
    info.mkdir(parents=True)
    (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
    (info / "entry_points.txt").write_text(
        "[tessera.proposers]\nstranger = stranger_ports:propose\n"
        "[tessera.gates]\nnobody = stranger_ports:gate\n"
    )
    (site / "stranger_ports.py").write_text(
        "from learners.review import Verdict\n"
        f"def propose(summary):\n    return [{add('a stranger' + chr(39) + 's')!r}]\n"
        "def gate(proposal):\n    return Verdict(False, 'nobody may')\n"
    )
    monkeypatch.syspath_prepend(str(site))


def test_the_kinds_memory_is_apart(client: Client) -> None:
    with pytest.raises(runs.RunError, match="no active config entry"):
        review_steps.prepare(client, "q", "verb.a")
