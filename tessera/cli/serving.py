"""`tessera serve`: the store on this machine. The server's packages are loaded only here."""

from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from tessera.errors import TesseraError
from tessera.settings import Settings


class Level(StrEnum):
    """What a log tells, and everything graver."""

    DEBUG = "debug"
    INFO = "info"
    WARNING = "warning"
    ERROR = "error"


LogLevel = Annotated[Level, typer.Option(help="What the log on stderr tells.")]


@contextmanager
def server_extra() -> Iterator[None]:
    """Says what to install when the server's packages are not there."""
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "tessera":
            raise
        raise TesseraError(
            f"this needs the server extra ({error.name} is missing): pip install 'tessera[server]'"
        ) from None


def serve(
    home: Annotated[
        Path | None, typer.Option(help="Folder of the database and the admin key (default: TESSERA_HOME).")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8765,
    drain: Annotated[
        float,
        typer.Option(
            min=0,
            max=60,
            metavar="SECONDS",
            help="When told to end, how long to answer what still comes in on open connections: for one of "
            "several servers behind one address.",
        ),
    ] = 0,
    log_level: LogLevel = Level.INFO,
) -> None:
    """Run the store until it is interrupted. The first start writes an admin key into the home."""
    with server_extra():
        from tessera.server.serve import run
    settings = Settings.from_environment()
    folder = settings.home if home is None else home.absolute()
    run(
        folder,
        host,
        port,
        settings.database_url,
        hosts=settings.hosts,
        drain_seconds=drain,
        log_level=log_level.value,
    )
