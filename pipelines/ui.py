"""Dagster's UI on the workspace, as `make ui` opens it: web server and daemon over the history of past runs.

Starts the store when none answers, since a run begun in the browser needs it; what starts here ends here.
"""

import os
import sys

from rich.console import Console

from pipelines import attached, embedded
from tessera.errors import TesseraError
from tessera.settings import Settings

PORT = 3000

console = Console(highlight=False)


def dagster() -> int:
    """Dagster's own command line, as the child's entry point."""
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
    except TesseraError as error:
        console.print(f"[bold]failed:[/bold] {error}", soft_wrap=True)
        return 1
    except attached.Stopped:
        console.print("stopped; nothing is left running")
        return 0


def serve(settings: Settings) -> int:
    """Run `dagster dev` on the workspace, beside the store at `settings.url`, on port 3000 or a free one."""
    settings.dagster_home.mkdir(parents=True, exist_ok=True)
    port = embedded.free_port(int(os.environ.get("PORT", PORT)))
    environment = {
        "DAGSTER_HOME": str(settings.dagster_home),
        "DAGSTER_DISABLE_TELEMETRY": "yes",
        "TESSERA_URL": settings.url,
    }
    child = attached.start(
        "pipelines.ui:dagster",
        "dev",
        "-w",
        "workspace.yaml",
        "-h",
        embedded.LOOPBACK,
        "-p",
        str(port),
        env=environment,
    )
    with attached.stopping(child):
        console.print(
            f"Dagster: http://{embedded.LOOPBACK}:{port}   store: {settings.url}   Ctrl-C ends both"
        )
        child.wait()
    console.print(f"Dagster ended by itself, with status {child.returncode}")
    return 1


if __name__ == "__main__":
    sys.exit(main())
