"""Which learned nouns advise on a task: what the config noun makes active for its queue and kind.

Promises that a shadow, an entry that is off, and a noun that the key may not read never advise. Leaves out
what the nouns say.
"""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from tessera.advice.shapes import in_key
from tessera.errors import Forbidden, NotFound, TesseraError

if TYPE_CHECKING:
    from tessera.client import Client

CONFIG = ("learn.specs", "config")
_CITED_BYTES = 256


class AdviceFault(TesseraError):  # noqa: N818 - the sentence reads as what it is
    """Advice that cannot be asked for or relied on: the sentence says what is wrong with it."""


@contextmanager
def bound(client: "Client | None") -> Iterator["Client"]:
    """The client given, else one of its own by the settings, closed at the end."""
    if client is not None:
        yield client
        return
    from tessera.client import Client

    with Client() as own:
        yield own


def entries(client: "Client") -> list[Mapping[str, Any]]:
    """The config's entries; none where there is no config that the key may read."""
    record = readable(client, *CONFIG)
    listed = record["body"].get("entries") if record else None
    return [one for one in listed if isinstance(one, Mapping)] if isinstance(listed, list) else []


def active(
    config: Sequence[Mapping[str, Any]], facet: str, task: Mapping[str, Any], **options: str
) -> Mapping[str, Any] | None:
    """The active entry of a facet for a task's queue: the one of its kind, else the queue's; or None.

    ``options`` must stand in the entry's own.
    """
    for kind in (task.get("kind"), None):
        for entry in config:
            named, held = entry.get("spec"), entry.get("options")
            if (
                isinstance(named, str)
                and named.partition(":")[0] == facet
                and (entry.get("mode"), entry.get("queue")) == ("active", task["queue"])
                and entry.get("kind") == kind
                and isinstance(held, Mapping)
                and options.items() <= held.items()
            ):
                return entry
    return None


def noun_key(spec: str, entry: Mapping[str, Any], *suffixes: str) -> str:
    """The key of an output of ``spec`` on an entry's scope."""
    return ":".join((spec, in_key(entry["queue"], entry.get("kind")), *suffixes))


def readable(client: "Client", store: str, key: str, version: int | None = None) -> dict[str, Any] | None:
    """A record, None when there is none that the key may read."""
    try:
        return client.get_record(store, key, version)
    except (Forbidden, NotFound):
        return None


def body_of(record: Mapping[str, Any], schema: str) -> Mapping[str, Any]:
    """The record's body. Raises AdviceFault when it is of another schema."""
    body: Mapping[str, Any] = record["body"]
    if body.get("schema") != schema:
        raise unreliable(record, f"it is no {schema}")
    return body


def unreliable(record: Mapping[str, Any], why: str) -> AdviceFault:
    """The fault of a record that says nothing usable."""
    named = f"{record['store']}/{record['key']} version {record['version']}"
    return AdviceFault(f"{named} cannot be relied on: {why}; the next run of its learner writes it anew")


def citation(record: Mapping[str, Any]) -> dict[str, Any] | None:
    """What a report says under ``learning.advice`` of a run that followed a record.

    None for a key that is too long for a report to cite.
    """
    named = {name: record["body"].get(name) for name in ("learner", "strategy", "version")}
    cited = {**named, "store": record["store"], "key": record["key"], "record_version": record["version"]}
    return cited if len(str(record["key"]).encode()) <= _CITED_BYTES else None


def pin(record: Mapping[str, Any]) -> dict[str, Any]:
    """A record's version, as a draw cites the policy it goes by."""
    return {name: record[name] for name in ("store", "key", "version")}
