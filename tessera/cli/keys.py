"""`tessera keys`: API keys, made, listed and revoked over HTTP by an admin."""

from typing import Annotated, Any

import typer

from tessera.cli.terminal import Json, say, say_json, say_table, shown
from tessera.client import Client

app = typer.Typer(help="API keys: create, list, revoke.", no_args_is_help=True)


@app.command()
def create(
    name: Annotated[str, typer.Argument(metavar="NAME", help="What the key is for.")],
    scope: Annotated[
        list[str], typer.Option(help="read, work, write or admin; several by repeating or by commas.")
    ],
    queue: Annotated[list[str], typer.Option(help="A queue, or a prefix ending in *; may be repeated.")],
    kind: Annotated[list[str] | None, typer.Option(help="Only these kinds; may be repeated.")] = None,
    store: Annotated[list[str] | None, typer.Option(help="Only these stores; may be repeated.")] = None,
    expires: Annotated[str | None, typer.Option(help="RFC 3339 time after which the key is refused.")] = None,
    as_json: Json = False,
) -> None:
    """Make a key. Its secret is printed now and cannot be shown again."""
    scopes = [part for given in scope for part in given.split(",")]
    with Client() as client:
        made = client.create_key(name, scopes, queue, kinds=kind, stores=store, expires_at=expires)
    if as_json:
        say_json({"id": made["id"], "secret": made["secret"]})
        return
    say(f"key     {shown(made['id'])}")
    say(f"secret  {shown(made['secret'])}")
    say("The secret is not shown again. A worker takes it from TESSERA_KEY.")


@app.command("list")
def list_(as_json: Json = False) -> None:
    """All keys, without their secrets."""
    found: list[dict[str, Any]] = []
    after: str | None = None
    with Client() as client:
        while True:
            page = client.list_keys(after=after)
            found += page["items"]
            if not page["has_more"] or page["next_after"] == after:
                break
            after = page["next_after"]
    if as_json:
        say_json({"keys": found})
        return
    fields = ("id", "name", "scopes", "queues", "kinds", "stores", "expires_at", "revoked_at")
    say_table(
        ("id", "name", "scopes", "queues", "kinds", "stores", "expires", "revoked"),
        [[key.get(field) for field in fields] for key in found],
    )


@app.command()
def revoke(
    key_id: Annotated[str, typer.Argument(metavar="ID", help="The key's id, as `keys list` shows it.")],
    as_json: Json = False,
) -> None:
    """End a key: it is refused from now on."""
    with Client() as client:
        client.revoke_key(key_id)
    if as_json:
        say_json({"revoked": key_id})
    else:
        say(f"revoked {shown(key_id)}")
