"""Query parameters: declared as the bodies are, refused with the parameter's name.

A parameter given twice, one that is not known and one that is no UTF-8 are refused too. Values are text,
so each kind of parameter says what it takes the text for.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from urllib.parse import parse_qsl

from tessera.errors import Fault
from tessera.server.bodies import KEY, KIND, NAME
from tessera.server.shapes import Json, Shape, Text
from tessera.store.draws import DIMENSIONS, START

MAX_CURSOR = 2**63 - 1
_DECIMAL = re.compile("0|[1-9][0-9]{0,18}")


class Parameter(Protocol):
    """What the text of a parameter must look like."""

    def read(self, text: str, name: str, faults: list[Fault]) -> Any:
        """The value; faults are added to the list."""

    def schema(self) -> Json:
        """The same as JSON Schema."""


class Shaped:
    """Text of a shape."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def read(self, text: str, name: str, faults: list[Fault]) -> Any:
        return self._shape.check(text, name, faults)

    def schema(self) -> Json:
        return self._shape.schema()


class Cursor:
    """A decimal integer under 2^63."""

    def read(self, text: str, name: str, faults: list[Fault]) -> Any:
        if _DECIMAL.fullmatch(text) and int(text) <= MAX_CURSOR:
            return int(text)
        faults.append(Fault(name, "must be a decimal integer under 2^63"))
        return 0

    def schema(self) -> Json:
        return {"type": "string", "pattern": "^(?:0|[1-9][0-9]{0,18})$"}


class Count:
    """A whole number within bounds."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def read(self, text: str, name: str, faults: list[Fault]) -> Any:
        if not _DECIMAL.fullmatch(text):
            faults.append(Fault(name, "must be an integer"))
        elif not self._low <= int(text) <= self._high:
            faults.append(Fault(name, f"must be between {self._low} and {self._high}"))
        else:
            return int(text)
        return self._low

    def schema(self) -> Json:
        return {"type": "integer", "minimum": self._low, "maximum": self._high}


class RecordPlace:
    """A position in a list of records: ``store/key``."""

    def read(self, text: str, name: str, faults: list[Fault]) -> Any:
        found: list[Fault] = []
        store, _, key = text.partition("/")
        NAME.check(store, name, found)
        KEY.check(key, name, found)
        if found:
            faults.append(Fault(name, "must be a position that a list gave: store/key"))
        return (store, key)

    def schema(self) -> Json:
        return {"type": "string", "maxLength": 577}


class DrawPlace:
    """A position in the list of draws: task number, attempts submitted and dimension, joined by dots."""

    def read(self, text: str, name: str, faults: list[Fault]) -> Any:
        task, _, rest = text.partition(".")
        submitted, _, dimension = rest.partition(".")
        if _DECIMAL.fullmatch(task) and _DECIMAL.fullmatch(submitted) and dimension in DIMENSIONS:
            place = (int(task), int(submitted), dimension)
            if max(place[:2]) <= MAX_CURSOR:
                return place
        faults.append(Fault(name, "must be a position that a list gave"))
        return START

    def schema(self) -> Json:
        return {"type": "string", "pattern": rf"^[0-9]{{1,19}}\.[0-9]{{1,19}}\.({'|'.join(DIMENSIONS)})$"}


class Query:
    """The parameters of a call; those without a default are required."""

    def __init__(
        self, parameters: Mapping[str, Parameter], defaults: Mapping[str, Any] | None = None
    ) -> None:
        self.parameters = dict(parameters)
        self.defaults = dict(defaults or {})

    def read(self, query_string: bytes, faults: list[Fault]) -> dict[str, Any]:
        """The values, defaults filled in; faults are added to the list."""
        try:
            pairs = parse_qsl(query_string.decode("ascii"), keep_blank_values=True, errors="strict")
        except (UnicodeDecodeError, ValueError):
            faults.append(Fault("", "must be a query of percent-encoded UTF-8"))
            return {}
        given: dict[str, str] = {}
        for name, text in pairs:
            if name not in self.parameters:
                faults.append(Fault(name, "is not a known parameter"))
            elif name in given:
                faults.append(Fault(name, "must be given once"))
            else:
                given[name] = text
        values: dict[str, Any] = {}
        for name, parameter in self.parameters.items():
            if name in given:
                values[name] = parameter.read(given[name], name, faults)
            elif name in self.defaults:
                values[name] = self.defaults[name]
            else:
                faults.append(Fault(name, "is required"))
        return values


def _query(parameters: Mapping[str, Parameter], required: Sequence[str] = (), **defaults: Any) -> Query:
    return Query(parameters, {name: defaults.get(name) for name in parameters if name not in required})


_STORE_ID = Shaped(Text(64))
NONE = Query({})
OBSERVATIONS = _query(
    {
        "queue": Shaped(NAME),
        "kind": Shaped(KIND),
        "after": Cursor(),
        "limit": Count(1, 100),
        "store_id": _STORE_ID,
    },
    required=("queue",),
    after=0,
    limit=100,
)
PENDING = _query(
    {
        "queue": Shaped(NAME),
        "kind": Shaped(KIND),
        "after": Cursor(),
        "cap": Count(1, 10_000),
        "store_id": _STORE_ID,
    },
    required=("queue",),
    after=0,
    cap=10_000,
)
QUEUES = _query({"store_id": _STORE_ID})
RECORD = _query({"version": Count(1, 2**53 - 1)})
VERSIONS = _query({"after": Cursor(), "limit": Count(1, 100)}, after=0, limit=100)
RECORDS = _query(
    {
        "store": Shaped(NAME),
        "prefix": Shaped(
            Text(512, pattern=r"[A-Za-z0-9._:@+=-]*", message="must be the beginning of a key", blank=True)
        ),
        "tag": Shaped(Text(128)),
        "category": Shaped(KIND),
        "after": RecordPlace(),
        "limit": Count(1, 100),
    },
    prefix="",
    limit=100,
)
KEYS = _query({"after": Shaped(Text(64)), "limit": Count(1, 100)}, after="", limit=100)
DRAWS = _query({"after": DrawPlace(), "limit": Count(1, 100)}, after=START, limit=100)
