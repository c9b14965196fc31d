"""Benchmark files as documents: reading one, and taking numbers out of it without ever guessing.

A number that is not there is None where it may be missing; one that is there but is no finite positive number makes the
file unreadable, with its place in the message: a NaN that slipped through would size a fleet.
"""

from __future__ import annotations

import csv
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from firsttoken_sizing.errors import UnreadableBenchmark
from firsttoken_sizing.profile import STATISTICS, Latency

PER_MILLISECOND = {"ns": 1e6, "us": 1e3, "ms": 1.0, "s": 1e-3, "sec": 1e-3, "seconds": 1e-3}
"""Units of time in one millisecond, by the names that benchmark tools write. A divisor, because
34,700,000 ns * 1e-6 is 34.699999999999996."""
_OWN_NAMES: Mapping[str, str] = MappingProxyType({})
_ABSENT = ("", "N/A", "n/a")
_GIVE_ORIGINAL = "give the JSON or CSV that the tool wrote"
_JSON_LINES = (
    "is JSON lines, a record of each request and not the summary of a run; import the .json that the tool writes beside"
    " it (AIPerf: profile_export_aiperf.json)"
)


@dataclass(frozen=True, slots=True)
class Row:
    """One line of a CSV file."""

    where: str
    cells: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Document:
    """A benchmark file: rows of a CSV, or the object of a JSON file (then `rows` is empty)."""

    file: str
    rows: tuple[Row, ...] = ()
    columns: tuple[str, ...] = ()
    data: Mapping[str, Any] | None = None
    ragged: str | None = None
    """The first line whose number of cells differs from the header's: a truncated file, or several tables in one."""

    @property
    def fields(self) -> Mapping[str, Any]:
        """The members of a JSON object; none for a CSV."""
        return self.data or {}

    @property
    def name(self) -> str:
        """The file without its folders."""
        return Path(self.file).name

    def unreadable(self, problem: str) -> UnreadableBenchmark:
        """The error that names this file."""
        return UnreadableBenchmark(self.file, problem)

    def _bad_value(self, problem: str) -> UnreadableBenchmark:
        """The error about one number, with what to do about it in a file of this kind."""
        fix = "remove that row" if self.data is None else "measure that run again"
        return self.unreadable(f"{problem}; correct it, or {fix}")

    def number(self, value: object, what: str) -> float:
        """A finite number above 0. Raises `UnreadableBenchmark` that names `what` otherwise."""
        found = self.optional_number(value, what)
        if found is None:
            raise self._bad_value(f"{what} is missing")
        return found

    def optional_number(self, value: object, what: str) -> float | None:
        """Number of a field like `number`, but None where the value is missing (absent, empty or `N/A`)."""
        number = self._optional_finite(value, what)
        if number is not None and number <= 0:
            raise self._bad_value(f"{what} is not a finite number above 0: {value}")
        return number

    def count(self, value: object, what: str) -> float:
        """A finite number that may be 0. Raises `UnreadableBenchmark` that names `what` otherwise."""
        found = self._optional_finite(value, what)
        if found is None:
            raise self._bad_value(f"{what} is missing")
        if found < 0:
            raise self._bad_value(f"{what} is below 0: {value}")
        return found

    def whole(self, value: object, what: str) -> int | None:
        """A whole number above 0, or None where it is missing. Raises `UnreadableBenchmark` that names `what`."""
        found = self.optional_number(value, what)
        if found is None:
            return None
        if not found.is_integer():
            raise self._bad_value(f"{what} is not a whole number: {value}")
        return int(found)

    def latency(
        self, values: Mapping[str, Any], where: str, names: Mapping[str, str] = _OWN_NAMES, per_millisecond: float = 1.0
    ) -> Latency:
        """Statistics of one latency in milliseconds, by the keys that the tool gives them where those are not ours.

        `where` goes before a key in messages; `per_millisecond` of the tool's unit are one millisecond. Raises
        `UnreadableBenchmark`.
        """
        keys = (names.get(statistic, statistic) for statistic in STATISTICS)
        found = [self.optional_number(values.get(key), f"{where}{key}") for key in keys]
        return Latency(*(None if value is None else value / per_millisecond for value in found))

    def _optional_finite(self, value: object, what: str) -> float | None:
        if value is None or (isinstance(value, str) and value.strip() in _ABSENT):
            return None
        if isinstance(value, bool) or not isinstance(value, (int, float, str)):
            raise self._bad_value(f"{what} is not a number: {value!r}")
        try:
            number = float(value)
        except (ValueError, OverflowError):
            raise self._bad_value(f"{what} is not a number: {value!r}") from None
        if not math.isfinite(number):
            raise self._bad_value(f"{what} is not a finite number above 0: {value}")
        return number


