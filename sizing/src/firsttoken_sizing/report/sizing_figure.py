"""Sizings as a picture: latency of one replica against its rate, for those who want to see the knee.

Shows the tables that the sizings hold and computes nothing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from firsttoken_sizing.profile import STATISTICS, Latency
from firsttoken_sizing.report.cells import LATENCIES, certainty, replicas_range
from firsttoken_sizing.report.figure import Axis, Dash, Figure, LimitLine, Mark, MarkKind, Panel, Series
from firsttoken_sizing.report.slow_few import Shown, remarks
from firsttoken_sizing.request import Sizing
from firsttoken_sizing.workload import Limit, Percentile

_RATE = Axis("Requests/s of one replica")
_LEGEND = "Dotted: mean. Solid: the statistic of the limit (P95 without one). Star: the operating point of the size."


def sizing_figure(sizings: Sequence[tuple[str, Sizing]]) -> Figure:
    """The picture of named sizings. One panel for each of TTFT, ITL and E2E, in milliseconds over requests/s a replica.

    Lines are the mean (dotted) and the statistic of the SLA (P95 where there is no limit), across the panel runs the
    limit, a star is the operating point that the size stands on. An infeasible sizing has no curve and is named in the
    notes.
    """
    names = {name for name, _ in sizings}
    panels = []
    for metric, latency, field in LATENCIES:
        series: list[Series] = []
        marks: list[Mark] = []
        for color, (name, sizing) in enumerate(sizings):
            # NB: the panel has the metric and the title the one name there is, or the legend says both on every line.
            label = f"{name}, {sizing.arrivals.value}" if len(names) > 1 else sizing.arrivals.value
            limit: Limit | None = getattr(sizing.request.sla, field)
            series += _series(sizing, latency, limit, label, color)
            marks += _chosen(sizing, latency, limit, label, color)
        declared: set[Limit] = {x for _, s in sizings if (x := getattr(s.request.sla, field)) is not None}
        limits = (
            LimitLine(f"limit: {metric} {x.percentile.value} {x.milliseconds:g} ms", x.milliseconds, vertical=False)
            for x in sorted(declared, key=lambda x: (x.milliseconds, x.percentile))
        )
        panels.append(Panel(_RATE, Axis(f"{metric} (ms)", log=True), tuple(series), tuple(limits), tuple(marks)))
    notes = tuple(f"{name}, {sizing.arrivals.value}: {_answer(sizing)}" for name, sizing in sizings)
    title = "Latency against the rate of one replica"
    if len(names) == 1:
        title = f"{min(names)}: {title[:1].lower()}{title[1:]}"
    return Figure(title, tuple(panels), (_LEGEND, *remarks(_drawn(sizings)), *notes))


def _drawn(sizings: Iterable[tuple[str, Sizing]]) -> Iterable[Shown]:
    """Every row of the tables."""
    for _, sizing in sizings:
        for _, latency, field in LATENCIES if sizing.table is not None else ():
            statistic = _statistic(getattr(sizing.request.sla, field))
            for row in getattr(sizing.table, latency).tolist():
                yield sizing.arrivals, statistic, Latency(*row)


def _series(sizing: Sizing, latency: str, limit: Limit | None, label: str, color: int) -> Iterable[Series]:
    table = sizing.table
    if table is None:
        return
    columns = getattr(table, latency)
    for shown in dict.fromkeys((Percentile.MEAN, _statistic(limit))):
        values = columns[:, STATISTICS.index(shown.key)]
        known = ~np.isnan(values)
        if known.any():
            yield Series(
                name=(name := f"{label} {shown.value}"),
                group=name,
                x=tuple(table.rates[known].tolist()),
                y=tuple(values[known].tolist()),
                color=color,
                dash=Dash.DOTTED if shown is Percentile.MEAN else Dash.SOLID,
            )


def _chosen(sizing: Sizing, latency: str, limit: Limit | None, label: str, color: int) -> Iterable[Mark]:
    statistic = _statistic(limit)
    value = getattr(sizing, latency).at(statistic)
    if value is not None:
        rate = sizing.requests_per_second_per_replica
        yield Mark(MarkKind.CHOSEN, f"{label} {statistic.value} as sized", rate, value, color)


def _statistic(limit: Limit | None) -> Percentile:
    return limit.percentile if limit else Percentile.P95


def _answer(sizing: Sizing) -> str:
    if not sizing.feasible:
        return f"none ({sizing.reason})"
    return f"{replicas_range(sizing)} replicas, {certainty(sizing.basis, sizing.band)}"
