"""Dagster's UI on the workspace, as `make ui` opens it: web server and daemon over the history of past runs.

Starts the store when none answers, since a run begun in the browser needs it; what starts here ends here.
"""

import os
import sys
import time
import warnings

from rich.console import Console
from rich.markup import escape

from pipelines import attached, embedded, instance
from tessera.errors import SettingsError, TesseraError
from tessera.settings import Settings

PORT = 3000

console = Console(highlight=False, emoji=False)


def dagster() -> int:
    """Dagster's own command line, as the child's entry point; the store and the workers go first."""
    attached.step_back()
    # `dg dev` wants a project laid out its way; `dagster dev` reads workspace.yaml.
    warnings.filterwarnings("ignore", message="Function `dev_command` is superseded")
    from dagster._cli import main as dagster_main

    dagster_main()  # type: ignore[no-untyped-call] # it is a plain function without annotations
    return 0


def main() -> int:
    """Serve the UI until interrupted; 0 when it was, 1 when it could not start or ended by itself."""
    attached.end_on_signals()
    try:
        settings = Settings.from_environment()
        with embedded.store(settings) as settings:
            return serve(settings)
    except (TesseraError, OSError) as error:
        console.print(f"[bold]failed:[/bold] {escape(str(error))}", soft_wrap=True)
        return 1
    except attached.Stopped:
        console.print("stopped; nothing is left running")
        return 0


def serve(settings: Settings) -> int:
    """Run `dagster dev` on the workspace, beside the store at `settings.url`, on port 3000 or a free one."""
    home = instance.prepare(settings.dagster_home)
    port = embedded.free_port(_port(os.environ.get("PORT") or str(PORT)))
    environment = {
        "DAGSTER_HOME": str(home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "TESSERA_URL": settings.url,
    }
    console.print(f"starting Dagster beside the store at {settings.url} …")
    from pipelines import resources, turns  # they load Dagster

    with instance.instance(home) as history:
        turns.end_left_behind(history, resources.turns_of(settings))
    child = attached.start(
        "pipelines.ui:dagster",
        "dev",
        "-w",
        "workspace.yaml",
        "-h",
        embedded.LOOPBACK,
        "-p",
        str(port),
        "--log-level",
        "warning",
        env=environment,
    )
    with attached.stopping(child):
        while child.poll() is None and not embedded.listens(embedded.LOOPBACK, port):
            time.sleep(0.2)
        if child.poll() is None:
            console.print(f"open http://{embedded.LOOPBACK}:{port}; Ctrl-C ends it and what it started")
        attached.wait(child)
    console.print(f"Dagster ended by itself, with status {child.returncode}")
    return 1


def _port(value: str) -> int:
    if not (value.isascii() and value.isdigit() and len(value) <= 5 and int(value) < 65536):
        raise SettingsError(f"PORT must be a number from 0 to 65535, not {value!r}")
    return int(value)


if __name__ == "__main__":
    sys.exit(main())
