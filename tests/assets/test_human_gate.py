"""A gate that waits for a person, against a real store: what is asked, who may answer, and what counts."""

from typing import Any

import pytest

from assets import human_gate
from assets.human_gate import QUEUE, STORE, HumanGate, ReviewFault, answer, find, questions
from learners.review import BoundedMemory, review_and_learn
from tessera.client import Client
from tessera.errors import Forbidden

ADD = {"target": "memory", "op": {"action": "add", "text": "prefer lzma", "key": "k1"}, "score": 0.9}
SURFACE = {"queue": "q"}


@pytest.fixture
def client(store: Any) -> Client:
    made: Client = store.client()
    return made


def add(text: str, **more: Any) -> dict[str, Any]:
    return {**ADD, "op": {"action": "add", "text": text, "key": "k1"}, **more}


def waiting(client: Client) -> list[str]:
    return [one.task_id for one in questions(client) if one.state in human_gate.OPEN]


def test_a_proposal_waits_as_one_verb_however_often_it_is_made(client: Client) -> None:
    gate = HumanGate(client, "q")

    verdicts = [gate({**ADD, "score": score, "rationale": f"r{score}"}) for score in (0.9, 0.9, 0.8)]

    (task_id,) = waiting(client)
    assert {(one.approved, one.reason) for one in verdicts} == {(False, f"waiting for review {task_id}")}
    assert client.get_task(task_id)["queue"] == QUEUE


@pytest.mark.parametrize("approved", [True, False])
def test_the_same_proposal_gets_the_answer_with_the_key_that_gave_it(
    store: Any, client: Client, approved: bool
) -> None:
    gate = HumanGate(client, "q", surface=SURFACE)
    gate(ADD)
    reviewer = store.client(["read", "work"], [QUEUE], name="reviewer")
    (task_id,) = waiting(reviewer)

    receipt = answer(reviewer, task_id, approved, "I looked")
    verdicts = [gate({**ADD, "rationale": "another"}), gate(ADD)]

    said = "approved" if approved else "refused"
    mine = reviewer.whoami()["id"]
    assert [(one.approved, one.reason) for one in verdicts] == [(approved, f"{said} by {mine}: I looked")] * 2
    assert client.get_execution(receipt["run_id"])["server"]["key_id"] == mine
    assert find(client, task_id).document()["answer"]["key_id"] == mine
    assert waiting(client) == []


def test_other_words_are_another_question_and_take_back_the_old_one(client: Client) -> None:
    gate = HumanGate(client, "q")
    gate(add("prefer lzma: 30 of 40"))
    (first,) = waiting(client)

    gate(add("prefer lzma: 60 of 80"))

    (second,) = waiting(client)
    assert second != first
    assert client.get_task(first)["state"] == "cancelled"
    assert gate(add("prefer lzma: 30 of 40")).reason == f"waiting for review {waiting(client)[0]}"


def test_other_queues_and_lessons_are_questions_of_their_own(client: Client) -> None:
    HumanGate(client, "q")(ADD)
    HumanGate(client, "r")(ADD)
    HumanGate(client, "q")({**ADD, "op": {"action": "remove", "match": "prefer"}})
    HumanGate(client, "q")({**ADD, "op": {"action": "add", "text": "no key"}})

    assert len(waiting(client)) == 4


def test_a_question_taken_back_by_hand_is_asked_again(client: Client) -> None:
    gate = HumanGate(client, "q")
    gate(ADD)
    (first,) = waiting(client)
    client.cancel(first)

    verdict = gate(ADD)

    (second,) = waiting(client)
    assert (second != first, verdict.reason) == (True, f"waiting for review {second}")


def test_a_preview_asks_nobody(client: Client) -> None:
    verdict = HumanGate(client, "q", ask=False)(ADD)

    assert (verdict.approved, verdict.reason) == (False, "waiting for review: nobody has been asked yet")
    assert waiting(client) == []


def test_only_a_plain_yes_is_one(client: Client) -> None:
    gate = HumanGate(client, "q")
    for number, output in enumerate([None, {"approved": "yes"}, {"approved": 1}, ["approved"]]):
        gate(add(f"text {number}"))
        (task_id,) = waiting(client)
        task = client.claim(QUEUE, task_id=task_id)
        assert task is not None
        client.submit(task_id, task["fence"], True, output=output)

        assert gate(add(f"text {number}")).approved is False


def test_a_forged_note_of_an_answer_is_not_believed(client: Client) -> None:
    """A run that answers another question, put into the note of this one."""
    gate = HumanGate(client, "q")
    gate(add("harmless"))
    receipt = answer(client, waiting(client)[0], True, "fine")
    gate(add("harmful", op={"action": "add", "text": "harmful"}))
    (task_id,) = waiting(client)
    question = find(client, task_id)
    forged = {**question.body, "task_id": receipt["task_id"], "answer": {"run_id": receipt["run_id"]}}
    note = {"category": "c", "tags": ["answered"], "visibility": "private", "body": forged}
    client.write_records(
        [{"store": STORE, "key": question.key, "expected_version": question.version, **note}]
    )

    with pytest.raises(ReviewFault, match="does not answer"):
        gate(add("harmful", op={"action": "add", "text": "harmful"}))


def test_without_a_surface_only_the_asking_key_and_an_admin_see_the_question(
    store: Any, client: Client
) -> None:
    asker = store.client(["read", "work", "write"], ["q", QUEUE])
    HumanGate(asker, "q")(ADD)
    reviewer = store.client(["read", "work"], [QUEUE])
    (task_id,) = waiting(asker)

    assert waiting(reviewer) == []
    assert waiting(client) == [task_id]
    with pytest.raises(ReviewFault, match="waits for no answer of this key"):
        answer(reviewer, task_id, True, "sneaky")
    answer(client, task_id, True, "fine")
    assert HumanGate(asker, "q")(ADD).approved


def test_a_key_without_the_queue_cannot_answer(store: Any, client: Client) -> None:
    HumanGate(client, "q", surface=SURFACE)(ADD)
    worker = store.client(["read", "work", "write"], ["q"])

    with pytest.raises(Forbidden):
        answer(worker, waiting(client)[0], True, "sneaky")


def test_what_is_answered_cannot_be_answered_again(client: Client) -> None:
    HumanGate(client, "q")(ADD)
    (task_id,) = waiting(client)
    answer(client, task_id, False, "no")

    with pytest.raises(ReviewFault, match="it is answered"):
        answer(client, task_id, True, "yes after all")


def test_a_reviewer_who_is_stopped_in_between_keeps_nobody_waiting_for_long(
    store: Any, client: Client
) -> None:
    HumanGate(client, "q")(ADD)
    (task_id,) = waiting(client)
    client.claim(QUEUE, task_id=task_id, lease_seconds=60)
    store.clock.move(61)

    answer(client, task_id, True, "now")

    assert HumanGate(client, "q")(ADD).approved


def test_in_a_step_what_waits_is_rejected_and_what_is_approved_later_applied(client: Client) -> None:
    memory, gate = BoundedMemory(), HumanGate(client, "q")
    first = review_and_learn("s", lambda summary: [ADD], gate, memory)
    (task_id,) = waiting(client)
    answer(client, task_id, True, "fine")

    second = review_and_learn("s", lambda summary: [ADD], gate, memory)

    assert first.rejected == [{"proposal": ADD, "reason": f"waiting for review {task_id}"}]
    assert second.applied == [ADD]
    assert memory.entries("memory") == ["prefer lzma"]
