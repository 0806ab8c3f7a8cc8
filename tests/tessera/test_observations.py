"""The observation's bounds, each at its edge, and the item as the contract draws it."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tessera import observations as ob
from tessera.canonical import dumps
from tessera.reports import faults

ANY_TEXT = st.text(st.characters())
JSON_VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-100, 100) | ANY_TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4),
)
NAMES = st.sampled_from([*ob.WORDING, "template", "phrasing", "tags"])


@given(st.dictionaries(NAMES | ANY_TEXT, JSON_VALUES | ANY_TEXT) | JSON_VALUES)
def test_any_brief_has_a_view_that_canonical_json_can_say(brief: Any) -> None:
    view = ob.brief_view(brief)
    assert dumps(view)
    assert sum(len(text) for text in view["wording"].values()) <= 4096
    assert list(view["shape"]) == sorted(view["shape"], key=lambda name: name.encode("utf-16-be"))


def test_labels_are_the_briefs_own_nonblank_strings_of_at_most_128_bytes() -> None:
    assert ob.brief_view({"template": "é" * 64, "phrasing": "p"})["template"] == "é" * 64
    for value in ("é" * 65, " \t", "", 3, None, ["t"]):
        assert ob.brief_view({"template": value})["template"] is None


def test_tags_are_distinct_fitting_strings_sorted_and_at_most_16() -> None:
    brief = {"tags": ["b", "a", "b", "a,b", 7, None, "t" * 129, "\ue000", "\U0001f600"]}
    assert ob.brief_view(brief)["tags"] == ["a", "b", "\U0001f600", "\ue000"]
    assert len(ob.brief_view({"tags": [f"{n:02}" for n in range(40)]})["tags"]) == 16
    assert ob.brief_view({"tags": "a"})["tags"] == []


def test_wording_keeps_the_contracts_order_and_only_strings() -> None:
    view = ob.brief_view({"contract": "c", "goal": "g", "title": "t", "task": {"x": 1}, "note": "n"})
    assert list(view["wording"].items()) == [("title", "t"), ("goal", "g"), ("contract", "c")]
    assert view["wording_truncated"] is False


def test_the_field_that_crosses_the_bound_is_cut_and_later_ones_dropped() -> None:
    view = ob.brief_view({"title": "\U0001f600" * 4000, "goal": "g" * 97, "problem": "p"})
    assert {name: len(text) for name, text in view["wording"].items()} == {"title": 4000, "goal": 96}
    assert view["wording_truncated"] is True


def test_a_field_cut_to_nothing_is_dropped() -> None:
    view = ob.brief_view({"title": "t" * 4096, "goal": "g", "problem": ""})
    assert (list(view["wording"]), view["wording_truncated"]) == (["title"], True)
    assert ob.brief_view({"title": "t" * 4096})["wording_truncated"] is False


def test_split_halves_count_as_one_code_point() -> None:
    view = ob.brief_view({"title": ("\ud83d" + "\ude00") * 4096})
    assert view["wording_truncated"] is False
    assert view["wording"]["title"] == "\U0001f600" * 4096


def test_the_shape_holds_the_first_64_keys_that_fit() -> None:
    view = ob.brief_view({"s": "", "n": 1.5, "b": True, "z": None, "o": {}, "a": []})
    expected = {"a": "array", "b": "bool", "n": "num", "o": "object", "s": "str", "z": "null"}
    assert list(view["shape"].items()) == list(expected.items())
    assert view["shape_truncated"] is False
    many = ob.brief_view({f"k{n:03}": n for n in range(65)})
    assert (len(many["shape"]), many["shape_truncated"]) == (64, True)
    assert ob.brief_view({"k" * 129: 1, "a": 1})["shape"] == {"a": "num"}
    assert ob.brief_view({"k" * 129: 1, "a": 1})["shape_truncated"] is True


def test_a_failure_is_cut_at_a_character() -> None:
    assert ob.failure_text(None) is None
    assert ob.failure_text("a" + "é" * 1024) == "a" + "é" * 1023
    assert ob.failure_text("é" * 1024) == "é" * 1024
    assert ob.failure_text("\ud800") == "\ufffd"


def test_a_model_declared_null_is_told_from_an_unreported_one() -> None:
    declared, unreported = ob.report_view({"model": None}), ob.report_view({})
    assert declared is not None
    assert unreported is not None
    assert (declared["model"], declared["model_reported"]) == (None, True)
    assert (unreported["model"], unreported["model_reported"]) == (None, False)
    assert ob.report_view(None) is None


def item(**changes: Any) -> dict[str, Any]:
    fields: dict[str, Any] = {
        "run_id": "r1",
        "cursor": 7,
        "brief": {"goal": "g"},
        "input_digest": "d",
        "origin": "live",
        "private": False,
        "task_id": "t1",
        "kind": "verb.summarize",
        "queue": "q",
        "fence": 2,
        "lapsed": 1,
        "key_id": "k1",
        "claimed_at": "2026-01-01T00:00:00.000Z",
        "submitted_at": "2026-01-01T00:00:01.000Z",
        "lease_seconds": 300,
        "result": "failed",
        "state_after": "queued",
        "failure": "boom",
        "receipt_sha256": "e",
        "draws": [],
        "report": {"harness": "h", "learning": {"outcome": "failed"}},
    }
    return ob.build_item(**{**fields, **changes})


def test_an_item_has_every_key_of_the_contract() -> None:
    built = item()
    assert list(built) == [
        *("schema", "run_id", "cursor", "brief", "input_digest", "server", "report", "trust", "use_policy")
    ]
    assert list(built["brief"]) == [
        *(
            "template",
            "phrasing",
            "tags",
            "wording",
            "wording_truncated",
            "shape",
            "shape_truncated",
            "input_type",
        )
    ]
    assert list(built["server"]) == [
        *("origin", "private", "task_id", "kind", "queue", "fence", "lapsed", "key_id", "claimed_at"),
        *(
            "submitted_at",
            "lease_seconds",
            "result",
            "state_after",
            "failure_text",
            "receipt_sha256",
            "retry",
            "draws",
        ),
    ]
    assert list(built["report"]) == ["summaries", "harness", "model", "model_reported", "usage", "learning"]
    assert (built["schema"], built["cursor"]) == ("execution-observation-v1", "7")
    assert built["trust"] == {"telemetry": "worker_reported"}
    assert built["use_policy"] == {"training_corpus": "excluded_by_default"}


def test_a_run_above_the_first_fence_is_a_retry() -> None:
    assert item(fence=1)["server"]["retry"] is False
    assert item(fence=2)["server"]["retry"] is True


def test_the_reporting_hint_asks_only_for_fields_that_exist() -> None:
    for path in ob.REPORTING_HINT["requested"]:
        report: Any = None
        for name in reversed(path.split(".")):
            report = {name: report}
        assert not [fault for fault in faults(report) if fault.message == "is not a known field"]
    assert dumps(ob.REPORTING_HINT)
