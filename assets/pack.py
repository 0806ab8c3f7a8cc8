"""The seed pack: every spec, an empty config and the run templates as a folder of files with their digests.

Promises the same bytes from the same code, made and read without the network, and that a pack is whole before
any of it is used. Leaves out the store: ``assets.specs`` installs what a pack holds.
"""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from learners.catalog import SPECS
from learners.registry import load
from schemas.specs import (
    CATEGORY,
    CONFIG_KEY,
    EMPTY_CONFIG,
    RUN_SCHEMA,
    RUNS_QUEUE,
    STORE,
    config_faults,
    spec_faults,
    spec_key,
)
from tessera.canonical import digest, dumps
from tessera.errors import Problem, TesseraError, listed
from tessera.json_door import loads
from tessera.observations import REPORTING_HINT

PACK_SCHEMA = "tessera.learner-pack.v1"
MANIFEST = "manifest.json"


class PackError(TesseraError):
    """A folder that is no pack: the sentence names the file and what is wrong."""


def documents(others: Sequence[str] = ()) -> dict[str, bytes]:
    """Path in the pack → canonical JSON, the manifest among them; with the specs of other packages named."""
    files: dict[str, Any] = {"config.json": noun(CONFIG_KEY, EMPTY_CONFIG)}
    for key, spec in {**SPECS, **{name: load(name).spec for name in others}}.items():
        name = key.replace(":", ".")
        files[f"specs/{name}.json"] = noun(key, spec)
        if spec["status"] == "implemented":
            files[f"runs/{name}.json"] = run_template(key, spec)
    written = {path: dumps(files[path]) for path in sorted(files)}
    manifest = {
        "schema": PACK_SCHEMA,
        "files": {path: hashlib.sha256(data).hexdigest() for path, data in written.items()},
    }
    return {**written, MANIFEST: dumps(manifest)}


def noun(key: str, body: Mapping[str, Any]) -> dict[str, Any]:
    """A noun of the pack, as ``POST /v1/records`` takes it but for the version it replaces."""
    return {
        "store": STORE,
        "key": key,
        "category": CATEGORY,
        "tags": [],
        "visibility": "shared",
        "body": dict(body),
    }


def run_template(key: str, spec: Mapping[str, Any]) -> dict[str, Any]:
    """The verb of a run of this spec; what depends on the scope and the store is null."""
    brief = {
        "schema": RUN_SCHEMA,
        "spec": {"store": STORE, "key": key, "version": None, "sha256": digest(spec)},
        "scope": {"queue": None},
        "options": {},
        "state": {"store": None, "key": None, "version": None},
        "reporting": REPORTING_HINT,
    }
    return {"queue": RUNS_QUEUE, "kind": spec["verb"]["category"], "private": True, "brief": brief}


def write(folder: Path, others: Sequence[str] = ()) -> list[str]:
    """Write the pack into a folder, made if need be, and return the paths written."""
    made = documents(others)
    for path, data in made.items():
        target = folder / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(data)
    return list(made)


def read(folder: Path) -> list[dict[str, Any]]:
    """The nouns of a pack, its specs and then its config, after every file's digest was checked."""
    manifest = _json(folder / MANIFEST)
    if not isinstance(manifest, dict) or manifest.get("schema") != PACK_SCHEMA:
        raise PackError(f"{folder / MANIFEST} is not a {PACK_SCHEMA}: make one with `learner pack`")
    files = manifest.get("files")
    if not isinstance(files, dict):
        raise PackError(f"{folder / MANIFEST}: files must be an object")
    found = []
    for path, sha256 in sorted(files.items()):
        place = folder / path
        if not place.resolve().is_relative_to(folder.resolve()):
            raise PackError(f"{folder / MANIFEST}: {path} lies outside the pack")
        if hashlib.sha256(_bytes(place)).hexdigest() != sha256:
            raise PackError(f"{place} is not what the manifest says: its digest is another")
        if path.startswith("specs/") or path == "config.json":
            found.append(_noun(place))
    return sorted(found, key=lambda one: (one["key"] == CONFIG_KEY, one["key"]))


def _noun(path: Path) -> dict[str, Any]:
    held = _json(path)
    fields = set(noun("", {}))
    if not isinstance(held, dict) or set(held) != fields or not isinstance(held["body"], dict):
        raise PackError(f"{path} is not a noun with {', '.join(sorted(fields))}")
    body = held["body"]
    if held["key"] == CONFIG_KEY:
        faults = config_faults(body)
    else:
        faults = spec_faults(body)
        if not faults and held["key"] != spec_key(body["learner"], body["strategy"], body["version"]):
            raise PackError(f"{path}: the key {held['key']!r} is not its spec's")
    if faults:
        raise PackError(f"{path}: {listed(faults)}")
    if {**held, "body": {}} != {**noun(held["key"], {})}:
        raise PackError(f"{path}: specs and config are shared nouns of {STORE}, {CATEGORY}, without tags")
    return held


def _json(path: Path) -> Any:
    try:
        return loads(_bytes(path))
    except Problem as problem:
        raise PackError(f"{path}: {problem}") from None


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise PackError(f"{path} cannot be read: {error.strerror}") from None
