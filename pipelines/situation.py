"""What `workspace status` shows on one screen: what is behind, what failed, and what to do.

Promises to read and never to write, and to show what it can when the store or Dagster's history does not
answer. Leaves out holding the lake against the store: that is `pipelines.doctor`.
"""

from contextlib import ExitStack
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from assets.lake import Lake
from assets.views import View
from tessera.client import Client
from tessera.errors import TesseraError
from tessera.settings import Settings

MOST_TOLD = 12


def read(settings: Settings, chosen: list[str] | None) -> dict[str, Any]:
    """The situation as a JSON object; `error` is null when store and history answer and the lake fits."""
    lake = Lake(settings.lake)
    found: dict[str, Any] = {
        "store": {"url": settings.url, "store_id": None},
        "lake": {
            "location": lake.location,
            "store_id": lake.store_id(),
            "version": lake.version("observations"),
        },
        "error": None,
        "queues": [],
        "schedules": [],
        "left_behind": [],
    }
    names = set(lake.queues())
    client, view = None, None
    with ExitStack() as opened:
        try:
            client = opened.enter_context(Client(settings.url, settings.require_key()))
            view = View.of(client.whoami())
            found["store"]["store_id"] = view.store_id
            lake.check_store(view.store_id)
            names |= {name for name in client.queues()["queues"] if not name.startswith("learn.")}
        except TesseraError as error:
            _tell(found, error)
        asked = list(dict.fromkeys(chosen)) if chosen else sorted(names)
        usable = client if found["error"] is None else None
        found["queues"] = [_queue(lake, usable, view, name) for name in asked]
        _add_history(settings, found)
        if usable is not None:
            _add_learning(usable, found)
    found["todo"] = todo(found)
    return found


def _queue(lake: Lake, client: Client | None, view: View | None, name: str) -> dict[str, Any]:
    cursor = lake.cursor(name)
    entry: dict[str, Any] = {
        "queue": name,
        "cursor": str(cursor),
        "rows": lake.count("observations", name),
        "quarantined": lake.count("quarantine", name),
        "lag": None,
        "lag_capped": False,
        "problem": None,
    }
    if client is None or view is None:
        return entry
    try:
        lake.check_view(name, view)
        waiting = client.pending(name, after=str(cursor))
        entry["lag"], entry["lag_capped"] = waiting["count"], waiting["capped"]
    except TesseraError as error:
        entry["problem"] = str(error)
    return entry


def _add_learning(client: Client, found: dict[str, Any]) -> None:
    """Where each config entry stands, and what the schedules' last ticks said."""
    from pipelines import due, schedules

    try:
        for entry in found["queues"]:
            entry["learners"] = [one.document() for one in due.of_queue(client, entry["queue"])]
        for noun in schedules.nouns(client):
            try:
                progress = schedules.progress(client, noun["key"])
            except schedules.ProgressError as error:
                _tell(found, error)
                continue
            body = {"done": None, "outstanding": [], "skips": []} if progress is None else progress["body"]
            skip = body["skips"][-1] if body["skips"] else None
            found["schedules"].append(
                {
                    "key": noun["key"],
                    "version": noun["version"],
                    "done": body["done"],
                    "outstanding": len(body["outstanding"]),
                    "last_skip": skip if skip and skip["version"] == noun["version"] else None,
                }
            )
    except TesseraError as error:
        _tell(found, error)


def _tell(found: dict[str, Any], error: TesseraError) -> None:
    found["error"] = "; ".join(filter(None, (found["error"], str(error))))


def todo(found: dict[str, Any]) -> list[str]:
    """What to do, a sentence each, the most urgent first; empty when all is done."""
    said = [
        f"run {run_id[:8]} was left behind by a killed process: `workspace run` ends it and goes on"
        for run_id in found["left_behind"]
    ]
    behind = []
    for entry in found["queues"]:
        name, again = entry["queue"], f"`workspace run --queue {entry['queue']}`"
        if entry["problem"] is not None:
            said.append(f"{name}: {entry['problem']}")
        elif entry["failure"] is not None:
            said.append(f"{name}: its last run failed: {entry['failure']['error']}; {again} tries again")
        for learner in entry["learners"]:
            if learner["problem"] is not None:
                said.append(f"{name}: {learner['spec']}: {learner['problem']}")
            elif learner["reason"] is not None:
                behind.append(f"{name}: {learner['spec']} is due ({learner['reason']}): {again}")
        if entry["lag"] and not any(learner["reason"] for learner in entry["learners"]):
            behind.append(f"{name}: {_lag(entry)} runs are not in the lake yet: {again}")
        if entry["quarantined"]:
            behind.append(
                f"{name}: {entry['quarantined']} items are in quarantine: the lake's table says why"
            )
    said += [
        f"schedule {schedule['key']}: {schedule['last_skip']['reason']}"
        for schedule in found["schedules"]
        if schedule["last_skip"] is not None
    ]
    return said + behind


