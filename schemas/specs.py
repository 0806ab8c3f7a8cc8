"""The nouns that say what may learn: spec and config, and the brief of one learner run.

Promises that each fault of a body is found and named by its path, in the words of the store's own messages.
Leaves out what needs a learner's code (`learners.registry`): whether options suit it, and whether two entries
write one noun.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from schemas.rules import NAME, free, integer, mapping, name, some, true
from tessera.canonical import digest
from tessera.checks import Check, array, number, text
from tessera.errors import Fault
from tessera.observations import TRAINING_CORPUS

SPEC_SCHEMA = "tessera.learner-spec.v1"
CONFIG_SCHEMA = "tessera.learner-config.v1"
RUN_SCHEMA = "tessera.learner-run.v1"

STORE = "learn.specs"
CATEGORY = "noun.skill_pack"
CONFIG_KEY = "config"
OUTPUTS = "learn.outputs"
RUNS_QUEUE = "learn.runs"

STATUSES = ("implemented", "proposed")
VISIBILITIES = ("private", "surface_only")
MODES = ("active", "shadow", "off")
GATES = ("evaluation", "evidence")
USE_POLICY = {"training_corpus": TRAINING_CORPUS}

EMPTY_CONFIG: dict[str, Any] = {"schema": CONFIG_SCHEMA, "entries": []}
"""What a pack ships: it activates nothing."""


def spec_key(learner: str, strategy: str, version: int) -> str:
    """``learner:strategy:vN``."""
    return f"{learner}:{strategy}:v{version}"


def spec_parts(key: str) -> tuple[str, str, int] | None:
    """``(learner, strategy, version)`` of a spec key, or ``None`` when it is not one."""
    parts = key.split(":")
    if len(parts) != 3 or not all(parts) or not (set(parts[0]) | set(parts[1])) <= NAME:
        return None
    number = parts[2].removeprefix("v")
    if number == parts[2] or not (number.isascii() and number.isdigit()) or number[0] == "0":
        return None
    return parts[0], parts[1], int(number)


def run_identity(spec: Mapping[str, Any], scope: Any, options: Any, state: Any) -> str:
    """The identity of a learner run: equal triggers for an equal state are one run (contract, section 7)."""
    return digest({"spec": spec, "scope": scope, "options": options, "state": state})


def spec_faults(body: Any, root: str = "body") -> list[Fault]:
    """What is wrong with a spec noun's body; empty when it is fine."""
    return list(_SPEC(body, root))


def config_faults(body: Any, root: str = "body") -> list[Fault]:
    """What is wrong with a config noun's body, but for what the learners themselves judge."""
    return list(_CONFIG(body, root))


def run_faults(brief: Any, root: str = "brief") -> list[Fault]:
    """What is wrong with the brief of a learner run."""
    return list(_RUN(brief, root))


def _spec_key(value: Any, path: str) -> Iterator[Fault]:
    if not isinstance(value, str):
        yield Fault(path, "must be a string")
    elif spec_parts(value) is None:
        yield Fault(path, "must be written learner:strategy:vN")


def _scope_queue(value: Any, path: str) -> Iterator[Fault]:
    faults = list(name(value, path))
    yield from faults
    if not faults and value.startswith("learn."):
        yield Fault(path, "must not begin with learn.: such a queue is no scope")


def _trigger(value: Any, path: str) -> Iterator[Fault]:
    ways: dict[str, Check] = {
        "on_demand": true,
        "schedule": text(512),
        "new_observations": integer(1),
    }
    faults = list(mapping({}, ways)(value, path))
    yield from faults
    if not faults and len(value) != 1:
        yield Fault(path, f"must have exactly one of {', '.join(ways)}")


def _entry(value: Any, path: str) -> Iterator[Fault]:
    faults = list(_ENTRY(value, path))
    yield from faults
    if not faults and "surface" in value and value["surface"]["queue"] != value["queue"]:
        yield Fault(f"{path}.surface.queue", "must be the entry's own queue")


_SPEC = mapping(
    {
        "schema": text(128, choices=(SPEC_SCHEMA,)),
        "learner": name,
        "strategy": name,
        "version": integer(1),
        "status": text(64, choices=STATUSES),
        "reads": some(array(16, text(128))),
        "writes": some(array(16, mapping({"schema": text(128), "category": text(128), "store": name}))),
        "trigger": _trigger,
        "budget": mapping(
            {
                "observations": integer(1),
                "runtime_seconds": number(10**9),
                "output_bytes": integer(1),
                "model_calls": integer(0),
            }
        ),
        "evaluation": mapping(
            {
                "baseline": text(512),
                "metric": text(512),
                "method": text(2048),
                "minimum_evidence": integer(0),
                "keep_baseline_valid": true,
            }
        ),
        "consumers": mapping({"visibility": text(64, choices=VISIBILITIES), "advice_only": true}),
        "verb": mapping({"category": text(64)}, {"runner": text(256)}),
    },
    {"description": text(2048)},
)
_SURFACE = mapping({"queue": name}, {"kind": text(64)})
_ENTRY = mapping(
    {"spec": _spec_key, "mode": text(64, choices=MODES), "queue": _scope_queue, "options": free},
    {"kind": text(64), "surface": _SURFACE, "gate": text(64, choices=GATES)},
)
_CONFIG = mapping({"schema": text(128, choices=(CONFIG_SCHEMA,)), "entries": array(10_000, _entry)})
_RUN = mapping(
    {
        "schema": text(128, choices=(RUN_SCHEMA,)),
        "spec": mapping({"store": name, "key": _spec_key, "version": integer(1), "sha256": text(64)}),
        "scope": mapping({"queue": _scope_queue}, {"kind": text(64)}),
        "options": free,
        "state": mapping({"store": name, "key": text(512), "version": integer(0)}),
    },
    {"reporting": free},
)
