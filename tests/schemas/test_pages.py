"""Pages: the fast reader gives what the exact one gives, and leaves it what it cannot take to the letter."""

import json
import string

import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from polars.testing import assert_frame_equal

from schemas import pages, quarantine
from schemas.observations import SCHEMA, frame
from tessera.observations import WORDING
from tests.observation_items import observation


def page(items, **envelope):
    body = {"store_id": "store_1", "items": items, "next_after": "9", "has_more": False, **envelope}
    return json.dumps(body, separators=(",", ":"), ensure_ascii=False).encode()


text = st.text(st.characters(codec="utf-8"), max_size=12)
awkward = st.one_of(text, st.text('{}"\\:,shape ', max_size=12), st.just('"shape":{'))
maybe = lambda strategy: st.none() | strategy  # noqa: E731
whole = st.integers(0, 10**12)
amount = st.floats(0, 1e9) | st.integers(0, 10**9)
times = st.datetimes().map(lambda time: time.strftime("%Y-%m-%dT%H:%M:%S.").rjust(20, "0") + "042Z")
texts = st.lists(awkward, max_size=3)


def sometimes(**fields):
    return st.fixed_dictionaries({}, optional=fields)


draws = st.lists(
    st.fixed_dictionaries(
        {
            "dimension": text,
            "arm": awkward,
            "propensity": st.floats(0, 1),
            "arms": maybe(
                st.lists(st.fixed_dictionaries({"arm": awkward, "weight": st.floats(0, 1)}), max_size=2)
            ),
            "policy": maybe(sometimes(store=text, key=text, version=whole)),
        }
    ),
    max_size=2,
)
learning = sometimes(
    outcome=maybe(awkward),
    went_right=texts,
    ideas=maybe(texts),
    types=maybe(sometimes(input=awkward, output=text)),
    path=sometimes(shim=awkward, method=maybe(text)),
    duration_seconds=maybe(amount),
    cost=maybe(sometimes(amount=amount, currency=text, source=awkward)),
    unknowns=st.lists(sometimes(field=text, reason=awkward), max_size=2),
    advice=st.lists(sometimes(learner=text, version=whole, record_version=whole), max_size=2),
)
reports = maybe(
    st.fixed_dictionaries(
        {
            "summaries": maybe(sometimes(problem=awkward, solution=maybe(text))),
            "harness": maybe(text),
            "model": maybe(awkward),
            "model_reported": st.booleans(),
            "usage": maybe(sometimes(input_tokens=maybe(whole), total_tokens=whole)),
            "learning": maybe(learning),
        }
    )
)
changes = st.fixed_dictionaries(
    {
        "brief__shape": st.dictionaries(
            awkward.filter(lambda key: not key.endswith("shape")),
            st.sampled_from(["str", "num", "object"]),
            max_size=4,
        ),
        "brief__wording": st.dictionaries(st.sampled_from(WORDING), awkward, max_size=8),
        "brief__tags": texts,
        "brief__template": maybe(awkward),
        "brief__input_type": awkward,
        "server__failure_text": maybe(awkward),
        "server__claimed_at": maybe(times),
        "server__lease_seconds": maybe(whole),
        "server__draws": draws,
        "input_digest": maybe(text),
        "report": reports,
    }
)


@settings(max_examples=150, deadline=None)
@given(st.lists(changes, max_size=4))
def test_a_page_read_fast_equals_the_frame_of_its_items_to_the_bit(several):
    items = [observation(i + 1, **change) for i, change in enumerate(several)]
    read = pages.read_fast([page(items)])
    assert_frame_equal(read, frame(items), check_exact=True)


@settings(max_examples=30, deadline=None)
@given(st.dictionaries(awkward, st.sampled_from(["str", "object"]), max_size=4))
def test_a_shape_whose_keys_imitate_the_page_is_read_whole(shape):
    items = [observation(1), observation(2, brief__shape=shape), observation(3, brief__shape={})]
    assert_frame_equal(pages.read([page(items)]).rows, frame(items))


