"""A gate that asks for a person's yes: each proposal waits as a verb in the queue `learn.review`.

Promises (contract, section 11) that the step is refused `waiting for review <task_id>` until somebody
answers, that the same proposal then gets the answer, and that an answer counts only as the store recorded it:
an accepted run of that very question, with the key that gave it. Who holds `work` on the queue may answer.
Leaves out the terminal (`pipelines.review`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from learners.review import Verdict
from tessera.advice.lesson_words import judgeable
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import Conflict, NotFound, TesseraError

QUEUE = "learn.review"
STORE = "learn.review"
KIND = "verb.review"
SCHEMA = "tessera.review.v1"
CATEGORY = "noun.review_question"
WAITING, ANSWERED, REPLACED = "waiting", "answered", "replaced"
OPEN = ("queued", "claimed")
_LEASE_SECONDS = 60
_MOST_CLAIMS = 100
_TRIES = 4


class ReviewFault(TesseraError):  # noqa: N818 - the sentence reads as what it is
    """A question that cannot be asked or answered; the sentence says why and what to do."""


@dataclass(frozen=True, slots=True)
class Question:
    """A proposal that somebody is asked about, where its answer stands, and its noun's version."""

    key: str
    version: int
    body: Mapping[str, Any]
    state: str

    @property
    def task_id(self) -> str:
        """The verb that waits for an answer."""
        return str(self.body["task_id"])

    def document(self) -> dict[str, Any]:
        """As a JSON object."""
        shown = {name: self.body[name] for name in ("queue", "proposal")}
        return {"task_id": self.task_id, "state": self.state, **shown, "answer": self.body.get("answer")}


class HumanGate:
    """The port, for the memory of one queue.

    Without a surface the lessons are private, and so are the questions: only the key that asks, or an admin,
    answers them. ``ask`` false looks only, as a preview does.
    """

    def __init__(
        self, client: Client, queue: str, *, surface: Mapping[str, Any] | None = None, ask: bool = True
    ) -> None:
        self._client, self._queue, self._surface, self._ask = client, queue, surface, ask

    def __call__(self, proposal: Mapping[str, Any]) -> Verdict:
        """The answer that was given, else a refusal that names the verb which waits."""
        asked = _asked(self._queue, proposal)
        key = f"{self._queue}:{digest(asked)}"
        for _ in range(_TRIES):
            question = _question(self._client, key)
            if question is not None and question.state not in ("failed", "cancelled"):
                if question.state in OPEN:
                    return Verdict(False, f"waiting for review {question.task_id}")
                return self._answer(question, asked)
            if not self._ask:
                return Verdict(False, "waiting for review: nobody has been asked yet")
            task_id = self._put(key, proposal, 0 if question is None else question.version)
            if task_id is not None:
                return Verdict(False, f"waiting for review {task_id}")
        raise ReviewFault(
            f"{STORE}/{key} exists, but this key may not read it or is always too late: ask with the key "
            "that asked first, or an admin's"
        )

    def _put(self, key: str, proposal: Mapping[str, Any], version: int) -> str | None:
        """Enqueue the question and note where it waits; None when another was faster."""
        brief = {"schema": SCHEMA, "queue": self._queue, "proposal": dict(proposal)}
        task = self._client.enqueue(
            QUEUE,
            KIND,
            brief,
            private=self._surface is None,
            max_attempts=_MOST_CLAIMS,
            idempotency_key=f"review:{version}:{digest(brief)}",
        )
        after = self._client.pending(QUEUE, kind=KIND)["last"]
        body = {**brief, "task_id": task["task_id"], "after": after}
        tags = [f"queue:{self._queue}", *_lesson_tags(proposal)]
        try:
            self._write(key, version, body, [WAITING, *tags])
        except Conflict:
            other = _question(self._client, key)
            if other is not None and other.task_id != task["task_id"]:
                self._client.cancel(str(task["task_id"]))
            return None
        self._replace(key, tags)
        return str(task["task_id"])

    def _replace(self, key: str, tags: list[str]) -> None:
        """Take back the questions about the same lesson that newer figures have made pointless."""
        for tag in tags[1:]:
            for other in questions(self._client, tag):
                mine = other.body["queue"] == self._queue and other.key != key
                if mine and other.state in OPEN:
                    self._client.cancel(other.task_id)
                    self._write(other.key, other.version, other.body, [REPLACED, *tags])

    def _answer(self, question: Question, asked: Mapping[str, Any]) -> Verdict:
        """The answer of a question whose verb has succeeded."""
        known = question.body.get("answer")
        execution = (
            self._client.get_execution(known["run_id"])
            if isinstance(known, Mapping) and isinstance(known.get("run_id"), str)
            else _execution(self._client, question)
        )
        server, output = execution["server"], execution["output"]
        brief = execution["brief_full"]
        of_question = (
            (server["queue"], server["task_id"], server["result"]) == (QUEUE, question.task_id, "accepted")
            and isinstance(brief, Mapping)
            and isinstance(brief.get("proposal"), Mapping)
            and digest(_asked(str(brief.get("queue")), brief["proposal"])) == digest(asked)
        )
        if not of_question:
            raise ReviewFault(f"run {execution['run_id']} does not answer {STORE}/{question.key}")
        given = output if isinstance(output, Mapping) else {}
        answer = {
            "approved": given.get("approved") is True,
            "reason": str(given.get("reason") or "no reason given"),
            "run_id": execution["run_id"],
            "key_id": server["key_id"],
            "answered_at": server["submitted_at"],
        }
        if known != answer and self._ask:
            tags = [ANSWERED, f"queue:{self._queue}", *_lesson_tags(question.body["proposal"])]
            self._write(question.key, question.version, {**question.body, "answer": answer}, tags)
        said = "approved" if answer["approved"] else "refused"
        return Verdict(answer["approved"], f"{said} by {answer['key_id']}: {answer['reason']}")

    def _write(self, key: str, version: int, body: Mapping[str, Any], tags: list[str]) -> None:
        surface = {"queue": QUEUE, "kind": KIND}
        seen: dict[str, Any] = {"visibility": "surface_only", "surface": surface} if self._surface else {}
        noun = {"store": STORE, "key": key, "expected_version": version, "category": CATEGORY}
        self._client.write_records([{"visibility": "private", **noun, "tags": tags, "body": body, **seen}])


