"""Workers as the documentation has them, on ``tessera.Client`` alone, and what of their calls failed.

Each is a thread with a key of its own that enqueues, claims, draws and submits. Promises: whatever a client
raises is counted under its call and the phase in which it came; whatever it absorbed by sending again is
counted too. A claim is not sent again by design when its answer is lost, so a killed process may cost one.
"""

import logging
import re
import threading
from collections import Counter
from typing import Any

from tessera import Client
from tessera.errors import TesseraError
from tests.deploy.address import Address
from tests.faults.ledger import Findings

COUNT = 3
LEASE_SECONDS = 60
_ARMS = [{"arm": "a", "weight": 0.5}, {"arm": "b", "weight": 0.5}]
_AGAIN = re.compile(r"(POST|GET) (\S+): (\S+); trying again")


class Workers:
    """The load of one round: ``start``, ``finish``, then ``audit``."""

    def __init__(self, address: Address, queue: str) -> None:
        self.phase = "calm"
        self.failed: Counter[tuple[str, str, str]] = Counter()
        self.again: Counter[tuple[str, str]] = Counter()
        self._queue = queue
        self._url = address.url
        self._tasks: dict[str, str] = {}
        self._runs: list[str] = []
        self._met: list[str] = []
        self._after = "0"
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._watch = _Watch(self)
        self._secret = address.key()
        roles = [*((self._work, address.key()) for _ in range(COUNT)), (self._read, self._secret)]
        self._threads = [
            threading.Thread(target=self._guard, args=(role, secret, n))
            for n, (role, secret) in enumerate(roles)
        ]

    def start(self) -> None:
        """Begin."""
        logger = logging.getLogger("tessera.client")
        logger.setLevel(logging.INFO)
        logger.addHandler(self._watch)
        for thread in self._threads:
            thread.start()

    def finish(self) -> None:
        """Let each finish what it has in hand."""
        self._stop.set()
        for thread in self._threads:
            thread.join()
        logging.getLogger("tessera.client").removeHandler(self._watch)

    def audit(self) -> Findings:
        """What is lost, doubled or wrong; and errors that no worker should have met."""
        found = Findings()
        with Client(self._url, self._secret) as client:
            while (task := client.claim(self._queue, lease_seconds=LEASE_SECONDS)) is not None:
                client.submit(task["task_id"], task["fence"], True)
            items = list(client.iter_observations(self._queue))
            listed = [item["run_id"] for item in items]
            runs, done = Counter(listed), Counter(item["server"]["task_id"] for item in items)
            open_tasks = [task_id for task_id in self._tasks.values() if not done[task_id]]
            held = [task_id for task_id in open_tasks if client.get_task(task_id)["state"] == "claimed"]
        found.lost += [f"run {run_id} was acknowledged" for run_id in self._runs if not runs[run_id]]
        found.lost += [
            f"task {task_id} is neither done nor claimed" for task_id in set(open_tasks) - set(held)
        ]
        found.doubled += [f"run {run_id} is there {n} times" for run_id, n in runs.items() if n > 1]
        found.doubled += [f"task {task_id} was done {n} times" for task_id, n in done.items() if n > 1]
        found.wrong += [f"task {task} was enqueued twice" for task in done.keys() - set(self._tasks.values())]
        lost_claims = sum(n for (call, _, _), n in self.failed.items() if call == "claim")
        if len(held) > lost_claims:
            found.wrong.append(f"{len(held)} tasks are claimed by nobody, {lost_claims} claims were lost")
        if self._met != listed[: len(self._met)]:
            found.lost.append("a reader paging along met other runs than stand there now")
        for (call, phase, error), n in self.failed.items():
            if (call, phase) != ("claim", "kill"):
                found.wrong.append(f"{n} times {call} raised {error} in the phase {phase}")
        for (phase, instead), n in self.again.items():
            found.counts[f"absorbed {instead} in the phase {phase}"] += n
        found.counts.update({"runs by clients": len(self._runs), "lost claims": lost_claims})
        return found

    def _guard(self, role: Any, secret: str, number: int) -> None:
        with Client(self._url, secret) as client:
            count = 0
            while not self._stop.is_set():
                count += 1
                role(client, f"{self._queue}.{number}.{count}")

    def _call(self, client: Client, name: str, *arguments: Any, **more: Any) -> Any:
        try:
            return getattr(client, name)(*arguments, **more)
        except TesseraError as error:
            with self._lock:
                self.failed[name, self.phase, f"{type(error).__name__}: {error}"[:200]] += 1
            return None

    def _work(self, client: Client, token: str) -> None:
        queued = self._call(client, "enqueue", self._queue, "verb.test", {"token": token})
        if queued is not None:
            self._tasks[token] = queued["task_id"]
        task = self._call(client, "claim", self._queue, lease_seconds=LEASE_SECONDS)
        if task is None:
            return
        first, again = (
            self._call(client, "draw", task["task_id"], task["fence"], "model", _ARMS) for _ in "ab"
        )
        if first != again and None not in (first, again):
            self.failed["draw", self.phase, f"drew {first}, then {again}"] += 1
        self._call(client, "heartbeat", task["task_id"], task["fence"], lease_seconds=LEASE_SECONDS)
        receipt = self._call(client, "submit", task["task_id"], task["fence"], True, output={"token": token})
        if receipt is not None:
            self._runs.append(receipt["run_id"])

    def _read(self, client: Client, token: str) -> None:
        page = self._call(client, "execution_observations", self._queue, after=self._after, limit=7)
        if page is not None:
            self._met += [item["run_id"] for item in page["items"]]
            self._after = page["next_after"]
        self._stop.wait(0.02)


class _Watch(logging.Handler):
    """Counts what clients send again, by the phase and by what came instead of an answer."""

    def __init__(self, workers: Workers) -> None:
        super().__init__()
        self._workers = workers

    def emit(self, record: logging.LogRecord) -> None:
        told = _AGAIN.match(record.getMessage())
        if told is not None:
            self._workers.again[self._workers.phase, told[3]] += 1