def test_adjacent_pages_are_read_as_one():
    bodies = [page([observation(1), observation(2)]), page([]), page([observation(3)])]
    assert pages.read_fast(bodies)["cursor"].to_list() == [1, 2, 3]
    assert pages.read(bodies).rows.equals(frame([observation(1), observation(2), observation(3)]))


@pytest.mark.parametrize(
    "change",
    [
        {"report__usage": {"total_tokens": 3.0}},
        {"server__claimed_at": "2026-01-02T05:04:05.000+02:00"},
        {"server__claimed_at": "2026-01-02T05:04:05Z"},
        {"brief__shape": {"shape": "str", 'a"shape': "object", "}": "num"}},
    ],
)
def test_what_the_fast_reader_will_not_vouch_for_is_read_exactly(change):
    items = [observation(1), observation(2, **change), observation(3)]
    read = pages.read([page(items)])
    assert_frame_equal(read.rows, frame(items))
    assert read.misfits == ()


def test_bad_items_are_set_apart_and_their_neighbours_kept():
    """P15: every bad row by id and field; good rows kept; the counts add up."""
    missing = observation(4)
    del missing["server"]["result"]
    bodies = [
        page([observation(1), observation(2, server__fence="x", server__lapsed=-1), observation(3)]),
        page([missing, observation(5, report=7), observation(6)]),
    ]
    read = pages.read(bodies)
    assert read.rows["cursor"].to_list() == [1, 3, 6]
    assert [(bad.cursor, bad.run_id, [fault.path for fault in bad.faults]) for bad in read.misfits] == [
        (2, "run_2", ["server.fence", "server.lapsed"]),
        (4, "run_4", ["server.result"]),
        (5, "run_5", ["report"]),
    ]


def test_the_quarantine_row_of_a_misfit_says_what_and_why():
    [misfit] = pages.read([page([observation(2, server__fence="x", brief__tags=None)])]).misfits
    rows = quarantine.Quarantine.validate(quarantine.frame("packing", [misfit]))
    [values] = rows.to_dicts()
    assert (values["cursor"], values["run_id"]) == (2, "run_2")
    assert values["reason"] == "brief.tags: is required; server.fence: must be an integer"
    assert json.loads(values["item"])["server"]["fence"] == "x"


def test_a_later_field_and_another_order_of_fields_do_no_harm():
    """P02, P03: columns are read by name under one declared schema, never from the first rows."""
    plain = observation(1, report=None)
    new = dict(reversed(observation(2, server__draws=[]).items())) | {"added_later": {"a": [1]}}
    rows = pages.read([page([plain] * 150 + [new])]).rows
    assert rows.schema == pl.Schema(SCHEMA)
    assert rows["solution"][150] == "packed"
    assert rows["solution"].null_count() == 150


def test_the_envelope_is_read_without_the_items():
    read = pages.envelope(page([observation(1)] * 3, next_after="12", has_more=True))
    assert read == pages.Envelope("store_1", 12, True)


@pytest.mark.parametrize("store_id", ["a[b", "a]b", "[]", '"[', "]["])
def test_brackets_outside_the_items_do_not_mislead_the_envelope(store_id):
    assert pages.envelope(page([observation(1)], store_id=store_id)).store_id == store_id


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"", "not JSON"),
        (b"<html>", "not JSON"),
        (b"[]", "not an object"),
        (page(None), "no list of items but None"),
        (page([], next_after=9), "next_after 9"),
        (page([], next_after="-1"), "next_after '-1'"),
        (page([], next_after=None), "next_after None"),
        (page([], has_more="no"), "has_more 'no'"),
        (page([], store_id=None), "store_id None"),
    ],
)
def test_what_is_no_page_is_refused_with_what_is_wrong(body, says):
    """L06: null in place of the list is refused clearly."""
    with pytest.raises(pages.PageError, match=says):
        pages.envelope(body)


def test_printable_text_survives_whole():
    everything = string.printable + "ÿ€𝄞"
    rows = pages.read_fast([page([observation(1, server__failure_text=everything)])])
    assert rows["failure_text"].to_list() == [everything]
