"""JSON logs: one object a line, with the resource it is about. Knows no secrets because it is given none.

kopf's own loggers go through the same handler; its object reference (`k8s_ref`) becomes `resource`.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any

_LONGEST_MESSAGE = 4096
REPEAT_SECONDS = 600.0


class JsonFormatter(logging.Formatter):
    """Formats a record as one line of JSON: time, severity, logger, message, and the fields of `extra`."""

    def format(self, record: logging.LogRecord) -> str:
        """See `logging.Formatter`."""
        entry: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "severity": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage()[:_LONGEST_MESSAGE],
        }
        entry.update(getattr(record, "fields", {}))
        reference = getattr(record, "k8s_ref", None)
        if reference:
            entry["resource"] = f"{reference.get('namespace')}/{reference.get('name')}"
        if record.exc_info:
            entry["exception"] = self.formatException(record.exc_info)[-_LONGEST_MESSAGE:]
        return json.dumps(entry, ensure_ascii=True, default=str)


class RepeatedErrors(logging.Filter):
    """Lets an error with its traceback pass once in ten minutes: what fails at every tick says so often enough."""

    def __init__(self) -> None:
        super().__init__()
        self._told: dict[tuple[str, object], float] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Tell whether the record is worth its lines."""
        if not record.exc_info:
            return True
        key, since = (record.getMessage(), record.exc_info[0]), record.created - REPEAT_SECONDS
        self._told = {known: at for known, at in self._told.items() if at > since}
        if key in self._told:
            return False
        self._told[key] = record.created
        return True


def configure(level: str) -> None:
    """Send all logs of the process to stderr as JSON."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonFormatter())
    handler.addFilter(RepeatedErrors())
    root = logging.getLogger()
    root.handlers[:] = [handler]
    root.setLevel(level)
    # One line a request and an event would drown what the operator has to say.
    for chatty in ("aiohttp.access", "kopf.objects", "kopf._core.engines.activities", "urllib3"):
        logging.getLogger(chatty).setLevel(logging.WARNING)
