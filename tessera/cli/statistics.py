"""`tessera stats`: what the store holds for this key, and what its file weighs when it lies in the home.

Counts come over HTTP, as the key may see them. Sizes and rows are read from the database file of the home,
and only if it is the very store that answered.
"""

from typing import Any

from tessera.cli.terminal import Json, Progress, say, say_json, say_table, shown, sized
from tessera.client import Client
from tessera.settings import Settings


def stats(as_json: Json = False) -> None:
    """Counts, sizes and rows."""
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
        say("Sizes and rows: only for a store whose database lies in this home (TESSERA_HOME).")
        return
    say(f"{weighed['path']}: {sized(weighed['bytes'])}, write-ahead log {sized(weighed['log_bytes'])}")
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
    from tessera.store import contents

    database = Settings.from_environment().home / "tessera.db"
    found = contents.of(database)
    if found is None or found.store_id != store_id:
        return None
    return {
        "path": str(database),
        "bytes": found.bytes,
        "log_bytes": found.log_bytes,
        "tables": [{"table": name, "rows": rows} for name, rows in found.rows.items()],
    }
