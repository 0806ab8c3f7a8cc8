"""`python -m bench [--quick] [--only NAME]`: run each comparison and print the table."""

import argparse
import importlib
import sys

from rich.console import Console

from bench.table import Line, printed

# One line a comparison: a module of this package with `lines(*, quick) -> list[Line]`.
COMPARISONS = (
    "fingerprints",
    "recall",
    "memory_index",
    "pull",
    "scorecards",
    "weights",
    "store",
    "client_import",
)


def main() -> int:
    """Print the table; what a comparison is doing goes to standard error while it runs."""
    parser = argparse.ArgumentParser(prog="bench", description="The benchmark table, peers side by side.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, in under three minutes")
    parser.add_argument(
        "--only", choices=COMPARISONS, action="append", help="this comparison alone; repeatable"
    )
    chosen = parser.parse_args()
    progress = Console(stderr=True)
    lines: list[Line] = []
    for name in chosen.only or COMPARISONS:
        progress.print(f"measuring {name} …")
        lines += importlib.import_module(f"bench.{name}").lines(quick=chosen.quick)
    Console(width=None if sys.stdout.isatty() else 160).print(printed(lines))
    return 0


if __name__ == "__main__":
    sys.exit(main())
