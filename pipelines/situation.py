"""What `workspace status` shows: where the lake is, what waits in the store, what was last made or failed.

Promises to read and never to write, and to show what it can when the store does not answer.
"""

from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from assets.lake import Lake
from assets.views import View
from tessera.client import Client
from tessera.errors import TesseraError
from tessera.settings import Settings


def read(settings: Settings, chosen: list[str] | None) -> dict[str, Any]:
    """The situation as a JSON object; `error` is null when the store answers and the lake is its."""
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
    }
    names = set(lake.queues())
    client, view = None, None
    try:
        client = Client(settings.url, settings.require_key())
        view = View.of(client.whoami())
        found["store"]["store_id"] = view.store_id
        lake.check_store(view.store_id)
        names |= {name for name in client.queues()["queues"] if not name.startswith("learn.")}
    except TesseraError as error:
        found["error"] = str(error)
    asked = list(dict.fromkeys(chosen)) if chosen else sorted(names)
    usable = client if found["error"] is None else None
    found["queues"] = [_queue(lake, usable, view, name) for name in asked]
    _add_history(settings, found["queues"])
    if client is not None:
        client.close()
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


def _add_history(settings: Settings, entries: list[dict[str, Any]]) -> None:
    """Last materializations and failures, where there is a history at all."""
    for entry in entries:
        entry["materialized"], entry["failure"] = {}, None
    if not (settings.dagster_home / "dagster.yaml").exists() or not entries:
        return
    from pipelines import history, instance
    from pipelines.definitions import defs

    assets = [key.to_user_string() for key in defs.resolve_asset_graph().get_all_asset_keys()]
    with instance.instance(settings.dagster_home) as dagster:
        for entry in entries:
            entry["materialized"] = history.last_materializations(dagster, sorted(assets), entry["queue"])
            entry["failure"] = history.last_failure(dagster, entry["queue"])


def show(found: dict[str, Any], out: Console) -> None:
    """The situation on one screen."""
    store, lake = found["store"], found["lake"]
    out.print(f"store {store['url']}  {store['store_id'] or 'does not answer'}", soft_wrap=True)
    out.print(f"lake  {lake['location']}  {_version(lake)}", soft_wrap=True)
    if not found["queues"]:
        out.print("no queue has runs yet: `workspace run` pulls and learns once there are some")
        return
    rows = Table(box=None, pad_edge=False, header_style="bold")
    for column in ("queue", "rows", "cursor", "lag", "quarantine", "last made"):
        rows.add_column(
            column, justify="right" if column in ("rows", "cursor", "lag", "quarantine") else "left"
        )
    for entry in found["queues"]:
        rows.add_row(
            escape(entry["queue"]),
            str(entry["rows"]),
            entry["cursor"],
            _lag(entry),
            str(entry["quarantined"]),
            _made(entry["materialized"]),
        )
    out.print(rows)
    for entry in found["queues"]:
        for trouble in (entry["problem"], (entry["failure"] or {}).get("error")):
            if trouble is not None:
                out.print(
                    f"[bold red]![/bold red] {escape(entry['queue'])}: {escape(trouble)}", soft_wrap=True
                )
                break


def _version(lake: dict[str, Any]) -> str:
    return "empty" if lake["version"] is None else f"of {lake['store_id']}, version {lake['version']}"


def _lag(entry: dict[str, Any]) -> str:
    if entry["lag"] is None:
        return "?"
    return f"{entry['lag']}+" if entry["lag_capped"] else str(entry["lag"])


def _made(materialized: dict[str, Any]) -> str:
    made = [f"{asset} {made['at'][:19]}Z" for asset, made in materialized.items() if made is not None]
    return "\n".join(made) or "never"
