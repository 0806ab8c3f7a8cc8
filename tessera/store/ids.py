"""Ids that lead straight to their row: ``<noun>-<number>-<token>``.

The number is the primary key, so no second index is written or read; the random token keeps an id from
being guessed. To everyone outside an id is opaque.
"""

import secrets

_MAX_NUMBER = 2**63 - 1


def token() -> str:
    """64 random bits, as 16 hex digits."""
    return secrets.token_hex(8)


def make(noun: str, number: int, token_: str) -> str:
    """The id of a row."""
    return f"{noun}-{number}-{token_}"


def parse(noun: str, id_: str) -> tuple[int, str] | None:
    """The number and token that an id is made of; None when it is no id of this noun."""
    parts = id_.split("-")
    if len(parts) != 3 or parts[0] != noun or not (parts[1].isascii() and parts[1].isdecimal()):
        return None
    if len(parts[1]) > 19 or int(parts[1]) > _MAX_NUMBER or parts[1] != str(int(parts[1])):
        return None
    return int(parts[1]), parts[2]
