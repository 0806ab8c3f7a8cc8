"""Schedule nouns, ticked: windows that are due become tasks of their owners, each once.

Promises that no window is enqueued twice or left out, wherever a tick ends: what a tick is about to enqueue
is written down first, in a noun beside the schedule, and the store answers a repeat with the same task. So
nothing depends on Dagster's memory. Leaves out which windows are due (`pipelines.planning`); calls no model.
"""

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

from pipelines import planning
from schemas.schedules import (
    PROGRESS,
    PROGRESS_CATEGORY,
    PROGRESS_SCHEMA,
    SCHEMA,
    STORE,
    faults,
    progress_faults,
    progress_key,
)
from tessera.client import Client
from tessera.errors import Conflict, ConnectionFault, NotFound, Problem, TesseraError, Unavailable, listed

LONGEST_IDEMPOTENCY_KEY = 128
_OVER = ("succeeded", "failed", "cancelled")
_SKIPS_KEPT = 20
_AGAIN_SECONDS = 600  # what the store refused once, it will mostly refuse again

Body = dict[str, Any]


class ProgressError(TesseraError):
    """A noun that stands where a schedule's progress belongs and is none; the sentence says what to do."""


@dataclass(slots=True)
class Ticked:
    """What a tick did for one schedule: the windows it enqueued, and why others were not."""

    key: str
    version: int
    enqueued: list[str] = field(default_factory=list)
    skipped: str | None = None

    def document(self) -> Body:
        """As a JSON object."""
        return {"key": self.key, "version": self.version, "enqueued": self.enqueued, "skipped": self.skipped}

    def sentence(self) -> str:
        """In a few words, for the tick's row in Dagster's UI."""
        parts = [f"{len(self.enqueued)} windows enqueued"] if self.enqueued else []
        return f"{self.key}: {', '.join([*parts, *([self.skipped] if self.skipped else [])])}"


def tick(client: Client, now: int) -> list[Ticked]:
    """Enqueue what is due of every schedule noun. `now` is in seconds since 1970.

    A schedule that the store refuses, or whose progress cannot be read, is skipped and stops no other.
    Raises what the client raises when the store does not answer or the key is not an admin's; the next tick
    then goes on where this one ended.
    """
    found = list(nouns(client))
    if not found:
        return []
    whoami = client.whoami()
    usable = {key["id"]: key for key in _keys(client) if _usable(key, now)}
    return [_ticked(client, noun, whoami["id"], usable, now) for noun in found]


def _ticked(client: Client, noun: Body, caller: str, keys: Mapping[str, Body], now: int) -> Ticked:
    try:
        return _Schedule(client, noun, caller, keys, now).tick()
    except Problem as refusal:
        if refusal.status >= 500:
            raise
        reason = "; ".join(filter(None, (refusal.detail, listed(refusal.errors))))
    except ProgressError as error:
        reason = str(error)
    return Ticked(noun["key"], int(noun["version"]), skipped=reason)


def nouns(client: Client) -> Iterator[Body]:
    """The newest version of each schedule noun that the key may read."""
    after: str | None = None
    while True:
        page = client.list_records(store=STORE, after=after)
        for item in page["items"]:
            if not item["key"].startswith(PROGRESS):
                noun = client.get_record(STORE, item["key"])
                if noun["body"].get("schema") == SCHEMA:
                    yield noun
        if not page["has_more"]:
            return
        after = page["next_after"]


def progress(client: Client, key: str) -> Body | None:
    """The noun that says how far a schedule has come; None before its first tick.

    Raises ProgressError when another noun stands in its place.
    """
    try:
        record = client.get_record(STORE, progress_key(key))
    except NotFound:
        return None
    wrong = progress_faults(record["body"])
    if wrong:
        raise ProgressError(
            f"{STORE}/{record['key']} version {record['version']}, written by key {record['key_id']}, does "
            f"not say how far the schedule has come ({listed(wrong[:1])}): write its last "
            "good version again with an admin's key, or give the schedule another key"
        )
    return record


