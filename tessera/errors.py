"""Everything that can go wrong, as one tree; an error says what, the value, and what to do.

    TesseraError
    ├── Problem                what the store answers, as RFC 9457 problem details
    │   ├── Malformed     400  not a request at all: broken JSON, a bad header
    │   ├── Unauthorized  401  no usable key
    │   ├── Forbidden     403  the key is not granted what the request names
    │   ├── NotFound      404  absent, or not to be seen: the two look the same
    │   ├── Conflict      409  the state moved: another version, fence or body
    │   ├── TooLarge      413  more bytes than the door takes
    │   ├── Misdirected   421  a Host that this server does not answer for
    │   ├── Invalid       422  well-formed, but a value is wrong: ``errors`` says where
    │   └── Unavailable   503  try again later
    ├── ConnectionFault        the store could not be reached
    └── SettingsError          the environment says something that cannot be used

The server raises problems and the client raises the same ones back, so a worker catches what the store meant.
No message of this tree ever carries a secret: callers pass names and ids, never keys.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from http import HTTPStatus
from typing import Any, ClassVar


@dataclass(frozen=True, slots=True)
class Fault:
    """One thing wrong with one value: a dotted path from the body's root, and a message."""

    path: str
    message: str


def listed(faults: Iterable[Fault]) -> str:
    """Faults in one line, each as its path and what is wrong there."""
    return "; ".join(f"{fault.path} {fault.message}".strip() for fault in faults)


class TesseraError(Exception):
    """The root of the tree."""


class Problem(TesseraError):  # noqa: N818 - RFC 9457 calls it a problem
    """An answer other than success, as RFC 9457 problem details.

    ``extra`` holds extension members of the document. A status without a class of its own is a plain Problem.
    """

    default_status: ClassVar[int] = 500

    def __init__(
        self,
        detail: str = "",
        *,
        errors: Iterable[Fault] = (),
        status: int | None = None,
        title: str | None = None,
        extra: Mapping[str, Any] | None = None,
    ) -> None:
        self.status = self.default_status if status is None else status
        self.title = title or _phrase(self.status)
        self.detail = detail
        self.errors = tuple(errors)
        self.extra: dict[str, Any] = dict(extra or {})
        super().__init__(self._sentence())

    def _sentence(self) -> str:
        lines = [f"{self.status} {self.title}" + (f": {self.detail}" if self.detail else "")]
        lines += [f"  {fault.path}: {fault.message}" for fault in self.errors]
        return "\n".join(lines)

    def document(self) -> dict[str, Any]:
        """The body of ``application/problem+json``; extension members never replace the standard ones."""
        document: dict[str, Any] = {
            **self.extra,
            "type": "about:blank",
            "title": self.title,
            "status": self.status,
            "detail": self.detail,
        }
        if self.errors:
            document["errors"] = [{"path": fault.path, "message": fault.message} for fault in self.errors]
        return document


class Malformed(Problem):
    """400: not a request at all."""

    default_status = 400


class Unauthorized(Problem):
    """401: no usable key."""

    default_status = 401


class Forbidden(Problem):
    """403: the key is not granted what the request names."""

    default_status = 403


class NotFound(Problem):
    """404: absent, or not to be seen."""

    default_status = 404


class Conflict(Problem):
    """409: the state moved. A refused CAS batch lists each conflict with its index and current version."""

    default_status = 409

    @property
    def conflicts(self) -> list[dict[str, Any]]:
        """The conflicts of a refused CAS batch, empty for any other conflict."""
        found = self.extra.get("conflicts")
        return list(found) if isinstance(found, list) else []


class TooLarge(Problem):
    """413: more bytes than the door takes."""

    default_status = 413


class Misdirected(Problem):
    """421: a Host that this server does not answer for."""

    default_status = 421


class Invalid(Problem):
    """422: well-formed, but a value is wrong; ``errors`` says where."""

    default_status = 422


class Unavailable(Problem):
    """503: try again later."""

    default_status = 503


class ConnectionFault(TesseraError):  # noqa: N818 - ConnectionError is a builtin
    """The store could not be reached: names the URL, the cause and what to do."""

    def __init__(self, url: str, reason: str) -> None:
        self.url = url
        self.reason = reason
        super().__init__(
            f"cannot reach the store at {url}: {reason}. "
            "Start it with `tessera serve`, or set TESSERA_URL to where it runs."
        )


class SettingsError(TesseraError):
    """A setting cannot be used: names the setting, its value and what to do."""


_BY_STATUS: dict[int, type[Problem]] = {
    kind.default_status: kind
    for kind in (
        Malformed,
        Unauthorized,
        Forbidden,
        NotFound,
        Conflict,
        TooLarge,
        Misdirected,
        Invalid,
        Unavailable,
    )
}

_STANDARD = frozenset({"type", "title", "status", "detail", "errors"})


def from_document(status: int, document: object) -> Problem:
    """The problem that an answer's status and parsed body spell; total, whatever stands there.

    A body that is no problem document (a proxy's page, null, a list) gives a problem without detail.
    """
    body: Mapping[str, Any] = document if isinstance(document, Mapping) else {}
    detail, title, listed = body.get("detail"), body.get("title"), body.get("errors")
    faults = [
        Fault(str(entry.get("path", "")), str(entry.get("message", "")))
        for entry in (listed if isinstance(listed, list) else [])
        if isinstance(entry, Mapping)
    ]
    return _BY_STATUS.get(status, Problem)(
        detail if isinstance(detail, str) else "",
        errors=faults,
        status=status,
        title=title if isinstance(title, str) else None,
        extra={name: value for name, value in body.items() if name not in _STANDARD},
    )


def _phrase(status: int) -> str:
    try:
        return HTTPStatus(status).phrase
    except ValueError:
        return "Problem"
