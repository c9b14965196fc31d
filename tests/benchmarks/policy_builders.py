"""Plays that never happened, for the tests of what is made of plays."""

from __future__ import annotations

from policies.cells import Cell
from policies.results import Figures, Outcome, Span


def outcome(
    cell: Cell,
    attainment: float = 99.5,
    gpu_hours: float = 100.0,
    *,
    later: Span | None = None,
    factor: float | None = None,
    seconds: float = 10.0,
) -> Outcome:
    span = Span(attainment, gpu_hours)
    figures = Figures(
        requests=1000,
        attainment_percent=attainment,
        worst_hour_attainment_percent=attainment - 1,
        windows_under_95_percent=0.5,
        gpu_hours=gpu_hours,
        scale_events=7,
        static_peak_replicas=5,
        seconds=seconds,
        first_hour=span,
        later=later or span,
        capacity_factor=factor,
    )
    return Outcome(cell, figures)