def _add_history(settings: Settings, found: dict[str, Any]) -> None:
    """Last materializations, failures and runs left behind, where there is a history at all."""
    entries = found["queues"]
    for entry in entries:
        entry["materialized"], entry["failure"], entry["learners"] = {}, None, []
    if not (settings.dagster_home / "dagster.yaml").exists() or not entries:
        return
    from pipelines import history, instance, resources, turns
    from pipelines.definitions import defs

    assets = [
        key.to_user_string()
        for key in defs.resolve_asset_graph().get_all_asset_keys()
        if key.to_user_string() != "lag"
    ]
    try:
        with instance.instance(settings.dagster_home) as dagster:
            found["left_behind"] = turns.left_behind(dagster, resources.turns_of(settings))
            for entry in entries:
                entry["materialized"] = history.last_materializations(dagster, sorted(assets), entry["queue"])
                entry["failure"] = history.last_failure(dagster, entry["queue"])
    except instance.HistoryError as error:
        _tell(found, error)


def show(found: dict[str, Any], out: Console) -> None:
    """The situation on one screen."""
    store, lake = found["store"], found["lake"]
    out.print(f"store {store['url']}  {store['store_id'] or 'is not read'}", soft_wrap=True)
    out.print(f"lake  {escape(lake['location'])}  {_version(lake)}", soft_wrap=True)
    if not found["queues"]:
        out.print("no queue has runs yet: `workspace run` pulls and learns once there are some")
        return
    rows = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("queue", "rows", "cursor", "lag", "quarantine"):
        rows.add_column(column, justify="left" if column == "queue" else "right")
    rows.add_column("last made")
    learners = Table(
        "queue", "learner", "new runs of its trigger", box=None, pad_edge=False, header_style="bold"
    )
    for entry in found["queues"]:
        for learner in entry["learners"]:
            learners.add_row(escape(entry["queue"]), escape(learner["spec"]), _waiting(learner))
        rows.add_row(
            escape(entry["queue"]),
            str(entry["rows"]),
            entry["cursor"],
            _lag(entry),
            str(entry["quarantined"]),
            _made(entry["materialized"]),
        )
    out.print(rows)
    if learners.row_count:
        out.print()
        out.print(learners)
    elif found["error"] is None:
        out.print("no learner is configured")
    for schedule in found["schedules"]:
        done = schedule["done"] or "not ticked yet"
        out.print(f"schedule {escape(schedule['key'])}: up to {done}, {schedule['outstanding']} outstanding")
    for sentence in found["todo"][:MOST_TOLD]:
        out.print(f"[bold red]![/bold red] {escape(sentence)}", soft_wrap=True)
    if len(found["todo"]) > MOST_TOLD:
        out.print(f"and {len(found['todo']) - MOST_TOLD} more: `workspace status --json` has them all")
    if not found["todo"] and found["error"] is None:
        out.print("nothing to do")


def _waiting(entry: dict[str, Any]) -> str:
    """How far one config entry is from its next run."""
    shadow = " (shadow)" if entry["mode"] == "shadow" else ""
    if entry["problem"] is not None:
        return f"cannot run{shadow}"
    if entry["trigger"] is None:
        return f"{entry['reason'] or 'on demand'}{shadow}"
    return f"{entry['waiting']} of {entry['trigger']}{shadow}"


def _version(lake: dict[str, Any]) -> str:
    return "empty" if lake["version"] is None else f"of {lake['store_id']}, version {lake['version']}"


def _lag(entry: dict[str, Any]) -> str:
    if entry["lag"] is None:
        return "?"
    return f"{entry['lag']}+" if entry["lag_capped"] else str(entry["lag"])


def _made(materialized: dict[str, Any]) -> str:
    made = [made["at"] for made in materialized.values() if made is not None]
    return f"{len(made)} assets, {max(made)[:19]}Z" if made else "never"
