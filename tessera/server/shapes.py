"""Shapes of request bodies: strict checks with a dotted path for each fault, and their JSON Schema.

Promises every fault of a value, in the order in which a reader would meet them; true is no number, a text
that looks like a number is none, 1.0 is an integer, an unknown field is refused. One declaration serves
the check and the OpenAPI document, so they cannot disagree. Leaves out reading JSON: the door does that.
"""

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tessera.canonical import is_blank, utf16_key
from tessera.errors import Fault
from tessera.store.clock import milliseconds

Json = dict[str, Any]


class Shape(Protocol):
    """What a value must look like."""

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        """The value as the store takes it; faults are added to the list."""

    def schema(self) -> Json:
        """The same as JSON Schema 2020-12."""


class Anything:
    """Any JSON value."""

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        return value

    def schema(self) -> Json:
        return {}


class Text:
    """Text of a bounded size in UTF-8 bytes (or in characters), of a form when there is one."""

    def __init__(
        self,
        most: int,
        *,
        pattern: str | None = None,
        message: str = "",
        blank: bool = False,
        characters: bool = False,
    ) -> None:
        self._most = most
        self._pattern = None if pattern is None else re.compile(pattern)
        self._message = message
        self._blank = blank
        self._characters = characters

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) is not str:
            faults.append(Fault(path, "must be a string"))
        elif not self._blank and is_blank(value):
            faults.append(Fault(path, "must not be blank"))
        # The size comes first, so that a pattern never sees a long text.
        elif len(value if self._characters else value.encode("utf-8", "surrogatepass")) > self._most:
            unit = "characters" if self._characters else "UTF-8 bytes"
            faults.append(Fault(path, f"must be at most {self._most} {unit}"))
        elif self._pattern is not None and not self._pattern.fullmatch(value):
            faults.append(Fault(path, self._message))
        return value

    def schema(self) -> Json:
        schema: Json = {"type": "string", "maxLength": self._most}
        if not self._blank:
            schema["minLength"] = 1
        if self._pattern is not None:
            schema["pattern"] = f"^(?:{self._pattern.pattern})$"
        if self._message:
            schema["description"] = self._message
        return schema


class Choice:
    """One of a few texts."""

    def __init__(self, choices: Sequence[str]) -> None:
        self._choices = tuple(choices)

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) is not str:
            faults.append(Fault(path, "must be a string"))
        elif value not in self._choices:
            faults.append(Fault(path, f"must be one of {', '.join(self._choices)}"))
        return value

    def schema(self) -> Json:
        return {"type": "string", "enum": list(self._choices)}


class Whole:
    """A whole number within bounds; 1.0 is one, true is not."""

    def __init__(self, low: int, high: int) -> None:
        self._low, self._high = low, high

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) is float and value.is_integer():
            value = int(value)
        if type(value) is not int:
            faults.append(Fault(path, "must be an integer"))
        elif not self._low <= value <= self._high:
            faults.append(Fault(path, f"must be between {self._low} and {self._high}"))
        return value

    def schema(self) -> Json:
        return {"type": "integer", "minimum": self._low, "maximum": self._high}


class Weight:
    """A finite number from 0 on; taken as a float."""

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) not in (int, float):
            faults.append(Fault(path, "must be a number"))
        elif not value >= 0:
            faults.append(Fault(path, "must be at least 0"))
        else:
            return float(value)
        return value

    def schema(self) -> Json:
        return {"type": "number", "minimum": 0}


class Flag:
    """True or false."""

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) is not bool:
            faults.append(Fault(path, "must be a boolean"))
        return value

    def schema(self) -> Json:
        return {"type": "boolean"}


class Moment:
    """RFC 3339 with a zone; taken as milliseconds UTC."""

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) is not str:
            faults.append(Fault(path, "must be a string"))
            return value
        moment = milliseconds(value) if len(value) <= 64 else None
        if moment is None:
            faults.append(Fault(path, "must be an RFC 3339 time with a zone"))
        return moment

    def schema(self) -> Json:
        return {"type": "string", "format": "date-time"}


class Nullable:
    """A shape, or null."""

    def __init__(self, shape: Shape) -> None:
        self._shape = shape

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        return None if value is None else self._shape.check(value, path, faults)

    def schema(self) -> Json:
        return {"anyOf": [self._shape.schema(), {"type": "null"}]}


class Items:
    """An array of one shape; one that is too long is not looked into."""

    def __init__(self, shape: Shape, most: int, *, least: int = 0, distinct: bool = False) -> None:
        self._shape, self._most, self._least, self._distinct = shape, most, least, distinct

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) is not list:
            faults.append(Fault(path, "must be an array"))
            return value
        if len(value) > self._most:
            faults.append(Fault(path, f"must have at most {self._most} items"))
            return value
        if len(value) < self._least:
            faults.append(Fault(path, f"must have at least {self._least} item{'s' * (self._least > 1)}"))
        before = len(faults)
        checked = [self._shape.check(item, f"{path}[{n}]", faults) for n, item in enumerate(value)]
        if self._distinct and len(faults) == before:
            for n, item in enumerate(checked):
                if item in checked[:n]:
                    faults.append(Fault(f"{path}[{n}]", "must not stand twice"))
        return checked

    def schema(self) -> Json:
        schema = {"type": "array", "items": self._shape.schema(), "maxItems": self._most}
        if self._least:
            schema["minItems"] = self._least
        if self._distinct:
            schema["uniqueItems"] = True
        return schema


class Judged:
    """A value that another module judges whole: a check that gives all faults of a value at a path."""

    def __init__(self, judge: Callable[[Any, str], list[Fault]], schema: Json) -> None:
        self._judge, self._schema = judge, schema

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        faults.extend(self._judge(value, path))
        return value

    def schema(self) -> Json:
        return self._schema


class Fields:
    """An object of known fields; ``optional`` names those that may be left out."""

    def __init__(self, fields: Mapping[str, Shape], optional: Sequence[str] = ()) -> None:
        self._fields = dict(fields)
        self._optional = frozenset(optional)

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) is not dict:
            faults.append(Fault(path, "must be an object"))
            return value
        prefix = f"{path}." if path else ""
        checked = {}
        for name, shape in self._fields.items():
            if name in value:
                checked[name] = shape.check(value[name], prefix + name, faults)
            elif name not in self._optional:
                faults.append(Fault(prefix + name, "is required"))
        if len(checked) < len(value):
            unknown = sorted(value.keys() - self._fields.keys(), key=utf16_key)
            faults.extend(Fault(prefix + name, "is not a known field") for name in unknown)
        return checked

    def schema(self) -> Json:
        return {
            "type": "object",
            "properties": {name: shape.schema() for name, shape in self._fields.items()},
            "required": [name for name in self._fields if name not in self._optional],
            "additionalProperties": False,
        }


class Object:
    """Any JSON object."""

    def check(self, value: Any, path: str, faults: list[Fault]) -> Any:
        if type(value) is not dict:
            faults.append(Fault(path, "must be an object"))
        return value

    def schema(self) -> Json:
        return {"type": "object"}
