"""The server's coin: which arm a draw gives, computed from a secret so that anyone who holds it can check.

Promises that the same secret, task, number of submitted attempts and dimension give the same arm for the same
arms offered (contract, section 3, "Draws"). Pure; leaves out what is recorded and when: ``draws`` says that.
"""

import hashlib
import hmac
from collections.abc import Sequence
from typing import Any


def uniform(secret: bytes, task_id: str, submitted: int, dimension: str) -> float:
    """A number in [0, 1), of 53 bits: the first of HMAC-SHA-256 over the three, joined by NUL."""
    message = f"{task_id}\0{submitted}\0{dimension}".encode()
    digest = hmac.digest(secret, message, hashlib.sha256)
    return (int.from_bytes(digest[:8], "big") >> 11) / 2.0**53


def pick(arms: Sequence[dict[str, Any]], number: float) -> dict[str, Any]:
    """The first of ``{arm, weight}`` whose cumulative weight exceeds the number, else the last above 0."""
    total = 0.0
    for arm in arms:
        total += arm["weight"]
        if total > number:
            return arm
    return next(arm for arm in reversed(arms) if arm["weight"] > 0)
