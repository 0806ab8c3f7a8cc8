"""What the store should do with records, in memory: versions, batches, visibility, lists, repeats."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Version:
    """One version; ``surface`` is the queue of a surface, empty otherwise."""

    key: str
    number: int
    writer: str
    visibility: str
    surface: str
    tags: tuple[str, ...]
    category: str
    body: Any


@dataclass(frozen=True)
class Reader:
    """A key as far as records go."""

    name: str
    queues: tuple[str, ...] = ("*",)

    def sees(self, version: Version) -> bool:
        """Whether the key may read this version."""
        if self.name in (version.writer, "admin") or version.visibility == "shared":
            return True
        granted = "*" in self.queues or version.surface in self.queues
        return version.visibility == "surface_only" and granted


@dataclass
class Records:
    """The records of one store of the contract, by key."""

    chains: dict[str, list[Version]] = field(default_factory=dict)
    answered: dict[tuple[str, str], tuple[Any, list[tuple[str, int]]]] = field(default_factory=dict)

    def newest(self, key: str) -> int:
        """The newest version's number, 0 when the key is free."""
        return len(self.chains.get(key, []))

    def write(
        self, writer: str, writes: list[tuple[int, Version]], name: str | None
    ) -> tuple[int, list[tuple[str, int]]]:
        """The status, and the keys and versions written, or the index and current version of each conflict.

        Each write comes with the version it expects; ``Version.number`` is filled in here.
        """
        if len({version.key for _, version in writes}) < len(writes):
            return 422, []
        if name is not None and (writer, name) in self.answered:
            first, answer = self.answered[writer, name]
            return (201, answer) if first == writes else (409, [])
        conflicts = [
            (str(index), self.newest(version.key))
            for index, (expected, version) in enumerate(writes)
            if expected != self.newest(version.key) or not self._may_follow(writer, version.key)
        ]
        if conflicts:
            return 409, conflicts
        written = []
        for expected, version in writes:
            self.chains.setdefault(version.key, []).append(
                Version(**{**version.__dict__, "number": expected + 1})
            )
            written.append((version.key, expected + 1))
        if name is not None:
            self.answered[writer, name] = (writes, written)
        return 201, written

    def read(self, reader: Reader, key: str, number: int | None) -> Version | None:
        """The version, the newest when unnamed; None when it is not there or may not be seen."""
        chain = self.chains.get(key, [])
        at = len(chain) if number is None else number
        if not 1 <= at <= len(chain) or not reader.sees(chain[at - 1]):
            return None
        return chain[at - 1]

    def listed(self, reader: Reader, prefix: str, tag: str | None, category: str | None) -> list[Version]:
        """The newest versions that the key may read, by key."""
        return [
            chain[-1]
            for key, chain in sorted(self.chains.items())
            if key.startswith(prefix)
            and reader.sees(chain[-1])
            and (tag is None or tag in chain[-1].tags)
            and (category is None or category == chain[-1].category)
        ]

    def _may_follow(self, writer: str, key: str) -> bool:
        chain = self.chains.get(key)
        return not chain or chain[-1].visibility != "private" or writer in (chain[-1].writer, "admin")
