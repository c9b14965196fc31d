"""Requests that were recorded: a CSV of `arrival_s,input_tokens,output_tokens`, plain or gzip.

Columns are found by name, others are ignored. A trace says nothing of cached prefixes: their share is the caller's.
"""

from __future__ import annotations

import gzip
import warnings
from pathlib import Path
from typing import IO

import numpy as np

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.simulation.requests import Requests

COLUMNS = ("arrival_s", "input_tokens", "output_tokens")
_GZIP = b"\x1f\x8b"


def read_trace(
    file: Path, *, cached_input_percent: float = 0.0, until_s: float | None = None, field: str = "trace"
) -> Requests:
    """The requests of a trace, sorted by arrival, which counts from the first of them (seconds).

    `cached_input_percent` of every prompt is in the prefix cache; with `until_s` only the requests of the first so many
    seconds are taken. Raises `InvalidInput` under the name `field` for a
    file that cannot be read, lacks a column, is empty, or has a value that is no number, negative, or (tokens) below 1.
    """
    try:
        with _opened(file) as lines:
            names = [name.strip() for name in lines.readline().split(",")]
            if missing := [column for column in COLUMNS if column not in names]:
                raise InvalidInput(
                    field, f"{file} has no column {', '.join(missing)}", f"its first line must name {','.join(COLUMNS)}"
                )
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)  # that there is no data, which is refused below
                rows = np.loadtxt(lines, delimiter=",", usecols=[names.index(name) for name in COLUMNS], ndmin=2)
    except (OSError, EOFError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        raise InvalidInput(field, f"{file}: {reason}", "name a CSV file, plain or gzip") from error
    except ValueError as error:
        raise InvalidInput(field, f"{file}: {error} (rows count from 0)", "correct it") from error
    if not len(rows):
        raise InvalidInput(field, f"{file} has no requests", f"give lines of {','.join(COLUMNS)}")
    for i, column in enumerate(COLUMNS):
        least = 0 if column == "arrival_s" else 1
        wrong = ~(np.isfinite(rows[:, i]) & (rows[:, i] >= least))
        if wrong.any():
            row = int(wrong.argmax())
            raise InvalidInput(
                field, f"{file}: {column} of row {row} is {rows[row, i]:g} (rows count from 0)", f"use {least} or more"
            )
    rows = rows[np.argsort(rows[:, 0], kind="stable")]
    rows[:, 0] -= rows[0, 0]
    if until_s is not None:
        rows = rows[rows[:, 0] < until_s]
    prompt = np.rint(rows[:, 1]).astype(np.int64)
    uncached = np.maximum(1, np.rint(prompt * (1 - cached_input_percent / 100))).astype(np.int64)
    return Requests(rows[:, 0], prompt, uncached, np.rint(rows[:, 2]).astype(np.int64))


def _opened(file: Path) -> IO[str]:
    with file.open("rb") as raw:
        zipped = raw.read(len(_GZIP)) == _GZIP
    return gzip.open(file, "rt", encoding="utf-8") if zipped else file.open(encoding="utf-8")
