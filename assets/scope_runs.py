"""A queue's runs of one learner, one after the other until the lake's cursor is reached.

Promises that every config entry gets its turn, that one which fails stops no other, and that what stands in
the store afterwards is told as it is there, whoever wrote it. Leaves out Dagster: see `assets.learner_asset`.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

from assets import ahead, run_verbs, runs, specs
from assets.lake import Lake
from assets.publish import CheckFailed
from assets.runner import Ended, Read, perform
from assets.runs import Prepared, RunError
from assets.views import View
from learners.contract import CheckResult
from tessera.client import Client
from tessera.errors import TesseraError

Status = Literal["published", "superseded", "unchanged"]
_MOST_RUNS = 100_000


@dataclass(slots=True)
class Stand:
    """Where one config entry stands after its runs.

    ``record`` is the state noun as the store has it, null when there is none yet; ``status`` says how it came
    to stand: ``published`` by a run of this time, ``superseded`` by someone else's, or ``unchanged``.
    ``checks`` are of the last run that made something. ``fault`` is why the last run failed. ``notes`` is
    room for what an asset wants to tell of it.
    """

    prepared: Prepared
    record: Mapping[str, Any] | None = None
    status: Status = "unchanged"
    runs: int = 0
    task_ids: list[str] = field(default_factory=list)
    checks: tuple[CheckResult, ...] = ()
    fault: Exception | None = None
    notes: dict[str, Any] = field(default_factory=dict)

    @property
    def standing(self) -> Mapping[str, Any]:
        """The state noun, for those that know there is one."""
        if self.record is None:
            raise RunError(f"{self.prepared.name} has published nothing yet")
        return self.record

    @property
    def body(self) -> Mapping[str, Any]:
        """The state noun's body."""
        body: Mapping[str, Any] = self.standing["body"]
        return body


Each = Callable[[Client, Lake, Stand, Ended], None]
"""What to do in the lake after each run that published."""


def of_queue(
    client: Client, lake: Lake, queue: str, wanted: Callable[[str], bool], each: Each | None = None
) -> list[Stand]:
    """Run what is due of each entry of the queue whose spec is wanted, in the config's order.

    Raises RunError, after all had their turn, for those whose run could not even be made.
    """
    entries = specs.entries_of(client, queue)
    mine = [entry for entry in entries if wanted(entry["spec"])]
    if mine:
        lake.check_view(queue, View.of(client.whoami()))
    stands, broken = [], []
    for entry in mine:
        try:
            stands.append(of_entry(client, lake, entry, entries, each))
        except TesseraError as error:
            broken.append(str(error))
    if broken:
        raise RunError("\n".join(broken))
    return stands


def of_entry(
    client: Client,
    lake: Lake,
    entry: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]] = (),
    each: Each | None = None,
) -> Stand:
    """Run one entry until nothing is due. A run that fails is the stand's fault, not raised."""
    with ahead.reader(lake) as read:
        return _until_nothing_is_due(client, lake, entry, entries, each, read)


def _until_nothing_is_due(
    client: Client,
    lake: Lake,
    entry: Mapping[str, Any],
    entries: Sequence[Mapping[str, Any]],
    each: Each | None,
    read: Read,
) -> Stand:
    stand = Stand(runs.prepare(client, entry, entries))
    later = runs.later_in_lake(lake)
    done: set[str] = set()
    for _ in range(_MOST_RUNS):
        stand.record = stand.prepared.run.state
        if stand.prepared.due(later) is None:
            return stand
        identity = runs.identity(stand.prepared.brief())
        if identity in done:
            stand.fault = RunError(
                f"the run {identity[:12]}… of {stand.prepared.name} succeeded, but its state stands as it "
                "was: whoever submitted it did not publish"
            )
            return stand
        done.add(identity)
        try:
            ended = _one(client, stand, read)
        except Exception as error:
            stand.fault = error
            stand.checks = error.results if isinstance(error, CheckFailed) else ()
            return stand
        if ended is not None and ended.status == "published":
            stand.status, stand.runs = "published", stand.runs + 1
            stand.checks = ended.work.checks if ended.work is not None else ()
            if each is not None:
                each(client, lake, stand, ended)
        else:
            stand.status = "superseded"
        stand.prepared = runs.prepare(client, entry, entries)
        if ended is not None and ended.status == "published" and not _moved(ended, stand.prepared):
            stand.record = stand.prepared.run.state
            return stand
    raise RunError(f"{stand.prepared.name} was still behind after {_MOST_RUNS} runs")


def _one(client: Client, stand: Stand, read: Read) -> Ended | None:
    """Enqueue or find the due run, and do it; None when another worker had done it by then."""
    task = run_verbs.enqueue(client, stand.prepared)
    stand.task_ids.append(task.task_id)
    if task.state in run_verbs.OVER:
        return None
    claimed = run_verbs.claim(client, task.task_id)
    return None if claimed is None else perform(client, claimed, read)


def _moved(ended: Ended, now: Prepared) -> bool:
    """Whether the cursor moved; where a run could read nothing of its window, the next waits for more."""
    before, after = ended.prepared.run, now.run.state
    if after is None or before.state is None or before.restart:
        return True
    return runs.cursor_of(after) != runs.cursor_of(before.state)


def faults(stands: Sequence[Stand]) -> list[str]:
    """Why runs failed, a sentence each."""
    return [
        str(stand.fault)
        if isinstance(stand.fault, TesseraError)
        else f"{stand.prepared.name}: {stand.fault!r}"
        for stand in stands
        if stand.fault is not None
    ]