def newest_window_end(client: Client, key: str) -> str | None:
    """Where the newest enqueued window of a schedule ended, RFC 3339; None while there is none."""
    noun = progress(client, key)
    return None if noun is None or not noun["body"]["enqueued"] else str(noun["body"]["done"])


class _Schedule:
    """One schedule at one tick."""

    def __init__(self, client: Client, noun: Body, caller: str, keys: Mapping[str, Body], now: int) -> None:
        self._client, self._noun, self._caller, self._keys = client, noun, caller, keys
        self._now = now
        self._held = progress(client, noun["key"])
        self._body = self._begun() if self._held is None else dict(self._held["body"])
        self._at = 0 if self._held is None else int(self._held["version"])
        self._was = None if self._held is None else dict(self._held["body"])
        self._ticked = Ticked(noun["key"], int(noun["version"]))

    def tick(self) -> Ticked:
        """Settle what an earlier tick had begun, then enqueue what is due."""
        try:
            if not self._settle():
                return self._done()
            why = self._unfit()
            if why is not None:
                return self._skip(why)
            done = planning.read(self._body["done"])
            plan = planning.plan(self._noun["body"], done, len(self._body["outstanding"]), self._now)
            for start, end in plan.windows:
                self._intend(start, end)
            if plan.windows:
                self._write()  # before anything is enqueued
                if not self._settle():
                    return self._done()
            return self._skip(plan.held) if plan.held is not None else self._done()
        except Conflict:
            self._ticked.skipped = "another tick of this schedule is at work"
            return self._ticked

    def _begun(self) -> Body:
        """The progress of a schedule that was never ticked; where it begins is not known yet."""
        return {
            "schema": PROGRESS_SCHEMA,
            "schedule": self._noun["key"],
            "done": None,
            "enqueued": 0,
            "outstanding": [],
            "skips": [],
        }

    def _start(self) -> str:
        """Where the first window begins: with the schedule's first version, on this one's grid."""
        first = self._noun
        if first["version"] > 1:
            with suppress(NotFound):  # an early version may have been another key's own
                first = self._client.get_record(STORE, first["key"], 1)
        return planning.written(planning.first_start(self._noun["body"], planning.read(first["created_at"])))

    def _unfit(self) -> str | None:
        """Why nothing may be enqueued for this noun; None when it may."""
        noun, body = self._noun, self._noun["body"]
        wrong = faults(body)
        if wrong:
            return listed(wrong[:5])
        writer = self._keys.get(noun["key_id"], {"scopes": ()})
        if noun["key_id"] != body["owner_key_id"] and "admin" not in writer["scopes"]:
            return f"it was written by key {noun['key_id']}, which is neither its owner nor an admin's"
        if not body.get("enabled", True):
            return "it is paused: enabled is false"
        refused = _refusal(self._keys.get(body["owner_key_id"]), body["target"])
        if refused is not None:
            return refused
        if self._body["done"] is None:
            self._body["done"] = self._start()
        last = self._body["skips"][-1:]
        if (
            last
            and last[0]["version"] == noun["version"]
            and last[0].get("again_at", "") > self._written_now()
        ):
            return str(last[0]["reason"])
        name = self._name(noun["version"], self._body["done"])
        if len(name) > LONGEST_IDEMPOTENCY_KEY:
            return f"its key is too long: {name} has over {LONGEST_IDEMPOTENCY_KEY} characters"
        return None

    def _intend(self, start: int, end: int) -> None:
        window = {
            "version": self._noun["version"],
            "start": planning.written(start),
            "end": planning.written(end),
            "task_id": None,
        }
        self._body["outstanding"] = [*self._body["outstanding"], window]
        self._body["done"] = planning.written(end)

    def _settle(self) -> bool:
        """Enqueue what was intended, forget tasks that are over; False when the store refused a window.

        A window that is refused is taken back with those after it: they stay due.
        """
        kept: list[Body] = []
        windows = self._body["outstanding"]
        for place, window in enumerate(windows):
            try:
                task = self._task(window)
            except (ConnectionFault, Unavailable, Conflict):
                raise
            except Problem as refusal:
                back = [one for one in windows[place:] if one["task_id"] is not None]
                self._body["outstanding"] = [*kept, *back]
                self._body["done"] = window["start"]
                self._note(f"window {window['start']}: {refusal.detail}", again=self._now + _AGAIN_SECONDS)
                return False
            if task is not None and task["state"] not in _OVER:
                kept.append({**window, "task_id": task["task_id"]})
        self._body["outstanding"] = kept
        return True

    def _task(self, window: Body) -> Body | None:
        """The task of a window, enqueued if it is not there yet; None when it cannot be found any more."""
        if window["task_id"] is not None:
            try:
                return self._client.get_task(window["task_id"])
            except NotFound:
                return None
        if self._held is not None and self._held["key_id"] != self._caller:
            self._note(
                f"window {window['start']} was being enqueued by key {self._held['key_id']} when that tick "
                "ended: it is taken as enqueued, look for its task"
            )
            return None
        version = window["version"]
        same = version == self._noun["version"]
        body = (self._noun if same else self._client.get_record(STORE, self._noun["key"], version))["body"]
        task = self._client.enqueue(
            body["target"]["queue"],
            body["target"]["kind"],
            {"window": {"start": window["start"], "end": window["end"]}, **body["target"]["brief"]},
            pins=body.get("pins", ()),
            owner_key_id=body["owner_key_id"],
            idempotency_key=self._name(version, window["start"]),
        )
        self._body["enqueued"] += 1
        self._ticked.enqueued.append(window["start"])
        return task

    def _name(self, version: int, start: str) -> str:
        return f"schedule:{self._noun['key']}:{version}:{start}"

    def _skip(self, reason: str) -> Ticked:
        self._note(reason)
        return self._done()

    def _note(self, reason: str, again: int | None = None) -> None:
        """Record a reason, unless it is the one recorded last for this version, and when to try again."""
        self._ticked.skipped = reason
        skips, version = list(self._body["skips"]), self._noun["version"]
        same = bool(skips) and (skips[-1]["reason"], skips[-1]["version"]) == (reason, version)
        if same and again is None:
            return
        new = {"at": self._written_now(), "version": version, "reason": reason}
        if again is not None:
            new["again_at"] = planning.written(again)
        self._body["skips"] = [*(skips[:-1] if same else skips), new][-_SKIPS_KEPT:]

    def _written_now(self) -> str:
        return planning.written(self._now)

    def _done(self) -> Ticked:
        """Keep what this tick found out, if there is anything to keep."""
        kept = ("done", "enqueued", "skips")
        changed = self._was is None or any(self._body[name] != self._was[name] for name in kept)
        if changed or self._ticked.enqueued:
            self._write()
        return self._ticked

    def _write(self) -> None:
        write = {
            "store": STORE,
            "key": progress_key(self._noun["key"]),
            "expected_version": self._at,
            "category": PROGRESS_CATEGORY,
            "tags": [],
            "visibility": "private",
            "body": self._body,
        }
        (record,) = self._client.write_records([write])["records"]
        self._at, self._was = int(record["version"]), dict(self._body)
        self._held = {"key_id": self._caller}


def _keys(client: Client) -> Iterator[Body]:
    after: str | None = None
    while True:
        page = client.list_keys(after=after)
        yield from page["items"]
        if not page["has_more"]:
            return
        after = page["next_after"]


def _usable(key: Mapping[str, Any], now: int) -> bool:
    expires = key["expires_at"]
    return key["revoked_at"] is None and (expires is None or planning.read(expires) > now)


def _refusal(owner: Mapping[str, Any] | None, target: Mapping[str, Any]) -> str | None:
    """Why the store would refuse to enqueue for this key; it decides, this spares it the question."""
    if owner is None:
        return "owner_key_id: the key is unknown, revoked or expired"
    queue, kinds = target["queue"], owner["kinds"]
    if not any(
        queue == name or (name.endswith("*") and queue.startswith(name[:-1])) for name in owner["queues"]
    ):
        return "owner_key_id: the key is not granted the queue"
    if kinds is not None and target["kind"] not in kinds:
        return "owner_key_id: the key is not granted the kind"
    return None
