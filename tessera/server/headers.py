"""What the door reads from raw request headers: the host, the key, and whether and how large a body is."""

import re
from collections.abc import Sequence

from tessera.errors import Unauthorized
from tessera.store.keys import REFUSED

RawHeaders = Sequence[tuple[bytes, bytes]]
"""Names in lowercase, as ASGI gives them."""

_BEARER = re.compile(r"(?i:bearer) +([\x21-\x7e]+)")


def secret(headers: RawHeaders) -> str:
    """The bearer secret; Unauthorized unless there is exactly one."""
    given = [value for name, value in headers if name == b"authorization"]
    found = _BEARER.fullmatch(given[0].decode("latin-1")) if len(given) == 1 else None
    if found is None:
        raise Unauthorized(REFUSED)
    return found[1]


def host(headers: RawHeaders) -> bytes:
    """The Host, in lowercase and without its port; empty unless there is exactly one."""
    named = [value for name, value in headers if name == b"host"]
    return without_port(named[0].lower()) if len(named) == 1 else b""


def without_port(value: bytes) -> bytes:
    """The host of ``host:port``; empty for what is none."""
    name, separator, port = value.rpartition(b":")
    if separator and not value.endswith(b"]"):
        return name if port.isdigit() or not port else b""
    return value


def has_body(headers: RawHeaders) -> bool:
    """Whether a body follows."""
    return any(
        name == b"transfer-encoding" or (name == b"content-length" and value != b"0")
        for name, value in headers
    )


def declared_size(headers: RawHeaders) -> int | None:
    """The body's bytes as announced; None when they are not."""
    for name, value in headers:
        if name == b"content-length" and value.isdigit():
            return int(value) if len(value) < 20 else 2**63
    return None
