"""The sensors: new queues become partitions, enough new work becomes a run, and schedule nouns are ticked.

Promises ticks that are short and may end anywhere: a tick remembers only which queue it comes to next;
everything else is asked of the store and of Dagster's history anew, so that the next tick repairs what one
left half done. Leaves out what is due (`pipelines.due`) and what may be launched (`pipelines.launches`).
"""

import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import dagster as dg

from assets import lag, partitions
from assets.lake import Lake
from assets.learning import LEARNERS
from learners.contract import name_of
from learners.registry import BUILT_IN
from pipelines import due, jobs, launches, schedules, turns
from pipelines.resources import turns_of
from tessera.client import Client
from tessera.settings import Settings

EVERY_SECONDS = 30
BUDGET_SECONDS = 20.0
LAG_EVERY_SECONDS = 600
_TOLD = 12


@dataclass(slots=True)
class Tick:
    """What one tick of the threshold sensor found out."""

    requests: list[dg.RunRequest] = field(default_factory=list)
    held: list[str] = field(default_factory=list)
    lags: dict[str, int | None] = field(default_factory=dict)
    following: str = ""


def workers() -> dict[str, tuple[str, ...]]:
    """By spec key, the assets of its run: its own last, and before it what that reads of the lake."""
    learned = {shown.name for shown in LEARNERS}
    return {
        name_of(shown.learner): tuple(
            dict.fromkeys(("observations", *(dep for dep in shown.deps if dep not in learned), shown.name))
        )
        for shown in LEARNERS
    }


def assets_of(spec: str) -> tuple[str, ...]:
    """The assets of a spec's run; none when nothing here runs it. Those of other packages share one."""
    return workers().get(spec) or (() if spec in BUILT_IN else ("observations", "other_learners"))


def look(
    client: Client,
    lake: Lake,
    instance: dg.DagsterInstance,
    first: str = "",
    seconds: float = BUDGET_SECONDS,
    now: float | None = None,
) -> Tick:
    """Go round the queues, beginning with `first`, until all were seen or the time is up.

    `now` is in seconds since 1970, by default the clock's.
    """
    names = sorted(partitions.scopes(client.queues()))
    start = next((place for place, name in enumerate(names) if name >= first), 0)
    tick, until, config = Tick(), time.monotonic() + seconds, due.config_of(client)
    for place, queue in enumerate([*names[start:], *names[:start]]):
        if place and time.monotonic() > until:
            tick.following = queue
            break
        tick.lags[queue] = lag.behind(client, lake, queue)
        fit = [
            launch
            for entry in due.of_queue(client, queue, config)
            if (launch := _judged(client, instance, entry, tick, now)) is not None
        ]
        tick.requests += _requests(fit)
    return tick


@dataclass(frozen=True, slots=True)
class _Fit:
    """An entry whose run may be launched now, the assets of that run, and which attempt it is."""

    entry: due.Entry
    assets: tuple[str, ...]
    attempt: int


def _judged(
    client: Client, instance: dg.DagsterInstance, entry: due.Entry, tick: Tick, now: float | None
) -> _Fit | None:
    """The entry if its run may be launched now; if it is due and may not, why is told."""
    told = f"{entry.queue}: {entry.spec}"
    assets = assets_of(entry.spec)
    if entry.problem is not None:
        tick.held.append(f"{told}: {entry.problem}")
    elif entry.reason is None or entry.prepared is None or entry.identity is None:
        return None
    elif not assets:
        tick.held.append(f"{told} has no asset")
    elif launches.sibling_in_flight(instance, entry.queue, assets[-1]):
        tick.held.append(f"{told}: a run of its asset is under way")
    else:
        launch = launches.of(instance, client, entry.prepared, entry.identity, now)
        if launch.held is None:
            return _Fit(entry, assets, launch.attempt)
        tick.held.append(f"{told}: {launch.held}")
    return None


def _requests(fit: Sequence[_Fit]) -> list[dg.RunRequest]:
    """A queue's runs: one for all that is due for the first time, since a process costs more than most
    learners; one alone for each that has failed before, so that it fails no other.

    Entries of one asset are one run, which does all of the asset's entries.
    """
    first_of_asset = {one.assets[-1]: one for one in reversed(fit)}
    chosen = [one for one in fit if first_of_asset[one.assets[-1]] is one]
    fresh = [one for one in chosen if one.attempt == 0]
    again = [[one] for one in chosen if one.attempt > 0]
    return [_request(together) for together in ([fresh] if fresh else []) + again]


