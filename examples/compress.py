"""The work of the example fleet: fit a real file into a budget of bytes and time, by one of several codecs.

It promises that an attempt is accepted only if the round trip is identical and both budgets hold, and that
what it reports was measured. It knows nothing of the store: a brief goes in, an `Attempt` comes out.
"""

import bz2
import hashlib
import lzma
import marshal
import sysconfig
import time
import zlib
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

HARNESS = "tessera-example-fleet"
SHIM = "python-stdlib"

# Each method is a pair: compress, and the inverse that must give the input back.
METHODS: dict[str, tuple[Callable[[bytes], bytes], Callable[[bytes], bytes]]] = {
    "zlib-1": (lambda data: zlib.compress(data, 1), zlib.decompress),
    "zlib-9": (lambda data: zlib.compress(data, 9), zlib.decompress),
    "bz2-9": (lambda data: bz2.compress(data, 9), bz2.decompress),
    "lzma-6": (lambda data: lzma.compress(data, preset=6), lzma.decompress),
    "lzma-9e": (lambda data: lzma.compress(data, preset=9 | lzma.PRESET_EXTREME), lzma.decompress),
}

# The files that briefs may name lie under these folders and nowhere else.
ROOTS = {
    "stdlib": Path(sysconfig.get_path("stdlib")),
    "packages": Path(sysconfig.get_path("platlib")),
}

CALIBRATION_BYTES = 256 * 1024
# A fixed part, for starting a codec, and a part for each calibration's worth of input; unit: one calibration.
CPU_UNITS_FIXED, CPU_UNITS_PER_BLOCK = 1.5, 9.0


class InputError(Exception):
    """The brief names a file that cannot be worked on; the text says why."""


@dataclass(frozen=True, slots=True)
class Attempt:
    """What became of one brief: `accepted`, and what to submit about it."""

    accepted: bool
    output: dict[str, Any] | None
    failure: str | None
    report: dict[str, Any]

    @property
    def submission(self) -> dict[str, Any]:
        """The keyword arguments of `Client.submit` beside task, fence and verdict."""
        return {"output": self.output, "failure": self.failure, "execution_report": self.report}


@cache
def cpu_unit() -> float:
    """Processor seconds that this machine takes for zlib's level 6 over 256 KiB of text, best of five."""
    lines = (f"{number:08d} {hashlib.sha256(str(number).encode()).hexdigest()}\n" for number in range(3600))
    text = "".join(lines).encode()[:CALIBRATION_BYTES]
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        zlib.compress(text, 6)
        best = min(best, time.process_time() - start)
    return best


def cpu_budget(size: int) -> float:
    """Processor seconds allowed for `size` bytes here: generous for all but a method slow by nature."""
    return cpu_unit() * (CPU_UNITS_FIXED + CPU_UNITS_PER_BLOCK * size / CALIBRATION_BYTES)


def read_input(file: Mapping[str, Any]) -> bytes:
    """The bytes that `file` names: `{root, path, offset, length, form}`; `form` is `bytes` or `bytecode`."""
    root = ROOTS.get(file["root"])
    if root is None:
        raise InputError(f"unknown root {file['root']!r}")
    path: Path = root / file["path"]
    if not path.resolve().is_relative_to(root.resolve()):
        raise InputError(f"{file['path']} lies outside {file['root']}")
    try:
        with path.open("rb") as source:
            source.seek(file["offset"])
            data: bytes = source.read(file["length"])
    except OSError as error:
        raise InputError(f"cannot read {file['path']}: {error.strerror}") from error
    if file["form"] == "bytecode":
        try:
            code = compile(data, file["path"], "exec", dont_inherit=True)
            return marshal.dumps(code, 2)  # from version 3 on the bytes depend on reference counts
        except (SyntaxError, ValueError) as error:
            raise InputError(f"{file['path']} does not compile: {error}") from error
    return data


def compress(brief: Mapping[str, Any], method: str, advice: Mapping[str, Any] | None = None) -> Attempt:
    """Do what `brief` asks by `method` and judge it; an input that is missing is a failure, not an error.

    `advice` is what the choice of the method went by; the report cites it.
    """
    attempt = _tried(brief, method)
    if advice is not None:
        attempt.report["learning"]["advice"] = [dict(advice)]
    return attempt


def _tried(brief: Mapping[str, Any], method: str) -> Attempt:
    started = time.perf_counter()
    file = brief["file"]
    try:
        data = read_input(file)
    except InputError as error:
        return _attempt(None, "blocked", str(error), f"Fit {file['path']} into its budget", method, started)
    allowed = int(len(data) * brief["size_budget"])
    encode, decode = METHODS[method]
    cpu_started = time.process_time()
    packed = encode(data)
    cpu = time.process_time() - cpu_started
    measured = {
        "method": method,
        "bytes": len(packed),
        "of": len(data),
        "allowed": allowed,
        "sha256": hashlib.sha256(packed).hexdigest(),
    }
    problem = f"Fit {file['path']} ({len(data)} bytes as {file['form']}) into {allowed} bytes"
    failure = _fault(data, packed, decode, allowed, cpu)
    outcome = "succeeded" if failure is None else "no_change" if len(packed) >= len(data) else "failed"
    return _attempt(measured, outcome, failure, problem, method, started)


def _fault(
    data: bytes, packed: bytes, decode: Callable[[bytes], bytes], allowed: int, cpu: float
) -> str | None:
    if decode(packed) != data:
        return "the round trip does not give the input back"
    if len(packed) > allowed:
        return f"over the size budget: {len(packed)} bytes of {allowed} allowed, from {len(data)}"
    limit = cpu_budget(len(data))
    if cpu > limit:
        return f"over the time budget: {cpu * 1e3:.1f} ms of processor time of {limit * 1e3:.1f} ms allowed"
    return None


def _attempt(
    measured: dict[str, Any] | None,
    outcome: str,
    failure: str | None,
    problem: str,
    method: str,
    started: float,
) -> Attempt:
    learning: dict[str, Any] = {
        "outcome": outcome,
        "path": {"shim": SHIM, "method": method},
        "duration_seconds": round(time.perf_counter() - started, 6),
        "cost": None,
        "unknowns": [{"field": "cost", "reason": "processor time on this machine has no price"}],
    }
    summaries = {"problem": problem}
    if measured is not None:
        ratio = measured["bytes"] / max(measured["of"], 1)
        summaries["solution"] = f"{method}: {measured['bytes']} bytes, {ratio:.1%} of the input"
    if failure is not None:
        learning["went_wrong"] = [failure]
    report = {"summaries": summaries, "harness": HARNESS, "model": None, "learning": learning}
    return Attempt(failure is None, measured, failure, report)
