"""Answers as bytes: JSON for what went well, problem details (RFC 9457) for what did not."""

from dataclasses import dataclass
from typing import Any

from tessera.errors import Problem
from tessera.store.compact import compact

Headers = tuple[tuple[bytes, bytes], ...]

_JSON: Headers = ((b"content-type", b"application/json"),)
_PROBLEM: Headers = ((b"content-type", b"application/problem+json"),)


@dataclass(frozen=True, slots=True)
class Answer:
    """A status, a body and headers; ``close`` ends the connection after it."""

    status: int
    body: bytes = b""
    headers: Headers = _JSON
    close: bool = False


NOTHING = Answer(204, b"", ())


def of(value: Any, status: int = 200) -> Answer:
    """An answer with a JSON body."""
    return Answer(status, compact(value))


def of_bytes(body: bytes, status: int = 200) -> Answer:
    """An answer whose body is JSON already."""
    return Answer(status, body)


def of_problem(problem: Problem, *headers: tuple[bytes, bytes], close: bool = False) -> Answer:
    """A problem document, with the headers that its status asks for."""
    more = list(headers)
    if problem.status == 401:
        more.append((b"www-authenticate", b"Bearer"))
    if problem.status == 405:
        more.append((b"allow", str(problem.extra["allow"]).encode()))
    retry_after = problem.extra.get("retry_after")
    if problem.status == 503:
        more.append((b"retry-after", str(retry_after or 1).encode()))
    return Answer(problem.status, compact(problem.document()), (*_PROBLEM, *more), close)
