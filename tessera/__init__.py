"""The store's public contract: what a worker installs and sees. Knows nothing of analytics.

`tessera.Client` and `tessera.AsyncClient` are loaded when first asked for, so that a program that only wants
the pure functions (fingerprints, reports, canonical JSON) does not pay for an HTTP library.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tessera.client import AsyncClient as AsyncClient
    from tessera.client import Client as Client

__all__ = ["AsyncClient", "Client"]


def __getattr__(name: str) -> object:
    if name in __all__:
        from tessera import client

        return getattr(client, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
