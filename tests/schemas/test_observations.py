"""The observations table: types, bounds and the items' frame."""

import hashlib
from datetime import UTC, datetime

import pandera.errors
import polars as pl
import pytest

from schemas.observations import (
    COLUMNS,
    SCHEMA,
    MisfitError,
    Observations,
    broken_rules,
    frame,
    frame_of_rows,
    row,
)
from tests.observation_items import observation


def test_an_item_becomes_one_row_with_every_value_in_its_column():
    [values] = frame([observation(7)]).to_dicts()
    assert values["cursor"] == 7
    assert values["kind"] == "verb.pack"
    assert values["wording"]["problem"] == "Größe ≤ 1 MiB"
    assert values["wording"]["goal"] is None
    assert values["shape"] == '{"limits":"object","title":"str"}'
    assert values["claimed_at"] == datetime(2026, 1, 2, 3, 4, 5, 678000, UTC)
    assert values["draws"][0]["arms"][1] == {"arm": "lzma", "weight": 0.5}
    assert (values["went_right"], values["went_wrong"], values["ideas"]) == (["fast"], [], None)
    assert (values["has_report"], values["model"], values["model_reported"]) == (True, None, True)
    assert values["use_policy"] == "excluded_by_default"


def test_the_items_frame_passes_its_own_schema():
    rows = frame([observation(1), observation(2, report=None)])
    assert Observations.validate(rows, lazy=True).schema == pl.Schema(SCHEMA)


def test_no_items_make_an_empty_frame_of_the_full_schema():
    assert frame([]).schema == pl.Schema(SCHEMA)
    assert Observations.validate(frame([])).is_empty()


def test_a_column_that_is_all_null_keeps_its_type():
    rows = frame([observation(1, report=None, input_digest=None, server__draws=[])])
    assert rows.schema == pl.Schema(SCHEMA)
    assert rows["cost_amount"].null_count() == 1


def test_an_item_without_a_report_reports_no_model():
    [values] = frame([observation(1, report=None)]).to_dicts()
    assert (values["has_report"], values["model"], values["model_reported"]) == (False, None, False)


@pytest.mark.parametrize(
    ("change", "path", "message"),
    [
        ({"server__fence": "2"}, "server.fence", "must be an integer"),
        ({"server__fence": True}, "server.fence", "must be an integer"),
        ({"server__fence": 1.5}, "server.fence", "must be an integer"),
        ({"server__private": 0}, "server.private", "must be a boolean"),
        ({"report": "fine"}, "report", "must be an object"),
        ({"report__learning": []}, "report.learning", "must be an object"),
        ({"report__learning__ideas": "one"}, "report.learning.ideas", "must be an array"),
        ({"report__learning__ideas": ["one", 2]}, "report.learning.ideas[1]", "must be a string"),
        ({"brief__shape": {"a": 1}}, "brief.shape", "must be an object of strings"),
        ({"brief__wording": ["a"]}, "brief.wording", "must be an object"),
        ({"brief__tags": None}, "brief.tags", "is required"),
        ({"server__result": None}, "server.result", "is required"),
        ({"cursor": 5}, "cursor", "must be a decimal integer under 2^63 written as a string"),
        ({"cursor": str(2**63)}, "cursor", "must be a decimal integer under 2^63 written as a string"),
        ({"schema": "execution-observation-v2"}, "schema", "must be execution-observation-v1"),
        (
            {"server__claimed_at": "2026-01-02T03:04:05"},
            "server.claimed_at",
            "must be an RFC 3339 time with a zone",
        ),
        ({"server__claimed_at": 1}, "server.claimed_at", "must be an RFC 3339 time with a zone"),
        ({"server__failure_text": "\ud800"}, "server.failure_text", "must be valid Unicode"),
        ({"brief__shape": {"\ud800": "str"}}, "brief.shape", "must be valid Unicode"),
    ],
)
def test_a_value_of_another_type_is_named_by_its_path(change, path, message):
    _, faults = row(observation(3, **change))
    assert [(fault.path, fault.message) for fault in faults] == [(path, message)]


def test_a_frame_of_misfits_names_each_by_position():
    with pytest.raises(MisfitError) as refused:
        frame([observation(1), observation(2, server__fence="x", server__lapsed=None), 5])
    assert [(i, fault.path) for i, fault in refused.value.faults] == [
        (1, "server.fence"),
        (1, "server.lapsed"),
        (2, ""),
    ]


def test_equal_instants_of_three_zones_are_one_time():
    """P05: the zone is never lost and never guessed."""
    same = ["2026-01-02T03:04:05.000Z", "2026-01-02T05:04:05.000+02:00", "2026-01-01T22:04:05-05:00"]
    rows = frame([observation(i + 1, server__claimed_at=time) for i, time in enumerate(same)])
    assert rows["claimed_at"].n_unique() == 1
    assert rows["claimed_at"].dtype == pl.Datetime("us", "UTC")


def test_token_counts_above_32_bits_add_and_subtract_without_wrapping():
    """P07."""
    rows = frame([observation(i, report__usage={"total_tokens": 2_000_000_000}) for i in (1, 2, 3)])
    assert rows["total_tokens"].sum() == 6_000_000_000
    assert (rows["fence"] - rows["total_tokens"])[0] == 2 - 2_000_000_000


@pytest.mark.parametrize(
    ("column", "value", "message"),
    [
        ("cursor", 0, "must be at least 1"),
        ("fence", 0, "must be at least 1"),
        ("lapsed", -1, "must be at least 0"),
        ("origin", "made up", "must be one of live, imported"),
        ("result", "won", "must be one of accepted, failed"),
        ("total_tokens", -5, "must be between 0 and 1000000000000"),
        ("reported_duration_seconds", -0.1, "must be between 0 and 1000000000"),
        ("reported_duration_seconds", float("nan"), "must be between 0 and 1000000000"),
        ("cost_amount", float("inf"), "must be between 0 and 1000000000000"),
        ("cost_currency", "usd", "must be three letters A-Z"),
        ("worker_outcome", "great", "must be one of succeeded, partial, failed, blocked, no_change"),
    ],
)
def test_a_value_out_of_bounds_is_refused_by_the_schema_and_named(column, value, message):
    """P08, P14: values are checked, not only types; NaN is out of every bound."""
    values, _ = row(observation(1))
    rows = frame_of_rows([values, {**values, "cursor": 2, column: value}])
    with pytest.raises(pandera.errors.SchemaErrors):
        Observations.validate(rows, lazy=True)
    [(number, [fault])] = broken_rules(rows).items()
    assert (number, fault.message) == (1, message)


def test_every_bound_a_row_breaks_is_named():
    """P15: one fault hides no other."""
    rows = frame(
        [
            observation(1),
            observation(2, server__fence=0, server__lapsed=-1),
            observation(3, server__draws=[{"propensity": 1.7}]),
        ]
    )
    found = {number: [fault.path for fault in faults] for number, faults in broken_rules(rows).items()}
    assert found == {1: ["server.fence", "server.lapsed"], 2: ["server.draws"]}


def test_the_columns_change_only_together_with_the_lakes_schema_version():
    """Whoever changes a column raises `LAKE_SCHEMA` in assets/lake.py and pins the new digest here."""
    from assets.lake import LAKE_SCHEMA

    columns = "\n".join(f"{column.name} {column.dtype!r} {column.nullable}" for column in COLUMNS)
    assert (LAKE_SCHEMA, hashlib.sha256(columns.encode()).hexdigest()[:16]) == ("1", "2b3a36c947c2f4ad")
