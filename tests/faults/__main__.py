"""The long form of this folder: `make faults`, or `python -m tests.faults --seconds 600`.

For each database: a fleet under a store that keeps dying, and histories of contending writers. PostgreSQL is
found and started as the tests do it; where there is none, that half is left out and said so.
"""

import argparse
import subprocess
import sys
from contextlib import ExitStack

from tests.postgres import Postgres, Unusable

PROGRAMS = ("tests.faults.kills", "tests.faults.contention")


def main() -> int:
    """Run everything; exit status 1 when anything was lost, doubled, half there or out of order."""
    parser = argparse.ArgumentParser(prog="python -m tests.faults", description="faults, the long form")
    parser.add_argument("--seconds", type=float, default=600.0, help="for each program and database")
    options = parser.parse_args()
    failed = False
    with ExitStack() as closing:
        server = None
        try:
            server = closing.enter_context(Postgres())
        except Unusable as why:
            print(f"PostgreSQL is left out: {why}", flush=True)
        for program in PROGRAMS:
            choices: dict[str, list[str]] = {"SQLite": []}
            if server is not None:
                choices["PostgreSQL"] = ["--database-url", server.new_database()]
            for database, choice in choices.items():
                print(f"\n{program} on {database}", flush=True)
                command = [sys.executable, "-m", program, "--seconds", str(options.seconds), *choice]
                failed |= subprocess.run(command, check=False).returncode != 0
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
