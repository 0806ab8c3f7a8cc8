"""Whose view of which store a lake holds, and the refusals that keep two views from being mixed.

Promises that every refusal says what was found, what was expected and what to do. Leaves out asking the
store: a view is made from what `whoami` answered.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tessera import canonical
from tessera.errors import TesseraError


class LakeError(TesseraError):
    """The lake cannot be read or written; the lake is as it was."""


class LakeConflictError(LakeError):
    """Another writer of the same queue committed first; nothing of this one was kept, nothing is lost."""


class AnotherStoreError(LakeError):
    """The lake was filled from another store than the one at hand."""


class AnotherViewError(LakeError):
    """The lake holds what another key, or the key under other grants, could read."""


class AnotherSchemaError(LakeError):
    """The lake was written by another version of this software."""


@dataclass(frozen=True, slots=True)
class View:
    """What decides which runs of a queue may be read: the store, the key, and its grants there."""

    store_id: str
    key_id: str
    scopes: tuple[str, ...]
    kinds: tuple[str, ...] | None
    stores: tuple[str, ...] | None

    @classmethod
    def of(cls, whoami: Mapping[str, Any]) -> "View":
        """The view of the key that `GET /v1/whoami` answered for; only scopes that decide reading count."""
        return cls(
            store_id=whoami["store_id"],
            key_id=whoami["id"],
            scopes=tuple(sorted(set(whoami["scopes"]) & {"read", "admin"})),
            kinds=_sorted(whoami.get("kinds")),
            stores=_sorted(whoami.get("stores")),
        )

    @property
    def fingerprint(self) -> int:
        """60 bits of the digest of the view: small enough for a table's application transaction."""
        return int(canonical.digest(self.document())[:15], 16)

    def document(self) -> dict[str, Any]:
        """The view as a JSON object."""
        return {
            "store_id": self.store_id,
            "key_id": self.key_id,
            "scopes": list(self.scopes),
            "kinds": None if self.kinds is None else list(self.kinds),
            "stores": None if self.stores is None else list(self.stores),
        }

    def __str__(self) -> str:
        kinds = "all kinds" if self.kinds is None else f"kinds {', '.join(self.kinds)}"
        stores = "all stores" if self.stores is None else f"stores {', '.join(self.stores)}"
        return f"key {self.key_id} ({' and '.join(self.scopes) or 'no read scope'}; {kinds}; {stores})"


def _sorted(names: Any) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(names))
