"""A proposer that is any command: what it is told, what it may say, and how it is stopped."""

import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from assets.command_proposer import CommandError, CommandProposer
from learners.review import BoundedMemory, ReviewError, review_and_learn, score_threshold_gate

PROPOSAL = {"target": "memory", "op": {"action": "add", "text": "prefer lzma"}, "score": 0.9}


def program(code: str, **bounds: Any) -> CommandProposer:
    return CommandProposer([sys.executable, "-c", f"import json, os, sys, time\n{code}"], **bounds)


def test_the_summary_goes_in_as_json_and_proposals_come_out() -> None:
    code = "asked = json.load(sys.stdin)\nprint(json.dumps([{'said': asked['summary']}]))"

    assert program(code)('a "quoted" é\n§ summary') == [{"said": 'a "quoted" é\n§ summary'}]


def test_an_object_with_proposals_will_do_and_listening_is_not_needed() -> None:
    assert program(f"print(json.dumps({{'proposals': [{PROPOSAL!r}]}}))")("x" * 1_000_000) == [PROPOSAL]


def test_its_proposals_are_validated_like_any_others() -> None:
    memory = BoundedMemory()
    bad = {**PROPOSAL, "score": "0.9"}

    with pytest.raises(ReviewError, match="score: must be a number") as stopped:
        review_and_learn(
            "s", program(f"print(json.dumps([{PROPOSAL!r}, {bad!r}]))"), score_threshold_gate(), memory
        )

    assert stopped.value.outcome.applied == [PROPOSAL]
    assert memory.entries("memory") == ["prefer lzma"]


@pytest.mark.parametrize(
    ("code", "why"),
    [
        ("print('no json')", "no JSON"),
        ("print('[1, NaN]')", "no JSON"),
        ('print(\'[{"a": 1, "a": 2}]\')', "no JSON"),
        ("print('7')", "neither a list"),
        ("print('{}')", "neither a list"),
        ("print([0] * 101)", "made 101 proposals"),
        ("sys.exit('out of tokens')", "status 1: out of tokens"),
        ("os.kill(os.getpid(), 9)", "status -9"),
        ("print('[' + '0,' * 4000 + '0]')", "more than 1000 bytes"),
        ("time.sleep(60)", "longer than 0.5 seconds"),
        ("os.close(1)\ntime.sleep(60)", "longer than 0.5 seconds"),
        ("sys.stderr.write('x' * 10_000_000)\nsys.exit(3)", "status 3: x"),
    ],
)
def test_what_it_does_wrong_is_said_in_a_sentence(code: str, why: str) -> None:
    bounds = {"seconds": 0.5} if "sleep" in code else {"output_bytes": 1000}

    with pytest.raises(CommandError, match=why) as refused:
        program(code, **bounds)("summary")

    assert len(str(refused.value)) < 3000


def test_an_endless_talker_is_stopped_soon_and_so_is_what_it_started(tmp_path: Path) -> None:
    child = tmp_path / "child"
    code = (
        "import subprocess\n"
        f"child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(60)'])\n"
        f"open({str(child)!r}, 'w').write(str(child.pid))\n"
        "while True: print('x' * 1000)"
    )
    began = time.monotonic()

    with pytest.raises(CommandError, match="more than"):
        program(code)("summary")

    assert time.monotonic() - began < 20
    pid = int(child.read_text())
    for _ in range(100):
        if not _lives(pid):
            break
        time.sleep(0.05)
    assert not _lives(pid)


def _lives(pid: int) -> bool:
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"


def test_no_shell_reads_the_command(tmp_path: Path) -> None:
    code = "import json, sys; print(json.dumps([{'argument': sys.argv[1]}]))"
    written = f"; touch {tmp_path / 'touched'} $(id) `id` *"

    said = CommandProposer([sys.executable, "-c", code, written])("summary")

    assert said == [{"argument": written}]
    assert list(tmp_path.iterdir()) == []


def test_it_holds_no_key_of_the_store(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TESSERA_KEY", "secret")
    monkeypatch.setenv("TESSERA_DATABASE_URL", "postgresql://secret")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")

    (seen,) = program("print(json.dumps([dict(os.environ)]))")("summary")

    assert "secret" not in json.dumps(seen)
    assert seen["PATH"] == os.environ["PATH"]


@pytest.mark.parametrize("command", [[], "echo []", ["/nowhere/no-such-program"]])
def test_a_command_that_is_none_is_refused(command: Any) -> None:
    with pytest.raises(CommandError):
        CommandProposer(command)("summary")
