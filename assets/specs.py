"""Specs and config in the store: what is installed, what is switched on, and how that is changed.

Promises that a change is one compare-and-swap batch, safe to repeat and to race, and that a config which
could not run is refused before it is written. Leaves out running what it names.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from assets.publish import same_surface
from learners.contract import Citation, Learner, Scope, accept_options
from learners.registry import entry_faults, load
from schemas.specs import CATEGORY, CONFIG_KEY, EMPTY_CONFIG, STORE, config_faults, spec_faults
from tessera.canonical import digest
from tessera.client import Client
from tessera.errors import Conflict, Fault, NotFound, TesseraError, listed

_TRIES = 8


class SpecError(TesseraError):
    """A spec that is missing, proposed or not what it was; the sentence says what to do."""


class ConfigError(TesseraError):
    """A config that cannot stand; ``faults`` names each fault by its path."""

    def __init__(self, faults: Sequence[Fault]) -> None:
        self.faults = tuple(faults)
        lines = [f"the config noun {STORE}/{CONFIG_KEY} cannot stand"]
        super().__init__("\n".join([*lines, *(f"  {fault.path}: {fault.message}" for fault in faults)]))


def installed(client: Client, name: str) -> tuple[Citation, dict[str, Any]]:
    """The newest spec noun of a name, pinned, and its body. Raises SpecError when there is none."""
    try:
        record = client.get_record(STORE, name)
    except NotFound:
        raise SpecError(
            f"spec {name} is not installed in this store: run `learner pack --output DIR`, with "
            f"`--spec {name}` where another package has it, and then `learner install DIR`"
        ) from None
    faults = spec_faults(record["body"])
    if faults:
        raise SpecError(f"{STORE}/{name} version {record['version']} is not a spec: {listed(faults)}")
    return Citation(STORE, name, record["version"], record["sha256"]), record["body"]


def runnable(name: str, body: Mapping[str, Any]) -> Learner:
    """The learner of a spec noun. Raises SpecError for a spec that is proposed."""
    if body["status"] != "implemented":
        raise SpecError(f"spec {name} is {body['status']}: it has no code and never runs")
    return load(name)


def config(client: Client) -> tuple[int, dict[str, Any]]:
    """Version and body of the config noun; version 0 and the empty config when there is none."""
    try:
        record = client.get_record(STORE, CONFIG_KEY)
    except NotFound:
        return 0, dict(EMPTY_CONFIG)
    faults = config_faults(record["body"])
    if faults:
        raise ConfigError(faults)
    return record["version"], record["body"]


def entries_of(client: Client, queue: str, body: Mapping[str, Any] | None = None) -> list[dict[str, Any]]:
    """The config's entries for a queue that are not off, found able to stand side by side.

    ``body`` is the config when it has been read already: it holds the entries of all queues.
    """
    if body is None:
        _, body = config(client)
    _stand(body["entries"], queue)
    return [entry for entry in body["entries"] if entry["queue"] == queue and entry["mode"] != "off"]


def install(client: Client, nouns: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Write the nouns of a pack that differ from the store's, in one batch; returns what was written.

    A config that is there already is left as it is: installing activates nothing and switches nothing off.
    """
    for _ in range(_TRIES):
        writes = []
        for noun in nouns:
            current = _newest(client, noun["key"])
            if current is None:
                writes.append({**noun, "expected_version": 0})
            elif noun["key"] != CONFIG_KEY and not _same(current, noun):
                writes.append({**noun, "expected_version": current["version"]})
        if not writes:
            return []
        try:
            records: list[dict[str, Any]] = client.write_records(writes)["records"]
        except Conflict:
            continue
        return records
    raise SpecError(f"the nouns of {STORE} kept changing while they were installed; run it again")


def configure(
    client: Client,
    name: str,
    queue: str,
    *,
    kind: str | None = None,
    mode: str = "active",
    surface: bool = False,
    options: Mapping[str, Any] | None = None,
) -> tuple[int, dict[str, Any]]:
    """Set one entry of the config noun; returns the config's version and the entry.

    The entry is the one that writes the same noun: same spec, queue, kind and options that give the same key.
    It is replaced whole, but for a gate that it has. Nothing is written when the entry stands as it would be.
    With a kind a surface is for readers of that kind in the queue.
    """
    _, body = installed(client, name)
    learner = runnable(name, body)
    scope = Scope(queue, kind).body()
    entry: dict[str, Any] = {"spec": name, "mode": mode, **scope, "options": dict(options or {})}
    if surface:
        entry["surface"] = scope
    faults = config_faults({**EMPTY_CONFIG, "entries": [entry]})
    if faults:
        raise ConfigError(faults)
    accept_options(learner, entry["options"])
    for _ in range(_TRIES):
        version, held = config(client)
        entries = list(held["entries"])
        entry, changed = _set(entries, entry, learner)
        if not changed:
            return version, entry
        _stand(entries, queue)
        write = {
            "store": STORE,
            "key": CONFIG_KEY,
            "expected_version": version,
            "category": CATEGORY,
            "tags": [],
            "visibility": "shared",
            "body": {**held, "entries": entries},
        }
        try:
            (record,) = client.write_records([write])["records"]
        except Conflict:
            continue
        return record["version"], entry
    raise SpecError(f"{STORE}/{CONFIG_KEY} kept changing while it was configured; run it again")


def _set(
    entries: list[dict[str, Any]], entry: dict[str, Any], learner: Learner
) -> tuple[dict[str, Any], bool]:
    """Put an entry in its place in the list; returns it as it stands and whether the list changed."""
    scope = Scope(entry["queue"], entry.get("kind"))
    key = learner.state_key(scope, entry["options"])
    for position, old in enumerate(entries):
        same_scope = old["spec"] == entry["spec"] and Scope(old["queue"], old.get("kind")) == scope
        if not same_scope or learner.option_faults(old["options"], "options"):
            continue
        if learner.state_key(scope, old["options"]) == key:
            new = {**entry, **({"gate": old["gate"]} if "gate" in old else {})}
            entries[position] = new
            return new, new != old
    entries.append(entry)
    return entry, True


def _stand(entries: Sequence[Mapping[str, Any]], queue: str) -> None:
    """Refuse a config whose entries for the queue cannot stand side by side."""
    faults = entry_faults({place: entry for place, entry in enumerate(entries) if entry["queue"] == queue})
    if faults:
        raise ConfigError(faults)


def _newest(client: Client, key: str) -> dict[str, Any] | None:
    try:
        return client.get_record(STORE, key)
    except NotFound:
        return None


def _same(record: Mapping[str, Any], noun: Mapping[str, Any]) -> bool:
    plain = all(record[name] == noun[name] for name in ("category", "tags", "visibility"))
    return plain and same_surface(record.get("surface"), None) and record["sha256"] == digest(noun["body"])
