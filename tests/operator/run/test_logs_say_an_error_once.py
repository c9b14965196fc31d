"""An error that comes at every tick: one traceback in ten minutes, for each thing that fails."""

from __future__ import annotations

import logging
import sys

from firsttoken_operator.run.logs import RepeatedErrors


def record(message: str, error: Exception | None, at: float) -> logging.LogRecord:
    try:
        if error is not None:
            raise error
        raised = None
    except Exception:
        raised = sys.exc_info()
    made = logging.LogRecord("loop", logging.ERROR, "loop.py", 1, message, (), raised)
    made.created = at
    return made


def test_the_same_error_is_told_once_in_ten_minutes() -> None:
    errors = RepeatedErrors()
    passed = [at for at in range(0, 3600, 15) if errors.filter(record("no decision for a", ValueError(at), at))]

    assert passed == [0, 600, 1200, 1800, 2400, 3000]


def test_another_resource_another_error_and_what_is_no_error_pass() -> None:
    errors = RepeatedErrors()
    records = [
        record("no decision for a", ValueError(), 0),
        record("no decision for b", ValueError(), 1),
        record("no decision for a", KeyError(), 2),
        record("scaled", None, 3),
        record("scaled", None, 4),
    ]

    assert [errors.filter(made) for made in records] == [True] * 5
