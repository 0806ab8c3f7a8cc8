"""`tessera stats`: what the store holds for this key, what its database weighs, what its operations write.

Counts come over HTTP, as the key may see them. Sizes and rows are read from the database of the settings
(the file in the home, or TESSERA_DATABASE_URL), and only if it is the very store that answered.
`--write-cost` asks no store: it measures a scratch one.
"""

from typing import Annotated, Any

import typer

from tessera.cli.terminal import Json, Progress, say, say_json, say_table, shown, sized
from tessera.client import Client
from tessera.errors import TesseraError
from tessera.settings import Settings


def stats(
    write_cost: Annotated[
        bool,
        typer.Option(
            "--write-cost", help="Rows and index entries that each operation writes, and the promise."
        ),
    ] = False,
    as_json: Json = False,
) -> None:
    """Counts, sizes and rows; or the rows that operations write."""
    if write_cost:
        _say_costs(as_json)
        return
    with Client() as client:
        me = client.whoami()
        queues = _counts(client)
    weighed = _weighed(me["store_id"])
    if as_json:
        say_json({"url": client.url, "store_id": me["store_id"], "queues": queues, "database": weighed})
        return
    say(f"store {shown(me['store_id'])} at {client.url}, as {shown(me['name'])} ({shown(me['id'])})")
    say_table(("queue", "observations#"), [(each["queue"], each["observations"]) for each in queues])
    if weighed is None:
        say("Sizes and rows: only where the store's database is (TESSERA_HOME or TESSERA_DATABASE_URL).")
        return
    log = weighed["log_bytes"]
    also = "" if log is None else f", write-ahead log {sized(log)}"
    say(f"{weighed['path']}: {sized(weighed['bytes'])}{also}")
    say_table(("table", "rows#"), [(each["table"], each["rows"]) for each in weighed["tables"]])


def _counts(client: Client) -> list[dict[str, Any]]:
    """Readable observations of each queue, counted in steps of what one call counts."""
    counts = []
    with Progress("counting", None) as progress:
        for queue in client.queues()["queues"]:
            total, after = 0, "0"
            while True:
                step = client.pending(queue, after=after)
                total += step["count"]
                progress.at(total)
                if not step["capped"] or step["last"] == after:
                    break
                after = step["last"]
            counts.append({"queue": queue, "observations": total})
    return counts


def _weighed(store_id: str) -> dict[str, Any] | None:
    from tessera.store import contents, places

    settings = Settings.from_environment()
    file = places.sqlite_file(settings.home if settings.has_home else None, settings.database_url)
    if file is None and settings.database_url is None:
        return None
    found = contents.of_url(settings.database_url or "") if file is None else contents.of(file)
    if found is None or found.store_id != store_id:
        return None
    return {
        "path": found.place,
        "bytes": found.bytes,
        "log_bytes": found.log_bytes,
        "tables": [{"table": name, "rows": rows} for name, rows in found.rows.items()],
    }


def _say_costs(as_json: bool) -> None:
    try:
        from tessera.store import operation_costs
    except ModuleNotFoundError as error:
        raise TesseraError(
            f"what operations write is measured with the server extra ({error.name} is missing): "
            "pip install 'tessera[server]'"
        ) from None
    costs = operation_costs.measured()
    if as_json:
        say_json(
            {
                "write_cost": [
                    {"operation": c.operation, "entries": c.entries, "rows": c.tables, "promised": c.promised}
                    for c in costs
                ]
            }
        )
        return
    say("Entries of tables and indexes inserted, deleted or rewritten, on SQLite:")
    say_table(
        ("operation", "entries#", "of them rows#", "promised at most#"),
        [(c.operation, c.entries, c.tables, c.promised) for c in costs],
    )
