"""What a fleet asked of the store, and what came back: the books that an audit compares the store with."""

import threading
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any


@dataclass
class Deed:
    """One call that leaves something behind, found again by its token.

    ``answer`` is the acknowledgement's body, ``refusal`` the text of a 4xx; with neither the deed is in
    doubt: it may have happened or not, but not by half. ``broken`` counts sends that ended without an answer
    after the connection stood, so that the server may have acted on them.
    """

    kind: str
    token: str
    path: str
    body: dict[str, Any]
    answer: dict[str, Any] | None = None
    refusal: str = ""
    broken: int = 0

    @property
    def outcome(self) -> str:
        """``acknowledged``, ``refused`` or ``in doubt``."""
        if self.answer is not None:
            return "acknowledged"
        return "refused" if self.refusal else "in doubt"


@dataclass
class Ledger:
    """The deeds of one round, the items that a reader met, and answers that should not have come."""

    deeds: dict[str, Deed] = field(default_factory=dict)
    met: list[dict[str, Any]] = field(default_factory=list)
    unexpected: list[str] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def enter(self, deed: Deed) -> Deed:
        """Write a deed down before it is sent."""
        with self._lock:
            self.deeds[deed.token] = deed
        return deed

    def of(self, kind: str) -> Iterator[Deed]:
        """The deeds of one kind."""
        return (deed for deed in list(self.deeds.values()) if deed.kind == kind)


@dataclass
class Findings:
    """The counts that are printed, and a sentence for each thing wrong."""

    counts: Counter[str] = field(default_factory=Counter)
    lost: list[str] = field(default_factory=list)
    doubled: list[str] = field(default_factory=list)
    halved: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)

    @property
    def sentences(self) -> list[str]:
        """Everything wrong; empty when all is well."""
        return [
            *(f"lost: {text}" for text in self.lost),
            *(f"doubled: {text}" for text in self.doubled),
            *(f"half there: {text}" for text in self.halved),
            *(f"wrong: {text}" for text in self.wrong),
        ]

    def add(self, other: "Findings") -> None:
        """Take another round's findings in."""
        self.counts.update(other.counts)
        for name in ("lost", "doubled", "halved", "wrong"):
            getattr(self, name).extend(getattr(other, name))

    def summary(self) -> str:
        """One line of counts."""
        counts = {
            **self.counts,
            "lost": len(self.lost),
            "doubled": len(self.doubled),
            "half there": len(self.halved),
            "wrong": len(self.wrong),
        }
        return ", ".join(f"{name} {count}" for name, count in counts.items())
