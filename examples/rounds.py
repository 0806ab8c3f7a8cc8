"""The rounds of the example fleet's work, and which of them a queue still needs.

Promises that a round is known by what the store holds, so a run that was cut short goes on in the round it
was in: first uniform draws until each sort of input has met each method often enough to learn weights, then
uniform draws to judge them on, then work drawn by whatever stands. Leaves out doing the work.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from tessera import Client
from tessera.errors import NotFound

DIMENSION = "method"
WEIGHTS = "routing_weights:beta-bandit:v1"
EVALUATION = "evaluation:off-policy:v1"
STORE = "learn.outputs"
SPARE = 3
"""Tasks a sort and method beyond what is missing: a coin is uneven, and a batch has its own cost."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much work a round is: attempts of each sort and method, runs to judge on, runs by what stands."""

    least: int = 20
    judged: int = 250
    then: int = 100


@dataclass(frozen=True, slots=True)
class Drawn:
    """One run whose method the store drew: by a weights version, or uniformly (None)."""

    cursor: int
    kind: str
    arm: str
    policy: int | None
    accepted: bool


@dataclass(slots=True)
class History:
    """The drawn runs of a queue, read on from where reading stopped."""

    reader: Client
    queue: str
    runs: list[Drawn] = field(default_factory=list)
    cursor: str = "0"

    def read(self) -> Sequence[Drawn]:
        """All drawn runs until now, in capture order."""
        for item in self.reader.iter_observations(self.queue, after=self.cursor):
            self.cursor = item["cursor"]
            self.runs += [_drawn(item, draw) for draw in item["server"]["draws"] if _of_method(draw)]
        return self.runs

    def after(self, cursor: str | int, upto: str | int | None = None) -> list[Drawn]:
        """The drawn runs after a cursor, up to another one."""
        last = None if upto is None else int(upto)
        return [run for run in self.runs if run.cursor > int(cursor) and (last is None or run.cursor <= last)]

    def noun(self, spec: str, version: int | None = None) -> dict[str, Any] | None:
        """What a learner published about the methods of the queue; None while there is nothing."""
        try:
            return self.reader.get_record(STORE, f"{spec}:{self.queue}:{DIMENSION}", version)
        except NotFound:
            return None


def _of_method(draw: dict[str, Any]) -> bool:
    return bool(draw["dimension"] == DIMENSION)


def _drawn(item: dict[str, Any], draw: dict[str, Any]) -> Drawn:
    server, policy = item["server"], draw["policy"]
    return Drawn(
        int(item["cursor"]),
        server["kind"],
        draw["arm"],
        None if policy is None else policy["version"],
        server["result"] == "accepted",
    )


def to_learn(history: History, kinds: Sequence[str], arms: Sequence[str], least: int) -> int:
    """How many more tasks the first round needs by the look of it; 0 once weights are learned or can be.

    The coin decides which method a task meets, so the number is what is missing where most is, and more may
    be missing afterwards.
    """
    if history.noun(WEIGHTS) is not None:
        return 0
    met = Counter((run.kind, run.arm) for run in history.read())
    missing = max(least - met[kind, arm] for kind in kinds for arm in arms)
    return (missing + SPARE) * len(kinds) * len(arms) if missing > 0 else 0


def to_judge(history: History, judged: int) -> int:
    """How many more tasks the second round needs: runs after those that the first weights come from."""
    first = history.noun(WEIGHTS, 1)
    if first is None:
        return judged
    history.read()
    return max(0, judged - len(history.after(first["body"]["window"]["upto"])))


@dataclass(frozen=True, slots=True)
class Prediction:
    """An evaluation noun's version that says what its candidate would have done.

    ``stands`` is whether its candidate is what choices go by now.
    """

    record: dict[str, Any]
    stands: bool

    @property
    def body(self) -> dict[str, Any]:
        """The noun's body."""
        body: dict[str, Any] = self.record["body"]
        return body

    @property
    def candidate(self) -> int:
        """The version of the weights that were judged."""
        return int(self.body["candidate"]["version"])


def prediction(history: History) -> Prediction | None:
    """The evaluation behind what stands; while nothing stands the newest with runs to judge on, if any."""
    newest = history.noun(EVALUATION)
    if newest is None:
        return None
    standing = newest["body"]["standing"]
    for version in range(newest["version"], 0, -1):
        record = newest if version == newest["version"] else history.noun(EVALUATION, version)
        if record is None:
            continue
        body = record["body"]
        if standing is None and body["rows"] > 0:
            return Prediction(record, stands=False)
        if standing is not None and body["verdict"] == "better" and body["candidate"] == standing:
            return Prediction(record, stands=True)
    return None
