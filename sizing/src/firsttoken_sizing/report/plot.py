"""Sizings as one HTML page: latency of one replica against its rate, for those who want to see the knee.

Draws the tables that the sizings hold and computes nothing. The page is self-contained: it opens without a network.
Imported by those who draw only, because it needs plotly (the extra `plots`).
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import plotly.graph_objects as go
from plotly.subplots import make_subplots

from firsttoken_sizing.performance.table import STATISTICS
from firsttoken_sizing.request import Sizing
from firsttoken_sizing.workload import Limit, Percentile

_PANELS = (
    ("TTFT", "ttft", "time_to_first_token"),
    ("ITL", "itl", "inter_token_latency"),
    ("E2E", "end_to_end", "end_to_end"),
)
_COLORS = ("#1f77b4", "#d62728", "#2ca02c", "#9467bd", "#ff7f0e", "#17becf")
_HEIGHT_OF_A_PANEL = 340


def sizing_plot(sizings: Sequence[tuple[str, Sizing]]) -> str:
    """The page of named sizings. One panel for each of TTFT, ITL and E2E, in milliseconds over requests/s a replica.

    Lines are the mean (dotted) and the statistic of the SLA (P95 where there is no limit); a dashed line is the limit,
    a diamond the operating point that the size stands on. An infeasible sizing has no curve and is named in the title.
    """
    panels = len(_PANELS)
    figure = make_subplots(
        rows=panels,
        cols=1,
        shared_xaxes=True,
        vertical_spacing=0.06,
        subplot_titles=[f"{metric} (ms)" for metric, _, _ in _PANELS],
    )
    for i, (name, sizing) in enumerate(sizings):
        for row, (metric, latency, limit) in enumerate(_PANELS, 1):
            label = f"{name}, {sizing.arrivals.value}: {metric}"
            for trace in _traces(sizing, latency, getattr(sizing.sla, limit), label, _COLORS[i % len(_COLORS)]):
                figure.add_trace(trace, row=row, col=1)
    fastest = max((float(s.table.rates[-1]) for _, s in sizings if s.table is not None), default=0.0)
    for row, (metric, _, field) in enumerate(_PANELS, 1):
        declared: set[Limit] = {x for _, s in sizings if (x := getattr(s.sla, field)) is not None}
        for bound in sorted(declared, key=lambda x: (x.milliseconds, x.percentile)):
            figure.add_trace(_limit(metric, bound, fastest), row=row, col=1)
        figure.update_yaxes(type="log", title_text="ms", row=row, col=1)
    figure.update_xaxes(title_text="requests/s of one replica", row=panels, col=1)
    figure.update_layout(title_text=_title(sizings), height=_HEIGHT_OF_A_PANEL * panels, template="plotly_white")
    page: str = figure.to_html(include_plotlyjs=True, full_html=True)
    return page


def _limit(metric: str, limit: Limit, fastest: float) -> go.Scatter:
    # NB: a line of its own and not `add_hline`, whose text lands off the page on a logarithmic axis.
    return go.Scatter(
        x=[0.0, fastest],
        y=[limit.milliseconds] * 2,
        mode="lines",
        line={"color": "#555555", "dash": "dash"},
        name=f"limit: {metric} {limit.percentile.value} {limit.milliseconds:g} ms",
    )


def _traces(sizing: Sizing, latency: str, limit: Limit | None, label: str, color: str) -> Iterable[go.Scatter]:
    table = sizing.table
    if table is None:
        return
    columns = getattr(table, latency)
    statistic = limit.percentile if limit else Percentile.P95
    for shown in dict.fromkeys((Percentile.MEAN, statistic)):
        values = columns[:, STATISTICS.index(shown.key)]
        known = ~np.isnan(values)
        if known.any():
            dash = "dot" if shown is Percentile.MEAN else "solid"
            yield go.Scatter(
                x=table.rates[known].tolist(),
                y=values[known].tolist(),
                mode="lines",
                name=f"{label} {shown.value}",
                line={"color": color, "dash": dash},
            )
    chosen = getattr(sizing, latency).at(statistic)
    if chosen is not None:
        yield go.Scatter(
            x=[sizing.requests_per_second_per_replica],
            y=[chosen],
            mode="markers",
            name=f"{label} {statistic.value} as sized",
            marker={"color": color, "symbol": "diamond", "size": 11},
        )


def _title(sizings: Iterable[tuple[str, Sizing]]) -> str:
    return "<br>".join(
        f"{name}, {s.arrivals.value}: "
        + (f"{s.replicas} replicas, {s.basis.value if s.basis else ''}" if s.feasible else f"none ({s.reason})")
        for name, s in sizings
    )
