"""Spec, config and run bodies, judged with paths."""

import copy
from typing import Any

import pytest

from learners.catalog import SPECS
from learners.registry import BUILT_IN
from schemas.specs import EMPTY_CONFIG, config_faults, run_faults, run_identity, spec_faults, spec_parts

SPEC = SPECS["path_statistics:wilson-grouping:v1"]
ENTRY = {
    "spec": "path_statistics:wilson-grouping:v1",
    "mode": "active",
    "queue": "q",
    "kind": "verb.a",
    "options": {},
    "surface": {"queue": "q", "kind": "verb.a"},
    "gate": "evidence",
}
CONFIG = {**EMPTY_CONFIG, "entries": [ENTRY]}
RUN = {
    "schema": "tessera.learner-run.v1",
    "spec": {"store": "learn.specs", "key": "a:b:v1", "version": 1, "sha256": "0" * 64},
    "scope": {"queue": "q"},
    "options": {},
    "state": {"store": "learn.outputs", "key": "a:b:v1:q", "version": 0},
    "reporting": {},
}
ABSENT = object()


def changed(body: dict[str, Any], path: str, value: Any) -> dict[str, Any]:
    """``body`` with the value at a dotted path replaced, or removed when it is ``ABSENT``."""
    body = copy.deepcopy(body)
    *parents, last = path.split(".")
    place: Any = body
    for name in parents:
        place = place[int(name)] if isinstance(place, list) else place[name]
    if value is ABSENT:
        del place[last]
    else:
        place[last] = value
    return body


@pytest.mark.parametrize("key", SPECS)
def test_every_shipped_spec_can_be_a_noun(key: str) -> None:
    assert spec_faults(SPECS[key]) == []
    assert SPECS[key]["budget"]["model_calls"] == 0
    assert SPECS[key]["evaluation"]["keep_baseline_valid"] is True


def test_only_what_has_code_is_implemented_and_it_is_private_until_it_has_a_surface() -> None:
    implemented = {key: spec for key, spec in SPECS.items() if spec["status"] == "implemented"}

    assert set(implemented) == set(BUILT_IN)
    assert all(spec["consumers"]["visibility"] == "surface_only" for spec in implemented.values())


def test_good_bodies_have_no_faults() -> None:
    assert config_faults(EMPTY_CONFIG) == config_faults(CONFIG) == run_faults(RUN) == []


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        ("schema", "x", "body.schema", "must be one of tessera.learner-spec.v1"),
        ("version", "1", "body.version", "must be an integer"),
        ("version", 0, "body.version", "must be at least 1"),
        ("version", True, "body.version", "must be an integer"),
        ("status", "done", "body.status", "must be one of implemented, proposed"),
        ("reads", [], "body.reads", "must have at least 1 item"),
        ("writes", [{}], "body.writes[0].schema", "is required"),
        ("trigger", {}, "body.trigger", "must have exactly one of on_demand, schedule, new_observations"),
        ("trigger", {"on_demand": False}, "body.trigger.on_demand", "must be true"),
        ("trigger", {"new_observations": 0}, "body.trigger.new_observations", "must be at least 1"),
        ("budget.model_calls", -1, "body.budget.model_calls", "must be at least 0"),
        ("budget.output_bytes", ABSENT, "body.budget.output_bytes", "is required"),
        ("evaluation.keep_baseline_valid", False, "body.evaluation.keep_baseline_valid", "must be true"),
        (
            "consumers.visibility",
            "shared",
            "body.consumers.visibility",
            "must be one of private, surface_only",
        ),
        ("verb", {}, "body.verb.category", "is required"),
        ("colour", 1, "body.colour", "is not a known field"),
    ],
)
def test_a_fault_of_a_spec_is_named_by_its_path(path: str, value: Any, where: str, message: str) -> None:
    first = spec_faults(changed(SPEC, path, value))[0]

    assert (first.path, first.message) == (where, message)


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        ("entries", {}, "body.entries", "must be an array"),
        ("entries.0.spec", "a:b", "body.entries[0].spec", "must be written learner:strategy:vN"),
        ("entries.0.mode", "on", "body.entries[0].mode", "must be one of active, shadow, off"),
        (
            "entries.0.queue",
            "a b",
            "body.entries[0].queue",
            "must be 1 to 64 characters of A-Z a-z 0-9 . _ -",
        ),
        (
            "entries.0.queue",
            "learn.runs",
            "body.entries[0].queue",
            "must not begin with learn.: such a queue is no scope",
        ),
        ("entries.0.options", ABSENT, "body.entries[0].options", "is required"),
        ("entries.0.options", None, "body.entries[0].options", "must be an object"),
        (
            "entries.0.surface.queue",
            "other",
            "body.entries[0].surface.queue",
            "must be the entry's own queue",
        ),
        ("entries.0.gate", "none", "body.entries[0].gate", "must be one of evaluation, evidence"),
        ("entries.0.kind", " ", "body.entries[0].kind", "must not be blank"),
    ],
)
def test_a_fault_of_a_config_is_named_by_its_path(path: str, value: Any, where: str, message: str) -> None:
    (fault,) = config_faults(changed(CONFIG, path, value))

    assert (fault.path, fault.message) == (where, message)


@pytest.mark.parametrize(
    ("path", "value", "where", "message"),
    [
        ("state.version", -1, "brief.state.version", "must be at least 0"),
        ("spec.version", 0, "brief.spec.version", "must be at least 1"),
        (
            "scope.queue",
            "learn.x",
            "brief.scope.queue",
            "must not begin with learn.: such a queue is no scope",
        ),
        ("spec", None, "brief.spec", "must be an object"),
    ],
)
def test_a_fault_of_a_run_is_named_by_its_path(path: str, value: Any, where: str, message: str) -> None:
    (fault,) = run_faults(changed(RUN, path, value))

    assert (fault.path, fault.message) == (where, message)


@pytest.mark.parametrize("body", [None, [], "x", 1])
def test_a_body_that_is_no_object_has_one_fault(body: Any) -> None:
    assert len(spec_faults(body)) == len(config_faults(body)) == len(run_faults(body)) == 1


@pytest.mark.parametrize("key", ["", "a:b:c", "a:b:v0", "a:b:v01", "a::v1", "a:b:v1:q", "a b:c:v1", "a:b:v¹"])
def test_what_is_no_spec_key_has_no_parts(key: str) -> None:
    assert spec_parts(key) is None


def test_equal_triggers_have_one_identity_and_another_state_another() -> None:
    parts: tuple[Any, ...] = (RUN["spec"], RUN["scope"], RUN["options"])

    assert run_identity(*parts, RUN["state"]) == run_identity(*parts, dict(RUN["state"]))  # type: ignore[call-overload]
    assert run_identity(*parts, {"version": 2}) != run_identity(*parts, {"version": 1})
