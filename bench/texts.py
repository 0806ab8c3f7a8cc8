"""Real short texts that every machine has: the sentences that Python's own library says about itself.

Promises the same texts from the same Python. Leaves out any corpus of our own.
"""

import ast
import re
import sysconfig
from itertools import islice
from pathlib import Path


def sentences(count: int) -> list[str]:
    """So many short texts; once the sentences are used up, the first half of one with the last of another."""
    found: dict[str, None] = {}
    for path in sorted(Path(sysconfig.get_paths()["stdlib"]).glob("*/*.py")):
        if len(found) >= count:
            break
        try:
            tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError):
            continue
        for node in ast.walk(tree):
            if isinstance(node, ast.Constant) and isinstance(node.value, str) and len(node.value) > 40:
                for sentence in re.split(r"(?<=[.:;])\s+|\n\s*\n", node.value):
                    if 40 <= len(sentence) <= 400:
                        found.setdefault(" ".join(sentence.split()))
    own = list(islice(found, count))
    mixed = (
        _mixed(own[place % len(own)], own[(7 * place + place // len(own)) % len(own)])
        for place in range(count)
    )
    return own + list(islice(mixed, count - len(own)))


def _mixed(one: str, other: str) -> str:
    return one[: len(one) // 2] + other[len(other) // 2 :]
