"""Results that are kept of a play: one JSON line in a file that a run which was stopped goes on with.

A line counts only under the fingerprint that it was written with: the code and the scenario that it depends on. So a
changed law leaves the figures of the other policies standing, and its own not.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, fields
from pathlib import Path

from policies.cells import Cell


@dataclass(frozen=True, slots=True)
class Span:
    """Part of a play: percent of the requests inside the SLA, and GPU-hours."""

    attainment_percent: float
    gpu_hours: float


@dataclass(frozen=True, slots=True)
class Figures:
    """Figures of a play, after the warm-up."""

    requests: int
    attainment_percent: float
    worst_hour_attainment_percent: float
    windows_under_95_percent: float
    gpu_hours: float
    scale_events: int
    static_peak_replicas: int
    seconds: float
    """Seconds of one core: the play without making the traffic, and without the process of Dynamo's planner."""
    first_hour: Span
    """Span of the traffic's first hour, warm-up or not."""
    later: Span
    """All after the first hour."""
    capacity_factor: float | None = None
    """Factor that our policy had learned of the capacity after the first hour; None: nothing."""
    standby_gpu_hours: float = 0.0
    """Those of the GPU-hours in which a replica was on standby."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One line."""

    cell: Cell
    figures: Figures


class Results:
    """The file. One process writes it."""

    def __init__(self, file: Path) -> None:
        """Read what is there; a line that was cut off when a run was killed, or is of an older form, is passed over."""
        self._file = file
        self._known: dict[tuple[str, str], Outcome] = {}
        for line in self._lines():
            try:
                record = json.loads(line)
                outcome = Outcome(Cell(**record["cell"]), _figures(record["figures"]))
                self._known[outcome.cell.key, str(record["fingerprint"])] = outcome
            except (ValueError, TypeError, KeyError):
                continue

    def get(self, cell: Cell, fingerprint: str) -> Outcome | None:
        """Outcome of a cell, where it is known."""
        return self._known.get((cell.key, fingerprint))

    def add(self, outcome: Outcome, fingerprint: str) -> None:
        """Keep an outcome, on disk at once."""
        self._known[outcome.cell.key, fingerprint] = outcome
        record = {"fingerprint": fingerprint, "cell": asdict(outcome.cell), "figures": asdict(outcome.figures)}
        self._file.parent.mkdir(parents=True, exist_ok=True)
        with self._file.open("a", encoding="utf-8") as file:
            # NB: begins with the end of the line, because a killed run may have left one without.
            file.write("\n" + json.dumps(record) + "\n")

    def _lines(self) -> Iterator[str]:
        if self._file.exists():
            yield from self._file.read_text(encoding="utf-8").splitlines()


def _figures(record: dict[str, object]) -> Figures:
    if set(record) != {field.name for field in fields(Figures)}:
        raise ValueError("the figures are of another form")
    spans = {name: Span(**record[name]) for name in ("first_hour", "later")}  # type: ignore[arg-type]
    return Figures(**{**record, **spans})  # type: ignore[arg-type]
