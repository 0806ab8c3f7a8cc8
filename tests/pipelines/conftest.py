"""The `workspace` command in this process, against a real store and an empty home."""

import io
import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from typing import Any

import pytest

from tessera.client import Client


@dataclass(frozen=True)
class Ended:
    """How a command ended and what it printed."""

    status: int
    out: str
    err: str


Command = Callable[..., Ended]


@pytest.fixture
def environment(tmp_path, monkeypatch):
    """A home of its own, reached from another folder than the project's."""
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    monkeypatch.chdir(elsewhere)
    for name in [name for name in os.environ if name.startswith("TESSERA_") or name == "DAGSTER_HOME"]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("TESSERA_HOME", str(tmp_path / "workspace"))
    monkeypatch.setenv("COLUMNS", "200")
    return monkeypatch


@pytest.fixture
def workspace(environment, store, capsys) -> Command:
    """`workspace("run", "--json")`: the command as a person runs it, with the store's admin key."""
    from pipelines.workspace import main

    environment.setenv("TESSERA_URL", store.url)
    environment.setenv("TESSERA_KEY", store.admin_key)

    def command(*arguments: str) -> Ended:
        environment.setattr(sys, "argv", ["workspace", *arguments])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        printed = capsys.readouterr()
        return Ended(int(ended.value.code or 0), printed.out, printed.err)

    return command


def learner_here(environment: Mapping[str, str], *arguments: str) -> "subprocess.CompletedProcess[str]":
    """The `learner` command in this process, with that environment and no other, and how it ended.

    As a process of its own it takes a second to start; `test_learner` starts some, for what only they show.
    """
    from pipelines.learner import main

    out, err = io.StringIO(), io.StringIO()
    with pytest.MonkeyPatch.context() as patched, redirect_stdout(out), redirect_stderr(err):
        for name in list(os.environ):
            patched.delenv(name)
        for name, value in environment.items():
            patched.setenv(name, value)
        patched.setattr(sys, "argv", ["learner", *arguments])
        with pytest.raises(SystemExit) as ended:
            main()
    status = int(ended.value.code or 0)
    return subprocess.CompletedProcess(arguments, status, out.getvalue(), err.getvalue())


def work(client: Client, queue: str, count: int, **brief: Any) -> None:
    """Do so many runs on a queue: every third one fails, every second one reports."""
    for number in range(count):
        client.enqueue(queue, "verb.pack", {"title": f"pack {number}", **brief})
        task = client.claim(queue)
        assert task is not None
        client.submit(
            task["task_id"],
            task["fence"],
            number % 3 != 0,
            failure=None if number % 3 else "too large | <b>",
            execution_report={"model": None, "learning": {"path": {"method": "zlib"}}}
            if number % 2
            else None,
        )


@pytest.fixture
def worked(store) -> Callable[..., None]:
    """`worked("packing", 5)`: so many real runs on a queue of the store."""
    client = store.client()
    return lambda queue, count, **brief: work(client, queue, count, **brief)
