"""Code of other packages, called in a process of its own that is ended when its time is over.

Promises that whatever hangs there, in Python or below it, is stopped, and that its caller goes on: what comes
back is a value, what the code raised, or the sentence that its time was up. The process is started at the
first call and kept for the next ones; it holds no key of the store, the lake or the history. Leaves out
trusting the code: it runs as the same user, and is called once the caller has loaded it, to read its spec.
"""

import atexit
import importlib
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from typing import IO, Any, TypeVar

from assets import object_storage
from tessera.errors import TesseraError

T = TypeVar("T")
_SECRETS = ("TESSERA_KEY", "TESSERA_DATABASE_URL", "DAGSTER_PG_PASSWORD", *object_storage.SECRETS)
_TEXT = 64 << 10
_FRAMES = 12
_ORPHAN_SECONDS = 1.0
"""How much later than its caller would the process ends itself, in case the caller is gone."""


class TimeOver(TesseraError):  # noqa: N818 - the sentence reads as what it is
    """The call took longer than it may, and was stopped."""


class Raised(Exception):  # noqa: N818 - it stands for the error that was raised there
    """What the code raised, as ``Kind: text``; the notes say where."""


def call(function: Callable[..., T], *arguments: Any, seconds: float) -> T:
    """``function(*arguments)``, of a module's top level, done there.

    Raises TimeOver after so many ``seconds``, the waiting for an earlier call not counted; TesseraError for
    what the code refused with one, and for a process that ended by itself; Raised for any other error.
    """
    with _turn:
        return _kept.call(function, arguments, seconds)  # type: ignore[no-any-return]


def without_secrets() -> dict[str, str]:
    """The environment for code that is not ours: without the keys of the store, the lake and the history."""
    return {name: value for name, value in os.environ.items() if name not in _SECRETS}


class _Process:
    """The one process of this one, started when it is needed."""

    def __init__(self) -> None:
        self._started: subprocess.Popen[bytes] | None = None

    def call(self, function: Callable[..., Any], arguments: tuple[Any, ...], seconds: float) -> Any:
        began, over = time.monotonic(), threading.Event()
        process = self._running()

        def stop() -> None:
            over.set()
            process.kill()

        timer = threading.Timer(max(seconds, 0.0), stop)
        timer.daemon = True
        timer.start()
        try:
            kind, value = self._asked(process, function, arguments, seconds)
        except (EOFError, OSError, pickle.UnpicklingError):
            self.end()
            if over.is_set() or process.returncode == -signal.SIGALRM:
                spent = time.monotonic() - began
                raise TimeOver(f"it was stopped after {spent:.1f} seconds") from None
            raise TesseraError(f"its process ended by itself, with status {process.returncode}") from None
        except BaseException:  # interrupted, or what cannot be sent: what it is at by now is not known
            self.end()
            raise
        finally:
            timer.cancel()
        if over.is_set():  # it answered in the very moment that it was stopped
            self.end()
        if kind == "value":
            return value
        sentence, where = value
        error = TesseraError(sentence) if kind == "refused" else Raised(sentence)
        error.add_note(where)
        raise error

    def _asked(
        self, process: "subprocess.Popen[bytes]", function: Any, arguments: Any, seconds: float
    ) -> tuple[str, Any]:
        assert process.stdin is not None and process.stdout is not None  # noqa: S101, PT018 - made with pipes
        pickle.dump((list(sys.path), seconds), process.stdin)
        pickle.dump((function, arguments), process.stdin, pickle.HIGHEST_PROTOCOL)
        process.stdin.flush()
        answer: tuple[str, Any] = pickle.load(process.stdout)  # noqa: S301 - our own process
        return answer

    def _running(self) -> "subprocess.Popen[bytes]":
        if self._started is None or self._started.poll() is not None:
            self.end()
            path = os.pathsep.join(one for one in sys.path if one)
            self._started = subprocess.Popen(
                [sys.executable, "-m", __name__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                env={**without_secrets(), "PYTHONPATH": path},
            )
        return self._started

    def end(self) -> None:
        """End the process, if there is one; the next call starts another."""
        process, self._started = self._started, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with suppress(OSError):  # what it did not take any more
                    pipe.close()


_kept, _turn = _Process(), threading.Lock()
atexit.register(_kept.end)


def serve(asked: IO[bytes], answers: IO[bytes]) -> None:
    """Do one call after the other until nobody asks any more."""
    while True:
        try:
            path, seconds = pickle.load(asked)  # noqa: S301 - from the process that started this one
        except EOFError:
            return
        signal.setitimer(signal.ITIMER_REAL, seconds + _ORPHAN_SECONDS)
        if sys.path != path:
            sys.path[:] = path
            importlib.invalidate_caches()
        answer = _answer(asked)
        signal.setitimer(signal.ITIMER_REAL, 0)
        answers.write(answer)
        answers.flush()


def _answer(asked: IO[bytes]) -> bytes:
    try:
        function, arguments = pickle.load(asked)  # noqa: S301 - as above
        return pickle.dumps(("value", function(*arguments)), pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        refused = isinstance(error, TesseraError)
        sentence = str(error) if refused else f"{type(error).__name__}: {error}"
        where = "".join(traceback.format_tb(error.__traceback__, -_FRAMES))
        told = sentence.encode("utf-8", "replace")[:_TEXT].decode("utf-8", "ignore")
        return pickle.dumps(("refused" if refused else "raised", (told, where[:_TEXT])))


if __name__ == "__main__":
    with os.fdopen(os.dup(1), "wb") as answers:
        os.dup2(2, 1)  # what the code prints is no answer
        serve(sys.stdin.buffer, answers)
