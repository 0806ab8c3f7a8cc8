"""The `tessera` command: the store, its keys, and what goes in and out of it in files.

Promises: human tables by default and `--json` for programs, both on stdout; errors on stderr, one clear line
each and no traceback for what can be expected; exit status 0 done, 1 failed, 2 wrong usage. Leaves out the
learners and the workspace, which have commands of their own.
"""

import sys

import typer

from tessera.cli import draws, exporting, importing, keys, mcp, serving, statistics
from tessera.cli.terminal import complain, one_line
from tessera.errors import TesseraError

app = typer.Typer(
    name="tessera",
    help="A store of claimed work and of how it went.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serving.serve)
app.add_typer(keys.app, name="keys")
app.add_typer(draws.app, name="draws")
app.command("import")(importing.import_file)
app.command("export")(exporting.export)
app.command("mcp")(mcp.mcp)
app.command("stats")(statistics.stats)


def main() -> None:
    """Run the command of `sys.argv`; expected errors end as one line on stderr and status 1."""
    try:
        app()
    except TesseraError as error:
        complain(one_line(error))
        sys.exit(1)
    except OSError as error:
        complain(f"{error.filename}: {error.strerror}" if error.filename else str(error))
        sys.exit(1)
