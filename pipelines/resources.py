"""What assets are given by key: the store's client and the lake, made from the settings when a run begins.

Promises that loading the definitions needs neither a store nor a key. Leaves out the settings themselves.
"""

from collections.abc import Mapping

import dagster as dg

from assets.lake import Lake
from tessera.client import Client
from tessera.settings import Settings


@dg.resource(description="The store at TESSERA_URL, by TESSERA_KEY or the home's admin key.")
def store(_: dg.InitResourceContext) -> Client:
    """A client by the settings."""
    return Client()


@dg.resource(description="The Delta tables under TESSERA_LAKE.")
def lake(_: dg.InitResourceContext) -> Lake:
    """The lake of the settings."""
    return Lake(Settings.from_environment().lake)


BY_SETTINGS: Mapping[str, dg.ResourceDefinition] = {"store": store, "lake": lake}
