"""What a worker pays for its client, in a fresh Python: milliseconds, and what came along."""

import json
import statistics
import subprocess
import sys

from bench.table import Line

HEAVY = ("dagster", "polars", "pandas", "pyarrow", "sqlalchemy", "fastapi")
IMPORT = ("from tessera import Client", "import httpx")
FIRST = ("from tessera import Client; Client('http://127.0.0.1:9', 'none')", "import httpx; httpx.Client()")
PROGRAM = """
import json, sys, time
start = time.perf_counter()
exec(sys.argv[1])
print(json.dumps({"ms": (time.perf_counter() - start) * 1e3, "modules": list(sys.modules)}))
"""


def lines(*, quick: bool) -> list[Line]:
    """The import, and the import with a first client made, each beside the bare HTTP library's."""
    runs = 5 if quick else 15
    return [
        _line("import of tessera.Client", IMPORT, "< 150 ms", runs),
        _line("import and a first client", FIRST, "", runs),
    ]


def _line(work: str, statements: tuple[str, str], reach: str, runs: int) -> Line:
    ours, came = _median(statements[0], runs)
    theirs, _ = _median(statements[1], runs)
    heavy = [name for name in HEAVY if name in came]
    binds = f"loads {', '.join(heavy)}" if heavy else "the HTTP library; no Dagster, no polars"
    return Line(work, ours, "httpx alone", theirs, "ms", theirs / ours, reach, binds)


def _median(statement: str, runs: int) -> tuple[float, set[str]]:
    taken, modules = [], set()
    for _ in range(runs):
        out = subprocess.run(
            [sys.executable, "-c", PROGRAM, statement], capture_output=True, check=True
        ).stdout
        answer = json.loads(out)
        taken.append(answer["ms"])
        modules = set(answer["modules"])
    return statistics.median(taken), modules