def questions(client: Client, tag: str = WAITING) -> Iterator[Question]:
    """The questions of a tag that the key may read, by key."""
    after: str | None = None
    while True:
        page = client.list_records(store=STORE, tag=tag, after=after)
        for item in page["items"]:
            question = _question(client, item["key"])
            if question is not None:
                yield question
        if not page["has_more"]:
            return
        after = page["next_after"]


def find(client: Client, task_id: str) -> Question:
    """The question that a verb asks. Raises ReviewFault when there is none that the key may read."""
    for tag in (WAITING, ANSWERED, REPLACED):
        for question in questions(client, tag):
            if question.task_id == task_id:
                return question
    raise ReviewFault(
        f"no question {task_id} that this key may read: `learner review list` shows those there are"
    )


def answer(client: Client, task_id: str, approved: bool, reason: str) -> Mapping[str, Any]:
    """Answer a question with the client's key; the receipt of the run that records it."""
    claimed = client.claim(QUEUE, kinds=[KIND], task_id=task_id, lease_seconds=_LEASE_SECONDS)
    if claimed is None:
        raise ReviewFault(
            f"{task_id} waits for no answer of this key: it is answered, taken back, being answered, or not "
            "there"
        )
    receipt: Mapping[str, Any] = client.submit(
        task_id,
        claimed["fence"],
        True,
        output={"approved": approved, "reason": reason},
        execution_report={"harness": "learner review", "model": None},
    )
    return receipt


def _asked(queue: str, proposal: Mapping[str, Any]) -> dict[str, Any]:
    """What a person says yes to: the change, in these words. Score and rationale only speak for it."""
    return {"queue": queue, "target": proposal.get("target"), "op": proposal.get("op")}


def _lesson_tags(proposal: Mapping[str, Any]) -> list[str]:
    key = proposal["op"].get("key")
    return [f"lesson:{key}"] if judgeable(key) else []


def _question(client: Client, key: str) -> Question | None:
    try:
        record = client.get_record(STORE, key)
    except NotFound:
        return None
    body = record["body"]
    if body.get("schema") != SCHEMA or not isinstance(body.get("task_id"), str):
        raise ReviewFault(f"{STORE}/{key} version {record['version']} is no question")
    try:
        state = str(client.get_task(body["task_id"])["state"])
    except NotFound:
        state = "cancelled"
    return Question(key, int(record["version"]), body, state)


def _execution(client: Client, question: Question) -> dict[str, Any]:
    """The run that answered a question: the one accepted run of its verb."""
    for item in client.iter_observations(QUEUE, kind=KIND, after=str(question.body["after"])):
        if (item["server"]["task_id"], item["server"]["result"]) == (question.task_id, "accepted"):
            return client.get_execution(item["run_id"])
    raise ReviewFault(f"{question.task_id} is answered, but this key may not read the answer")
