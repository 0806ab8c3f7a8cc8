"""Finding learners, and telling which config entries can stand side by side."""

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from learners import registry
from learners.catalog import SPECS
from learners.contract import LearnerError, name_of

NAME = "path_statistics:wilson-grouping:v1"
STRANGER = '''
"""A learner of somebody else."""
from learners.path_statistics import PathStatistics

class Stranger(PathStatistics):
    spec = {**PathStatistics.spec, "strategy": "strange"}

LEARNER = Stranger()
NOT_ONE = type("NotOne", (PathStatistics,), {"spec": {"schema": "x"}})()
'''


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Install a package with these entry points."""

    def install(**points: str) -> None:
        (tmp_path / "stranger.py").write_text(STRANGER)
        info = tmp_path / "stranger-1.dist-info"
        info.mkdir(exist_ok=True)
        (info / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1\n")
        lines = "\n".join(
            f"{name.replace('__', ':').replace('_s_', '-')} = {value}" for name, value in points.items()
        )
        (info / "entry_points.txt").write_text(f"[tessera.learners]\n{lines}\n")
        monkeypatch.syspath_prepend(str(tmp_path))

    monkeypatch.delitem(sys.modules, "stranger", raising=False)
    return install


def entry(**fields: Any) -> dict[str, Any]:
    return {"spec": NAME, "mode": "active", "queue": "q", "options": {}, **fields}


def messages(*entries: dict[str, Any]) -> list[str]:
    return [fault.message for fault in registry.entry_faults(dict(enumerate(entries)))]


def test_every_implemented_spec_has_its_code_and_only_those() -> None:
    implemented = [key for key, spec in SPECS.items() if spec["status"] == "implemented"]

    assert sorted(registry.BUILT_IN) == sorted(implemented)
    assert [name_of(registry.load(key)) for key in implemented] == implemented


def test_a_strangers_learner_is_found_by_its_entry_point_and_loaded_only_when_asked(
    package: Callable[..., None],
) -> None:
    package(path_statistics__strange__v1="stranger:LEARNER")

    assert "path_statistics:strange:v1" in registry.names()
    assert "stranger" not in sys.modules
    assert registry.load("path_statistics:strange:v1").spec["strategy"] == "strange"


def test_a_learner_that_is_not_what_its_name_says_is_refused(package: Callable[..., None]) -> None:
    package(other__name__v1="stranger:LEARNER", no__spec__v1="stranger:NOT_ONE")

    with pytest.raises(LearnerError, match="calls itself 'path_statistics:strange:v1'"):
        registry.load("other:name:v1")
    with pytest.raises(LearnerError, match=r"has a spec that is none: .*spec\.schema"):
        registry.load("no:spec:v1")


def test_an_unknown_learner_is_refused_with_those_there_are() -> None:
    with pytest.raises(
        registry.UnknownLearner, match=f"no learner 'a:b:v1' is installed; there are: .*{NAME}"
    ):
        registry.load("a:b:v1")


def test_one_spec_stands_several_times_with_options_that_give_other_keys() -> None:
    assert messages(entry(), entry(options={"dimensions": ["method"]}), entry(kind="verb.a")) == []


def test_two_entries_of_one_noun_are_refused_unless_one_is_off() -> None:
    assert messages(entry(), entry(options={"last": 3}))[0].startswith(
        "writes the same noun as body.entries[0]"
    )
    assert messages(entry(), entry(mode="shadow"))[0].startswith("writes the same noun as body.entries[0]")
    assert messages(entry(), entry(mode="off")) == []


def test_two_active_specs_of_one_facet_on_one_scope_are_refused(package: Callable[..., None]) -> None:
    package(path_statistics__strange__v1="stranger:LEARNER")
    other = "path_statistics:strange:v1"

    assert messages(entry(), entry(spec=other)) == [
        "is a second active spec of path_statistics on its scope, beside body.entries[0]"
    ]
    assert messages(entry(), entry(spec=other, mode="shadow")) == []
    assert messages(entry(), entry(spec=other, kind="verb.a")) == []


def test_refused_options_are_named_below_their_entry() -> None:
    (fault,) = registry.entry_faults({4: entry(options={"last": 0})})

    assert (fault.path, fault.message) == ("body.entries[4].options.last", "must be at least 1")
