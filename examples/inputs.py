"""Which files the example fleet works on: real ones of this machine, drawn by a seed, so that runs ask alike.

`briefs` gives the n-th task of the queue for any n, so that a later run goes on where the earlier stopped.
The budgets are drawn without a look at any codec's result.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from examples.compress import ROOTS
from tessera.observations import REPORTING_HINT

SEED = 20_240
LONGEST = 96 * 1024
SHORTEST = 1500


@dataclass(frozen=True, slots=True)
class Sort:
    """One sort of input: where its files are, how they are read, and the ranges of its size budgets."""

    kind: str
    places: tuple[tuple[str, str], ...]
    form: str
    tight: tuple[float, float]
    roomy: tuple[float, float]


SORTS = (
    Sort("verb.compress.source", (("stdlib", "**/*.py"),), "bytes", (0.20, 0.30), (0.30, 0.40)),
    Sort("verb.compress.bytecode", (("stdlib", "**/*.py"),), "bytecode", (0.32, 0.42), (0.42, 0.54)),
    Sort(
        "verb.compress.native",
        (("stdlib", "lib-dynload/*.so"), ("packages", "*/**/*.so")),
        "bytes",
        (0.28, 0.38),
        (0.38, 0.48),
    ),
    Sort(
        "verb.compress.packed",
        (
            ("stdlib", "ensurepip/_bundled/*.whl"),
            ("packages", "marimo/**/*.woff2"),
            ("packages", "dagster*/**/*.png"),
        ),
        "bytes",
        (0.97, 1.0),
        (1.0, 1.02),
    ),
)


@cache
def candidates(sort: Sort) -> tuple[tuple[str, str, int], ...]:
    """(root, path, size in bytes) of every file that fits the sort, in an order that the seed fixes."""
    found = []
    for root, pattern in sort.places:
        for path in sorted(ROOTS[root].glob(pattern)):
            relative = path.relative_to(ROOTS[root])
            if _apart(relative) or not path.is_file():
                continue
            size = path.stat().st_size
            if size >= SHORTEST and (sort.form == "bytes" or size <= LONGEST):
                found.append((root, relative.as_posix(), size))
    random.Random(f"{SEED}:{sort.kind}").shuffle(found)
    return tuple(found)


def _apart(path: Path) -> bool:
    """Test suites hold files that are broken on purpose, and site-packages is the other root's."""
    return not {"test", "tests", "site-packages", "dist-packages", "lib2to3"}.isdisjoint(path.parts)


def briefs(first: int, count: int) -> Iterator[tuple[str, dict[str, Any]]]:
    """(kind, brief) of the tasks `first` to `first + count - 1`.

    The sorts take turns; one that has no files on this machine sits out.
    """
    sorts = [sort for sort in SORTS if candidates(sort)]
    for number in range(first, first + count):
        sort = sorts[number % len(sorts)]
        yield sort.kind, _brief(sort, number, number // len(sorts))


def _brief(sort: Sort, number: int, turn: int) -> dict[str, Any]:
    files = candidates(sort)
    root, path, size = files[turn % len(files)]
    dice = random.Random(f"{SEED}:{sort.kind}:{turn}")
    whole = sort.form == "bytecode"  # a part of a source file does not compile
    length = size if whole else min(size, LONGEST)
    task = dice.choice(("tight", "roomy"))
    budget = round(dice.uniform(*getattr(sort, task)), 4)
    return {
        "template": f"fit-{task}",
        "title": f"Compress {path} to {budget:.1%} of its size",
        "file": {
            "root": root,
            "path": path,
            "offset": 0 if whole else dice.randint(0, size - length),
            "length": length,
            "form": sort.form,
        },
        "size_budget": budget,
        "reporting": REPORTING_HINT,
    }
