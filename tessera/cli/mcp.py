"""`tessera mcp`: the store's tools for a model, over stdio. The SDK is loaded only here."""

from tessera.cli.serving import Level, LogLevel, server_extra
from tessera.client import AsyncClient
from tessera.settings import Settings


def mcp(log_level: LogLevel = Level.WARNING) -> None:
    """Serve MCP on stdin and stdout, for the store of TESSERA_URL, with the key of TESSERA_KEY."""
    with server_extra():
        from tessera.server import logs, mcp_stdio
    settings = Settings.from_environment()
    client = AsyncClient(settings.url, settings.require_key())
    logs.configure(log_level.value)
    mcp_stdio.run(client)
