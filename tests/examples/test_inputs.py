"""Which tasks the fleet is given."""

from itertools import islice

from examples.compress import ROOTS, read_input
from examples.inputs import SORTS, briefs, candidates


def test_a_later_run_goes_on_where_the_earlier_one_stopped() -> None:
    assert [*briefs(0, 8), *briefs(8, 8)] == list(briefs(0, 16))


def test_the_sorts_of_input_take_turns() -> None:
    available = [sort.kind for sort in SORTS if candidates(sort)]

    kinds = [kind for kind, _ in briefs(0, 3 * len(available))]

    assert kinds == available * 3


def test_a_brief_leaves_the_method_to_whoever_chooses() -> None:
    assert all("method" not in brief for _, brief in briefs(0, 8))


def test_a_brief_names_a_file_of_this_machine_without_saying_where_it_lies() -> None:
    for _, brief in islice(briefs(0, 40), 40):
        assert read_input(brief["file"])
        assert not any(str(root) in str(brief) for root in ROOTS.values())


def test_source_and_bytecode_are_always_there() -> None:
    assert len(candidates(SORTS[0])) > 100
    assert len(candidates(SORTS[1])) > 100