def _request(together: Sequence[_Fit]) -> dg.RunRequest:
    """The run of some entries of a queue; its key and its plain tags are those of the first."""
    first = together[0]
    names = dict.fromkeys(name for one in together for name in one.assets)
    return dg.RunRequest(
        run_key=f"{first.entry.identity}:{first.attempt}",
        job_name=jobs.WORKSPACE,
        partition_key=first.entry.queue,
        asset_selection=[dg.AssetKey(name) for name in names],
        tags={
            launches.SPEC: first.entry.spec,
            "tessera/reason": str(first.entry.reason),
            **launches.tags((str(one.entry.identity), one.assets[-1]) for one in together),
        },
    )


def of_workspace(every_seconds: int = EVERY_SECONDS) -> list[dg.SensorDefinition]:
    """The workspace's sensors."""
    return [threshold(every_seconds), schedule_nouns(every_seconds)]


def threshold(every_seconds: int = EVERY_SECONDS) -> dg.SensorDefinition:
    """The sensor that launches a scope's run when its spec's trigger is reached."""

    @dg.sensor(
        name="threshold",
        job_name=jobs.WORKSPACE,
        minimum_interval_seconds=every_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        description="New queues become partitions; a config entry whose trigger is reached gets its run.",
    )
    def sensor(
        context: dg.SensorEvaluationContext,
        ticks: dg.ResourceParam[Client],
        lake: dg.ResourceParam[Lake],
    ) -> dg.SensorResult:
        settings = Settings.from_environment()
        for run_id in turns.end_left_behind(context.instance, turns_of(settings)):
            context.log.warning(f"run {run_id}: {turns.DIED}")
        remembered = _remembered(context.cursor)
        tick = look(ticks, lake, context.instance, remembered["next"])
        events, told_at = _lag_events(context.instance, tick.lags, remembered["lag_told"])
        known = set(context.instance.get_dynamic_partitions(str(partitions.queues.name)))
        new = [queue for queue in tick.lags if queue not in known]
        return dg.SensorResult(
            run_requests=tick.requests,
            skip_reason=None if tick.requests else dg.SkipReason(_told(tick)),
            cursor=json.dumps({"next": tick.following, "lag_told": told_at}),
            dynamic_partitions_requests=[partitions.queues.build_add_request(new)] if new else [],
            asset_events=events,
        )

    return sensor


def _remembered(cursor: str | None) -> dict[str, Any]:
    """The cursor, or the beginning when there is none or it is not ours."""
    try:
        held = json.loads(cursor or "{}")
        return {"next": str(held.get("next", "")), "lag_told": float(held.get("lag_told", 0))}
    except (ValueError, TypeError, AttributeError):
        return {"next": "", "lag_told": 0.0}


def _lag_events(
    instance: dg.DagsterInstance, lags: lag.Lags, told_at: float
) -> tuple[list[dg.AssetMaterialization], float]:
    """The asset `lag` as this tick saw it: now and then, and only when it changed."""
    now = time.time()
    if now - told_at < LAG_EVERY_SECONDS or not lags:
        return [], told_at
    before = lag.points(instance)
    found = {**(before[-1]["lags"] if before else {}), **lags}  # a tick that ran out of time saw a part
    if before and before[-1]["lags"] == found:
        return [], told_at
    return [dg.AssetMaterialization(lag.KEY, metadata=lag.metadata(found, before, now))], now


def _told(tick: Tick) -> str:
    """Why nothing is launched, for the tick's row in the UI."""
    if not tick.held:
        return f"{len(tick.lags)} queues looked at: no trigger is reached"
    more = len(tick.held) - _TOLD
    return "; ".join([*tick.held[:_TOLD], *([f"and {more} more"] if more > 0 else [])])


def schedule_nouns(every_seconds: int = EVERY_SECONDS) -> dg.SensorDefinition:
    """The sensor that ticks schedule nouns; with none of them it does nothing."""

    @dg.sensor(
        name="schedules",
        minimum_interval_seconds=every_seconds,
        default_status=dg.DefaultSensorStatus.RUNNING,
        job_name=jobs.WORKSPACE,
        description="Schedule nouns: windows that are due become tasks of their owners. It launches no run.",
    )
    def sensor(context: dg.SensorEvaluationContext, ticks: dg.ResourceParam[Client]) -> dg.SkipReason:
        ticked = schedules.tick(ticks, int(time.time()))
        told = [one.sentence() for one in ticked if one.enqueued or one.skipped]
        for line in told:
            context.log.info(line)
        return dg.SkipReason("; ".join(told) or f"{len(ticked)} schedules: no window is due")

    return sensor
