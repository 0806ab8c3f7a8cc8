"""`tessera serve`: the store on this machine. The server's packages are loaded only here."""

from pathlib import Path
from typing import Annotated

import typer

from tessera.errors import TesseraError
from tessera.settings import Settings


def serve(
    home: Annotated[
        Path | None, typer.Option(help="Folder of the database and the admin key (default: TESSERA_HOME).")
    ] = None,
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="Port to listen on; 0 takes a free one.")
    ] = 8765,
) -> None:
    """Run the store until it is interrupted. The first start writes an admin key into the home."""
    try:
        from tessera.server.serve import run
    except ModuleNotFoundError as error:
        if (error.name or "").split(".")[0] == "tessera":
            raise
        raise TesseraError(
            f"the store needs the server extra ({error.name} is missing): pip install 'tessera[server]'"
        ) from None
    settings = Settings.from_environment()
    folder = settings.home if home is None else home.absolute()
    run(folder, host, port, settings.database_url)
