"""Real short texts that every machine has: the sentences that Python's own library says about itself.

Promises the same texts from the same Python. Leaves out any corpus of our own.
"""

import ast
import re
import sysconfig
from itertools import islice
from pathlib import Path


def sentences(count: int) -> list[str]:
    """So many short texts; once the sentences are used up, they come again with a number."""
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
    return own + [f"{own[place % len(own)]} {place}" for place in range(len(own), count)]
