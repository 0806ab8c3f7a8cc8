"""The `workspace` command: run, pull, status, rebuild, compact, doctor.

Promises one readable line a queue and one clear line a failure, the other queues going on; `--json` for
programs; status 0 done, 1 failed, 2 wrong usage. Leaves out the work itself. Dagster is imported only by what
runs or reads its history.
"""

import json
import logging
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

from tessera.cli.terminal import one_line
from tessera.client import Client
from tessera.errors import TesseraError
from tessera.settings import Settings

app = typer.Typer(
    name="workspace",
    help="Pull what the store has captured, learn from it, publish what was learned.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
INTERRUPTED = 130
"""The status that typer makes of Ctrl-C."""
# a key such as memory:minhash-lsh:v1:email:head holds what rich would print as a picture
out = Console(highlight=False, emoji=False)
err = Console(stderr=True, highlight=False, emoji=False)

Queues = Annotated[
    list[str] | None,
    typer.Option("--queue", "-q", help="A queue; may be given again. Default: all that the key may read."),
]
OneQueue = Annotated[str, typer.Option("--queue", "-q", help="The queue.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON for programs.")]


def main() -> None:
    """Run the command; an error that we know is one line, not a trace."""
    logging.getLogger("sqlalchemy.pool").setLevel(logging.CRITICAL)  # Ctrl-C meets it closing a connection
    try:
        app()
    except TesseraError as error:
        _failed(one_line(error))
        raise SystemExit(1) from None
    except OSError as error:
        where = "" if error.filename is None else f"{error.filename}: "
        _failed(f"{where}{error.strerror or error}")
        raise SystemExit(1) from None
    except SystemExit as ended:
        if ended.code == INTERRUPTED:
            _failed("stopped; what was committed stands, the next run goes on from there")
        raise


@app.command()
def run(queue: Queues = None, as_json: AsJson = False) -> None:
    """Run the whole job for each queue: pull, learn, check, publish. The history is in Dagster's UI."""
    _each(queue, as_json, "workspace")


@app.command()
def pull(queue: Queues = None, as_json: AsJson = False) -> None:
    """Bring the observations of each queue up to date, and nothing else."""
    _each(queue, as_json, "pull")


@app.command()
def status(queue: Queues = None, as_json: AsJson = False) -> None:
    """Show how far each queue's lake is, what is waiting in the store, and what was last made and failed."""
    from pipelines import situation

    found = situation.read(Settings.from_environment(), queue)
    if as_json:
        _print_json(found)
    else:
        situation.show(found, out)
    if found["error"] is not None:
        if as_json is False:
            _failed(found["error"])
        raise typer.Exit(1)


@app.command()
def rebuild(
    queue: OneQueue,
    allow_fewer: Annotated[
        bool, typer.Option("--allow-fewer", help="Accept fewer rows than the lake holds now.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Read a queue anew from the store, beside the old rows, and swap the new ones in by one commit."""
    from assets.lake import Lake
    from assets.rebuild import rebuild as read_anew
    from pipelines import history, instance

    _refuse_reserved([queue])
    settings = Settings.from_environment()
    with Client() as client, _progress(f"rebuild {queue}") as progress:
        done = read_anew(client, Lake(settings.lake), queue, allow_fewer=allow_fewer, progress=progress)
    with instance.instance(settings.dagster_home) as dagster:
        history.report(dagster, "observations", queue, {**done.document(), "rebuilt": True})
    if as_json:
        _print_json(done.document())
    else:
        out.print(
            f"{queue}: {done.rows} rows in place of {done.rows_before}, {done.quarantined} in quarantine, "
            f"cursor {done.cursor}"
        )


@app.command()
def compact(
    keep_hours: Annotated[
        float, typer.Option("--keep-hours", min=0, help="Keep the files of versions this young.")
    ] = 168,
    keep_runs: Annotated[
        float | None,
        typer.Option(
            "--keep-runs",
            min=0,
            metavar="DAYS",
            help="Also delete Dagster runs that ended longer ago; a queue's newest stay. Default: keep all.",
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Merge the lake's small files, and remove those that no version of the last hours needs."""
    from assets.lake import Lake
    from assets.upkeep import upkeep

    settings = Settings.from_environment()
    done = upkeep(Lake(settings.lake), keep_hours)
    deleted = None if keep_runs is None else _delete_runs(settings, keep_runs)
    if as_json:
        _print_json({"tables": [one.document() for one in done], "runs_deleted": deleted})
        return
    for one in done:
        out.print(
            f"{one.table}: {one.files_before} files are {one.files} now, {one.removed} old ones removed"
        )
    if not done:
        out.print("the lake is empty: nothing to do")
    if deleted is not None:
        out.print(f"{deleted} runs deleted from Dagster's history")


def _delete_runs(settings: Settings, keep_days: float) -> int:
    from pipelines import instance, old_runs

    with (
        instance.instance(settings.dagster_home) as dagster,
        _progress("Dagster's history", "runs deleted") as progress,
    ):
        return old_runs.remove(dagster, keep_days, progress)


@app.command()
def doctor(queue: Queues = None, as_json: AsJson = False) -> None:
    """Hold the lake, its cursors, the nouns and their pins against the store; change nothing."""
    from pipelines import doctor as doctors

    with Client() as client:
        looked = doctors.examine(Settings.from_environment(), client, queue)
    if as_json:
        found = [finding.document() for finding in looked.findings]
        _print_json({"ok": not found, "looked_at": looked.counts, "findings": found})
    else:
        counts = ", ".join(f"{number} {what}" for what, number in looked.counts.items())
        out.print(f"looked at {counts or 'an empty lake'}", soft_wrap=True)
        for finding in looked.findings:
            out.print(
                f"[bold red]![/bold red] {escape(finding.where)}: {escape(finding.problem)}", soft_wrap=True
            )
            out.print(f"  do: {escape(finding.remedy)}", soft_wrap=True)
        if not looked.findings:
            out.print("all is well")
    if looked.findings:
        raise typer.Exit(1)


def _each(chosen: list[str] | None, as_json: bool, job_name: str) -> None:
    """The job for each queue, one after the other in this process; a failed one stops no other."""
    settings = Settings.from_environment()
    with Client() as client:
        names = _queues(client, chosen)
        outcomes = run_all(settings, client, names, job_name, None if as_json else _tell)
    failed = [outcome for outcome in outcomes if outcome["error"] is not None]
    if as_json:
        _print_json({"ok": not failed, "queues": outcomes})
    elif not names:
        out.print("no queue has runs that this key may read: nothing to do")
    if failed:
        raise typer.Exit(1)


def run_all(
    settings: Settings,
    client: Client,
    names: list[str],
    job_name: str = "workspace",
    tell: Callable[[dict[str, Any]], None] | None = None,
) -> list[dict[str, Any]]:
    """Run a job for each queue, here or on the cluster; `tell` is given each outcome as a document."""
    if not names:
        return []
    if settings.dask is not None:
        return _dispatched(settings, settings.dask, names, job_name, tell)
    from assets.pull import watcher
    from pipelines import history, instance, resources, turns
    from pipelines.definitions import definitions

    waits = resources.turns_of(settings)
    lake = resources.lake_of(resources.lake_at(settings), waits, lambda said: err.print(escape(said)))
    job = definitions({"store": client, "lake": lake}).resolve_job_def(job_name)
    outcomes = []
    with instance.instance(settings.dagster_home) as dagster:
        turns.end_left_behind(dagster, waits)
        history.add_queues(dagster, names)
        for name in names:
            with _progress(name) as progress:
                token = watcher.set(progress)
                outcome = history.run(job, dagster, name)
                watcher.reset(token)
            outcomes.append(outcome.document())
            if tell is not None:
                tell(outcome.document())
    return outcomes


def _dispatched(
    settings: Settings,
    address: str,
    names: list[str],
    job_name: str,
    tell: Callable[[dict[str, Any]], None] | None,
) -> list[dict[str, Any]]:
    """A job for each queue, as many at once as the cluster has workers."""
    from pipelines import dispatch, history, instance, resources, turns

    done = 0
    with (
        instance.instance(settings.dagster_home) as dagster,
        _progress(f"{len(names)} queues on {address}", "queues done") as progress,
    ):
        turns.end_left_behind(dagster, resources.turns_of(settings))

        def ended(outcome: history.Outcome) -> None:
            nonlocal done
            done += 1
            if progress is not None:
                progress(done)
            if tell is not None:
                tell(outcome.document())

        return [one.document() for one in dispatch.run(address, job_name, dagster, names, ended)]


def _queues(client: Client, chosen: list[str] | None) -> list[str]:
    if chosen:
        _refuse_reserved(chosen)
        return list(dict.fromkeys(chosen))
    return [name for name in client.queues()["queues"] if not _reserved(name)]


def _reserved(queue: str) -> bool:
    return queue.startswith("learn.")


def _refuse_reserved(names: list[str]) -> None:
    for name in names:
        if _reserved(name):
            raise typer.BadParameter(
                f"{name!r} holds the learners' own runs: queues that begin with 'learn.' are no scopes"
            )


def _tell(outcome: dict[str, Any]) -> None:
    """One line a queue: what was pulled and what else was made; or what went wrong."""
    name, made = outcome["queue"], outcome["materialized"]
    parts = []
    pulled = made.get("observations")
    if pulled is not None:
        parts.append(f"{pulled['rows_added']} new runs ({pulled['rows']} in the lake, lag {pulled['lag']})")
        if pulled["quarantined"]:
            parts.append(f"{pulled['quarantined']} in quarantine")
        if not pulled["rows"] and not pulled["quarantined"]:
            parts.append("no run that this key may read is in the store under this name")
    learned = [asset for asset in made if asset not in ("observations", "fingerprints")]
    parts += [f"{asset} at {made[asset].get('record', 'the lake')}" for asset in learned]
    if outcome["job"] == "workspace" and outcome["error"] is None and not learned:
        parts.append("no learner is configured for it: observations and fingerprints only")
    if parts:
        out.print(f"{name}: {', '.join(parts)}", soft_wrap=True)
    if outcome["error"] is not None:
        _failed(f"{name}: {outcome['error']}")


def _failed(message: str) -> None:
    err.print(f"[bold red]failed[/bold red] {escape(message)}", soft_wrap=True)


def _print_json(value: Any) -> None:
    sys.stdout.write(json.dumps(value, ensure_ascii=False, indent=2) + "\n")


@contextmanager
def _progress(title: str, counted: str = "runs read") -> Iterator[Callable[[int], None] | None]:
    """A bar on a terminal for what takes over two seconds; nothing elsewhere."""
    if not err.is_terminal:
        yield None
        return
    columns = (
        SpinnerColumn(),
        TextColumn(f"{{task.description}}: {{task.completed}} {counted}"),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as bar:
        task = bar.add_task(title, total=None)
        yield lambda done: bar.update(task, completed=done)


if __name__ == "__main__":
    main()
