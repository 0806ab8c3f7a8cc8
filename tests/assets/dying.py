"""Work for processes that die of it; imports nothing, so that a fresh process starts soon."""

import os
import sys
import time
from pathlib import Path


def dies_once(task: tuple[int, str]) -> int:
    """The number; at 2 the process dies, the first time."""
    number, marker = task
    if number == 2 and not Path(marker).exists():
        Path(marker).touch()
        os._exit(9)
    return number


def dies(number: int) -> int:
    """The number; at 2 the process dies."""
    if number == 2:
        os._exit(9)
    return number


def refuses(number: int) -> int:
    """Raises at 2."""
    if number == 2:
        raise ValueError("two")
    return number


def waits(place: str) -> None:
    """Says who it is, and waits."""
    Path(place).write_text(str(os.getpid()), "ascii")
    time.sleep(60)


if __name__ == "__main__":
    from assets.spread import Processes

    list(Processes(1)(waits, [sys.argv[1]]))
