"""The server's log: one JSON object a line on stderr, with a time, a level, a logger and a message.

Promises that no secret is in it: what looks like one is blotted out, whoever wrote it, tracebacks included.
Levels: ``debug`` tells each request, ``info`` the server's life, keys made and revoked. Bodies, headers and
query strings are never logged.
"""

import json
import logging
import re
import sys
from typing import TextIO

from tessera.store.clock import rfc3339

_OURS = "tessera"
_SECRET = re.compile(r"tsk_[A-Za-z0-9_-]*|(?i:(bearer)\s+)[^\s'\",;]+")


class JsonLines(logging.Formatter):
    """A record as one line; ``extra={"fields": {…}}`` adds members."""

    def format(self, record: logging.LogRecord) -> str:
        """The line, without its end."""
        told = {
            "time": rfc3339(int(record.created * 1000)),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            told["traceback"] = self.formatException(record.exc_info)
        return _SECRET.sub(_blot, json.dumps(told, ensure_ascii=True, default=str))


def configure(level: str, stream: TextIO | None = None) -> None:
    """Send this process's log to ``stream`` (stderr): ours from ``level`` on, others' from warning on."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(JsonLines())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(logging.WARNING)
    logging.getLogger(_OURS).setLevel(level.upper())
    logging.captureWarnings(True)


def _blot(found: re.Match[str]) -> str:
    return f"{found[1]} [key]" if found[1] else "[key]"