def mapping(value: object) -> Mapping[str, Any]:
    """A JSON object, or an empty one where the file has something else in its place."""
    return value if isinstance(value, dict) else {}


def label(value: object) -> str | None:
    """A name in a file, or None where it is empty or no text."""
    return (value.strip() or None) if isinstance(value, str) else None


def read_document(path: Path) -> Document:
    """Read a JSON object or a CSV table with a header. Raises `UnreadableBenchmark` where the file is neither."""
    file = str(path)
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise UnreadableBenchmark(
            file, f"cannot be read: {error.strerror}; name a file that exists and may be read"
        ) from error
    except UnicodeDecodeError as error:
        raise UnreadableBenchmark(file, f"is not text in UTF-8; {_GIVE_ORIGINAL}") from error
    if not text.strip():
        raise UnreadableBenchmark(file, f"is empty; {_GIVE_ORIGINAL}")
    if text.lstrip().startswith(("{", "[")):
        return Document(file=file, data=_json_object(file, text))
    return _csv_table(file, text)


def _json_object(file: str, text: str) -> Mapping[str, Any]:
    try:
        data = json.loads(text)
    except json.JSONDecodeError as error:
        if _is_one_object_a_line(text):
            raise UnreadableBenchmark(file, _JSON_LINES) from error
        problem = f"is not JSON: {error.msg} in line {error.lineno}; {_GIVE_ORIGINAL}, whole and unchanged"
        raise UnreadableBenchmark(file, problem) from error
    except ValueError as error:  # an integer of more digits than Python reads
        raise UnreadableBenchmark(file, f"is not a benchmark: {error}; {_GIVE_ORIGINAL}") from error
    except RecursionError as error:
        raise UnreadableBenchmark(file, f"is not a benchmark: nested too deeply; {_GIVE_ORIGINAL}") from error
    if not isinstance(data, dict):
        raise UnreadableBenchmark(file, f"is a JSON list, not an object; {_GIVE_ORIGINAL}")
    return data


def _is_one_object_a_line(text: str) -> bool:
    """Recognize a text that is no JSON document, but whose first two lines are, as in a file of requests."""
    first_lines = [line for line in text.split("\n") if line.strip()][:2]
    try:
        return len(first_lines) == 2 and all(isinstance(json.loads(line), dict) for line in first_lines)
    except (ValueError, RecursionError):
        return False


def _csv_table(file: str, text: str) -> Document:
    try:
        reader = csv.DictReader(text.splitlines(), strict=True)
        columns = tuple(reader.fieldnames or ())
        rows = []
        ragged = None
        for cells in reader:
            if ragged is None and (None in cells or None in cells.values()):
                ragged = f"line {reader.line_num} does not have {len(columns)} columns, as the header has"
            rows.append(Row(where=f"{file} line {reader.line_num}", cells=cells))
    except csv.Error as error:
        raise UnreadableBenchmark(file, f"is not CSV: {error}; {_GIVE_ORIGINAL}, whole and unchanged") from error
    if not rows:
        raise UnreadableBenchmark(file, "has no rows; give the CSV with the measured runs below its header")
    return Document(file=file, rows=tuple(rows), columns=columns, ragged=ragged)
