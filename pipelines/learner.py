"""The `learner` command: the catalog, its pack, what is switched on, what would be published, runs by hand.

Promises what the `tessera` command promises: tables or `--json` on stdout, one line a fault on stderr, exit
status 0 done, 1 failed, 2 wrong usage. `specs`, `pack` and a preview from a file make no network call, and
nothing here loads Dagster.
"""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from learners.catalog import SPECS
from learners.contract import OptionsError
from learners.registry import UnknownLearner, names
from pipelines import review
from pipelines.recall import recall
from schemas.specs import MODES
from tessera.cli.terminal import Json, Progress, one_line, say, say_json, say_table, shown
from tessera.errors import Problem, TesseraError

app = typer.Typer(
    name="learner",
    help="Learners: what there is, what is switched on, and what a run would publish.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)

Spec = Annotated[str, typer.Argument(metavar="SPEC", help="learner:strategy:vN, as `learner specs` lists.")]
Options = Annotated[
    list[str] | None,
    typer.Option("--option", metavar="NAME=JSON", help="An option of the learner; repeatable."),
]


@app.command()
def specs(as_json: Json = False) -> None:
    """List every spec: those that run, those that are proposed, and those of other packages."""
    others = [name for name in names() if name not in SPECS]
    if as_json:
        say_json({"specs": [{"key": key, **spec} for key, spec in SPECS.items()], "others": others})
        return
    rows = [
        (key, spec["status"], ", ".join(spec["reads"]), _written(spec), _trigger(spec["trigger"]))
        for key, spec in SPECS.items()
    ]
    say_table(
        ("spec", "status", "reads", "writes", "trigger"), [*rows, *((one, "installed") for one in others)]
    )


@app.command()
def pack(
    output: Annotated[
        Path, typer.Option("--output", help="The folder to write; made if need be.", file_okay=False)
    ],
    spec: Annotated[
        list[str] | None,
        typer.Option("--spec", metavar="SPEC", help="Of an installed package; repeatable."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Write specs, an empty config, run templates and digests into a folder; the same bytes each time."""
    from assets import pack as packs

    written = packs.write(output, spec or ())
    if as_json:
        say_json({"output": str(output), "files": written})
    else:
        say(f"{len(written)} files in {output}")
        say(f"`learner install {output}` writes its nouns into the store and activates nothing")


@app.command()
def install(
    folder: Annotated[
        Path, typer.Argument(metavar="DIR", help="What `learner pack` wrote.", file_okay=False)
    ],
    as_json: Json = False,
) -> None:
    """Write those nouns of a pack that differ from the store's, in one batch; safe to repeat."""
    from assets import pack as packs
    from assets import specs as installed
    from tessera.client import Client

    nouns = packs.read(folder)
    with Client() as client:
        records = installed.install(client, nouns)
    if as_json:
        say_json({"records": records, "unchanged": len(nouns) - len(records)})
    elif records:
        say_table(
            ("noun", "version#", "sha256"), [(one["key"], one["version"], one["sha256"]) for one in records]
        )
    else:
        say(f"all {len(nouns)} nouns were there already")


@app.command()
def configure(
    spec: Spec,
    queue: Annotated[str, typer.Option("--queue", help="The queue to learn from.")],
    kind: Annotated[str | None, typer.Option("--kind", help="Of this kind of work in it alone.")] = None,
    mode: Annotated[str, typer.Option("--mode", help="active, shadow or off.")] = "active",
    surface: Annotated[
        bool, typer.Option("--surface", help="Show what is learned to the readers of the queue.")
    ] = False,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Set one entry of the config noun: switch a spec on, to shadow or off for a queue or a kind in it."""
    from assets import specs as installed
    from tessera.client import Client

    if mode not in MODES:
        raise typer.BadParameter(f"{mode!r} is not one of {', '.join(MODES)}", param_hint="'--mode'")
    options = _options(option)
    with Client() as client:
        version, entry = installed.configure(
            client, spec, queue, kind=kind, mode=mode, surface=surface, options=options
        )
    if as_json:
        say_json({"version": version, "entry": entry})
    else:
        scope = queue if kind is None else f"{shown(kind)} in {queue}"
        seen = f"readers of {scope}" if "surface" in entry else "only the key that writes it, and admins"
        say(f"{spec} is {mode} on {scope} (config version {version}); what it learns is for {seen}")


@app.command()
def preview(
    spec: Spec,
    queue: Annotated[str | None, typer.Option("--queue", help="Read this queue from the store.")] = None,
    source: Annotated[
        Path | None,
        typer.Option(
            "--from", metavar="FILE", help="Read an export (.jsonl, .jsonl.gz) instead.", dir_okay=False
        ),
    ] = None,
    option: Options = None,
    as_json: Json = False,
) -> None:
    """Show what a run would publish, and publish nothing."""
    from assets import preview as previews

    if (queue is None) == (source is None):
        raise typer.BadParameter("give exactly one of --queue and --from", param_hint="'--queue' / '--from'")
    options = _options(option)
    with Progress(f"reading {queue or source}", None) as progress:
        if source is not None:
            work = previews.from_file(source, spec, options, progress.at)
        else:
            from tessera.client import Client

            with Client() as client:
                work = previews.from_queue(client, spec, str(queue), options, progress.at)
    nouns = work.outcome.nouns
    if as_json:
        say_json({"nouns": [noun.document() for noun in nouns]})
        return
    for noun in nouns:
        say(f"{noun.store}/{noun.key} ({noun.category})")
        _show(noun.body)


@app.command()
def enqueue(
    spec: Spec,
    queue: Annotated[str, typer.Option("--queue", help="The queue to learn from.")],
    as_json: Json = False,
) -> None:
    """Enqueue the runs of a spec that have something to do on a queue; a repeat adds none."""
    from assets import on_demand
    from tessera.client import Client

    with Client() as client:
        asked = [one.document() for one in on_demand.enqueue(client, spec, queue)]
    if as_json:
        say_json({"runs": asked})
        return
    for one in asked:
        if one["task_id"] is None:
            say(f"{one['state']['key']}: nothing is new since version {one['state']['version']}")
        else:
            say(f"{one['state']['key']}: {one['reason']}; run {one['task_id']} is {one['task_state']}")
    if any(one["task_state"] == "queued" for one in asked):
        say("`learner run-one` does one of them; so does the next `workspace run`")


@app.command("run-one")
def run_one(as_json: Json = False) -> None:
    """Claim one waiting run of the caller's and do it: read the store, check, publish, submit."""
    from assets import on_demand
    from tessera.client import Client

    with Client() as client, Progress("reading", None) as progress:
        ended = on_demand.run_one(client, progress.at)
    if as_json:
        say_json({"run": None if ended is None else ended.document()})
    elif ended is None:
        say("no run is waiting for this key")
    else:
        say(f"{ended.prepared.name} on {ended.prepared.run.scope.queue}: {ended.status}")
        for one in ended.records:
            say(f"  {one['store']}/{one['key']} version {one['version']}")


app.command()(recall)
app.add_typer(review.app, name="review")


@app.command()
def mcp() -> None:
    """Serve `recall_similar`, `choose` and `lessons` to a model over stdio, by the MCP protocol."""
    from pipelines.advice_mcp import run

    run()


def _show(body: Any) -> None:
    """A scorecard's groups as a table; of other nouns, their fields in brief."""
    if "groups" not in body:
        say_table(("field", "value"), [(name, str(value)[:120]) for name, value in body.items()])
        return
    figures = ("attempts#", "accepted#", "rate", "95% interval")
    rows = [
        (
            *("none" if value == "" else value for value in group["dimensions"].values()),
            group["attempts"],
            group["accepted"],
            _figure(group["acceptance_rate"]),
            f"{_figure(group['wilson_low'])} – {_figure(group['wilson_high'])}",
        )
        for group in body["groups"]
    ]
    say_table((*body["dimensions"], *figures), rows)


def _figure(value: float | None) -> str:
    return "–" if value is None else f"{value:.3f}"


def _options(given: list[str] | None) -> dict[str, Any]:
    """The options of the command line: each value is JSON, which passes the strict door."""
    from tessera.json_door import loads

    options: dict[str, Any] = {}
    for text in given or []:
        name, equals, value = text.partition("=")
        if not equals or not name:
            raise typer.BadParameter(f"{text!r} is not NAME=JSON", param_hint="'--option'")
        if name in options:
            raise typer.BadParameter(f"{name} is given twice", param_hint="'--option'")
        try:
            options[name] = loads(value.encode("utf-8", "surrogateescape"), root=name)
        except Problem as problem:
            found = "; ".join(f"{fault.path}: {fault.message}" for fault in problem.errors)
            raise typer.BadParameter(found or one_line(problem), param_hint="'--option'") from None
    return options


def _written(spec: dict[str, Any]) -> str:
    return ", ".join(f"{one['schema']} in {one['store']}" for one in spec["writes"])


def _trigger(trigger: dict[str, Any]) -> str:
    if "new_observations" in trigger:
        return f"{trigger['new_observations']} new observations"
    return "on demand" if "on_demand" in trigger else f"schedule {trigger['schedule']}"


def _complain(error: TesseraError) -> None:
    typer.echo(f"learner: {one_line(error)}", err=True)


def main() -> None:
    """Run the command of `sys.argv`; expected errors end as one line on stderr."""
    try:
        app()
    except (OptionsError, UnknownLearner) as error:
        _complain(error)
        sys.exit(2)
    except TesseraError as error:
        _complain(error)
        sys.exit(1)
    except OSError as error:
        typer.echo(f"learner: {error.filename or ''}: {error.strerror or error}", err=True)
        sys.exit(1)


if __name__ == "__main__":
    main()
