"""Workers, publishers, an importer and a reader at work on a server that keeps dying under them.

Each is a thread with its own key. A deed that broke off is sent again under the same idempotency key until it
is answered, or left alone, by chance: the audit asks different things of the two. Everything random comes
from one seed.
"""

import random
import threading
import time
from typing import Any

import httpx

from tests.faults.ledger import Deed, Ledger
from tests.faults.server import Caller, Server

STORE = "faults.kills"
KEYS = 12
LEASE_SECONDS = 2
BACKLOG = 60
AWAY_SECONDS = 0.1
"""How long to leave a server alone that does not answer: it needs the processor to start."""
REPEATED = 0.75
"""Share of broken deeds that are sent again."""


class Fleet:
    """The load of one round: ``start`` it, kill the server at will, ``finish`` while the server runs."""

    def __init__(
        self, server: Server, name: str, seed: int, *, workers: int = 3, publishers: int = 2
    ) -> None:
        self.queue = name
        self.ledger = Ledger()
        self.secret = server.key()
        self.patience = False  # whether 503 is an answer to come back after, or a fault
        self.refused_for_now = 0
        self._server = server
        self._seed = seed
        self._stop = threading.Event()
        roles = [
            *((self._work, server.key()) for _ in range(workers)),
            *((self._publish, server.key()) for _ in range(publishers)),
            (self._import, server.admin_secret),
            (self._read, self.secret),
        ]
        self._threads = [
            threading.Thread(target=self._guard, args=(role, secret, number), daemon=True)
            for number, (role, secret) in enumerate(roles)
        ]

    def start(self) -> None:
        """Begin."""
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Let each finish what it has in hand; the server must be up."""
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            if thread.is_alive():
                self.ledger.unexpected.append(f"{thread.name} never got an answer")

    def _guard(self, role: Any, secret: str, number: int) -> None:
        chance = random.Random(self._seed * 1000 + number)
        try:
            with self._server.caller(secret) as caller:
                role(caller, chance, number)
        except Exception as error:  # a thread must not die unseen
            self.ledger.unexpected.append(f"thread {number}: {error!r}")

    def _send(self, caller: Caller, path: str, body: dict[str, Any]) -> httpx.Response | None:
        """One try; None when it broke off."""
        try:
            answer = caller.post(path, body)
        except httpx.TransportError:
            time.sleep(AWAY_SECONDS)
            return None
        return None if self._later(answer) else answer

    def _later(self, answer: httpx.Response) -> bool:
        """Whether a patient fleet takes the answer for a request to come back."""
        if not (self.patience and answer.status_code == 503):
            return False
        self.refused_for_now += 1
        time.sleep(0.02)
        return True

    def _perform(self, caller: Caller, chance: random.Random, deed: Deed) -> Deed:
        self.ledger.enter(deed)
        stubborn = chance.random() < REPEATED
        while True:
            try:
                answer = caller.post(deed.path, deed.body)
            except (httpx.ConnectError, httpx.ConnectTimeout):
                if self._stop.is_set():
                    return deed
                time.sleep(AWAY_SECONDS)
                continue
            except httpx.TransportError:
                deed.broken += 1
                if not stubborn:
                    return deed
                continue
            if self._later(answer):
                if self._stop.is_set():
                    return deed
                continue
            if answer.status_code in (200, 201):
                deed.answer = answer.json()
            elif answer.status_code in (404, 409):
                deed.refusal = answer.text
            else:
                deed.refusal = answer.text
                self.ledger.unexpected.append(
                    f"{deed.kind} {deed.token}: {answer.status_code} {answer.text[:300]}"
                )
            return deed

    def _work(self, caller: Caller, chance: random.Random, number: int) -> None:
        count = 0
        while not self._stop.is_set():
            claim = {"queue": self.queue, "lease_seconds": LEASE_SECONDS}
            answer = self._send(caller, "/v1/tasks/claim", claim)
            if answer is None:
                continue
            if answer.status_code == 204:
                time.sleep(0.01)
                continue
            task = answer.json()
            count += 1
            token = f"{self.queue}.w{number}.{count}"
            ok = chance.random() < 0.9
            body: dict[str, Any] = {"fence": task["fence"], "ok": ok, "idempotency_key": token}
            body["output"] = {"token": token, "filling": "o" * chance.randrange(2000)}
            if not ok:
                body["failure"] = f"{token} failed"
            body["execution_report"] = {
                "harness": token,
                "summaries": {"problem": f"the problem of task {task['task_id']}", "solution": "s" * 200},
            }
            drawn = self._draw(caller, task) if chance.random() < 0.3 else None
            deed = Deed("submit", token, f"/v1/tasks/{task['task_id']}/submit", body)
            self._perform(caller, chance, deed)
            if drawn is not None and deed.answer is not None:
                deed.answer["drawn"] = drawn

    def _draw(self, caller: Caller, task: dict[str, Any]) -> dict[str, Any] | None:
        """Draw, and draw again when the first broke off or by habit: the coin must not fall otherwise."""
        arms = [{"arm": "a", "weight": 0.5}, {"arm": "b", "weight": 0.25}, {"arm": "c", "weight": 0.25}]
        body = {"fence": task["fence"], "dimension": "model", "arms": arms}
        first = None
        for _ in range(2):
            answer = self._send(caller, f"/v1/tasks/{task['task_id']}/draw", body)
            if answer is None or answer.status_code != 200:
                continue
            drawn: dict[str, Any] = answer.json()
            if first is not None and drawn != first:
                self.ledger.unexpected.append(f"task {task['task_id']} drew {first} and then {drawn}")
            first = drawn
        return first

    def _publish(self, caller: Caller, chance: random.Random, number: int) -> None:
        count = 0
        newest = {f"{self.queue}.k{key}": 0 for key in range(KEYS)}
        while not self._stop.is_set():
            count += 1
            token = f"{self.queue}.p{number}.{count}"
            if chance.random() < 0.5 and self._outstanding() < BACKLOG:
                self._enqueue(caller, chance, token)
            else:
                self._batch(caller, chance, token, newest)

    def _outstanding(self) -> int:
        deeds = self.ledger.deeds
        return sum(d.kind == "enqueue" for d in list(deeds.values())[-400:]) - sum(
            d.kind == "submit" for d in list(deeds.values())[-400:]
        )

    def _enqueue(self, caller: Caller, chance: random.Random, token: str) -> None:
        brief = {"template": token, "problem": "p" * chance.randrange(1, 500)}
        body = {
            "queue": self.queue,
            "kind": "verb.test",
            "brief": brief,
            "idempotency_key": token,
            "max_attempts": 100,
        }
        deed = self._perform(caller, chance, Deed("enqueue", token, "/v1/tasks", body))
        if deed.answer is not None and chance.random() < 0.1:
            path = f"/v1/tasks/{deed.answer['task_id']}/cancel"
            self._perform(caller, chance, Deed("cancel", f"{token}.cancel", path, {}))

    def _batch(self, caller: Caller, chance: random.Random, token: str, newest: dict[str, int]) -> None:
        keys = chance.sample(sorted(newest), chance.randint(1, 5))
        writes = [
            {
                "store": STORE,
                "key": key,
                "expected_version": newest[key],
                "category": "noun.eval_run",
                "tags": [self.queue, token],
                "body": {"token": token, "at": at, "of": len(keys), "filling": "b" * chance.randrange(2000)},
                "visibility": "shared",
            }
            for at, key in enumerate(keys)
        ]
        body = {"writes": writes, "idempotency_key": token}
        deed = self._perform(caller, chance, Deed("batch", token, "/v1/records", body))
        if deed.answer is not None:
            newest.update({record["key"]: record["version"] for record in deed.answer["records"]})
        else:  # refused, or left in doubt: look
            for key in keys:
                try:
                    answer = caller.get(f"/v1/records/{STORE}/{key}")
                except httpx.TransportError:
                    continue
                if answer.status_code == 200:
                    newest[key] = answer.json()["version"]

    def _import(self, caller: Caller, chance: random.Random, number: int) -> None:
        count = 0
        while not self._stop.is_set():
            count += 1
            token = f"{self.queue}.i{number}.{count}"
            attempts = [
                {
                    "source": token,
                    "task_key": f"{token}.{at}",
                    "attempt": 1,
                    "kind": "verb.test",
                    "accepted": True,
                    "template": token,
                }
                for at in range(chance.randint(1, 40))
            ]
            body = {"queue": self.queue, "attempts": attempts}
            self._perform(caller, chance, Deed("import", token, "/v1/executions/import", body))
            time.sleep(chance.random() * 0.2)

    def _read(self, caller: Caller, chance: random.Random, number: int) -> None:
        after = "0"
        while not self._stop.is_set():
            try:
                page = caller.get(
                    "/v1/executions", queue=self.queue, after=after, limit=chance.randint(1, 100)
                )
            except httpx.TransportError:
                time.sleep(AWAY_SECONDS)
                continue
            if self._later(page):
                continue
            if page.status_code != 200:
                self.ledger.unexpected.append(f"reading after {after}: {page.status_code} {page.text[:300]}")
                continue
            body = page.json()
            self.ledger.met += body["items"]
            after = body["next_after"]
            time.sleep(0.05)
