"""Finds the call of a method and path: one walk along the path's parts, however many calls there are."""

from collections.abc import Iterable
from typing import Any

from tessera.errors import NotFound, Problem
from tessera.server.requests import Call


class MethodNotAllowed(Problem):
    """405: the path is there, for other methods; ``extra`` says which."""

    default_status = 405


class Routes:
    """The calls as a tree of path parts; ``{name}`` takes any part."""

    def __init__(self, calls: Iterable[Call]) -> None:
        self._root: dict[str, Any] = {}
        for call in calls:
            node = self._root
            for part in _parts(call.path):
                node = node.setdefault("{}" if part.startswith("{") else part, {})
            node.setdefault("", {})[call.method] = call

    def find(self, method: str, path: str) -> tuple[Call, tuple[str, ...]]:
        """The call, and the path's named parts in order.

        Raises NotFound for a path that is not there, MethodNotAllowed for one that is.
        """
        node = self._root
        names: list[str] = []
        for part in _parts(path):
            found = node.get(part) if part else None
            if found is None:
                found = node.get("{}") if part and "\0" not in part else None
                if found is None:
                    raise NotFound("there is no such path")
                names.append(part)
            node = found
        methods: dict[str, Call] = node.get("", {})
        if not methods:
            raise NotFound("there is no such path")
        call = methods.get(method)
        if call is None:
            allowed = ", ".join(sorted(methods))
            raise MethodNotAllowed(f"this path takes {allowed}", extra={"allow": allowed})
        return call, tuple(names)


def _parts(path: str) -> list[str]:
    return path.split("/")[1:]
