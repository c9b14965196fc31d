"""A figure as one interactive HTML page that opens without a network. Needs plotly (the extra `plots`).

The page holds the build of plotly.js with lines and bars only (`browser/`), a quarter of the one that plotly has.
"""

from __future__ import annotations

import gzip
import math
from collections.abc import Iterable
from html import escape
from importlib.resources import files
from typing import Any

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from firsttoken_sizing.report.figure import (
    COLORS,
    Axis,
    Figure,
    Mark,
    MarkKind,
    Panel,
    Series,
    Shape,
    axis_range,
    log_ticks,
    tick_label,
)

_HEIGHT_OF_A_PANEL = 420
_LEAST_HEIGHT = 560
_SYMBOLS = {MarkKind.CHOSEN: ("star", 18), MarkKind.KNEE: ("diamond-open", 14)}
_SHAPES = {Shape.CIRCLE: "circle", Shape.SQUARE: "square", Shape.TRIANGLE: "triangle-up", Shape.CROSS: "x"}
_GRAY = "#444444"
_FONT = "system-ui, sans-serif"
_PAGE = """<!DOCTYPE html>
<html lang="en">
<head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{title}</title>
<style>body {{ font-family: {font}; margin: 1.5rem; }} p {{ max-width: 60rem; color: {gray}; }}
h1 {{ font-size: 1.2rem; overflow-wrap: anywhere; }} p.verdict {{ font-weight: bold; color: black; }}
@media (max-width: 700px) {{ body {{ margin: 0.7rem; }} .modebar-container {{ display: none; }} }}</style>
<script>{library}</script></head>
<body>
<h1>{title}</h1>
{verdict}
{chart}
{notes}
</body>
</html>
"""


_ON_A_PHONE = """
if (window.innerWidth < 700) {
  const plot = document.getElementById("{plot_id}"), below = 60;
  const wrapped = text => (text || "").replace(/(.{28,44}) (?=.{6})/g, "$1<br>");
  const words = plot.layout.annotations || [];
  Plotly.relayout(plot, {
    "legend.orientation": "v", "legend.x": 0, "legend.font.size": 10, "margin.l": 50, "margin.r": 5, "dragmode": false,
    "annotations": words.map(a => ({...a, text: wrapped(a.text), align: "left", font: {...a.font, size: 10}}))
  }).then(() => {
    const t = plot._fullLayout._size.t, entries = plot._fullLayout.legend._height || 0;
    const inner = plot.layout.height - t - below, height = t + inner + below + entries;
    plot.parentElement.style.height = `${height}px`;
    return Plotly.relayout(plot, {
      "height": height, "margin.b": below + entries,
      "legend.yanchor": "top", "legend.y": -below / inner, "legend.maxheight": entries + 20
    });
  });
}
"""


def html_page(figure: Figure) -> str:
    """The page: the chart, and the notes of the figure below it."""
    rows = max(1, len(figure.panels))
    chart = make_subplots(
        rows=rows,
        cols=1,
        vertical_spacing=0.3 / rows,
        subplot_titles=[panel.title for panel in figure.panels] or None,
    )
    # Panel titles at the left, out of the way of the words above a vertical limit.
    chart.update_annotations(x=0, xanchor="left")
    shown: set[tuple[str, str]] = set()
    titled = any(trace.legendgrouptitle.text for panel in figure.panels for trace in _traces(panel))
    for row, panel in enumerate(figure.panels, 1):
        for trace in _traces(panel):
            # NB: one entry in the legend for what several panels show, or it fills the page.
            entry = trace.legendgroup or "", trace.name
            trace.showlegend = entry not in shown and trace.showlegend is not False
            shown.add(entry)
            chart.add_trace(trace, row=row, col=1)
        for limit in panel.limits:
            _annotate(chart, panel, limit.label, limit.value, limit.vertical, row)
        chart.update_xaxes(**_axis(panel.x, panel.values(vertical=False)), row=row, col=1)
        chart.update_yaxes(**_axis(panel.y, panel.values(vertical=True)), row=row, col=1)
    chart.update_layout(
        height=max(_LEAST_HEIGHT, _HEIGHT_OF_A_PANEL * rows),
        template="plotly_white",
        font={"family": _FONT},
        margin={"t": 50, "l": 70, "r": 20, "b": 60},
        # NB: entries without a heading stand for their curves in every panel, and take them all along.
        legend={"groupclick": "toggleitem" if titled else "togglegroup"},
    )
    return page(figure.title, chart, figure.notes, figure.verdict)


def page(title: str, chart: go.Figure, notes: Iterable[str], verdict: str = "") -> str:
    """A self-contained page around a chart, with a verdict above it and paragraphs below it."""
    return _PAGE.format(
        title=escape(title),
        font=_FONT,
        gray=_GRAY,
        library=library(),
        verdict=f'<p class="verdict">{escape(verdict)}</p>' if verdict else "",
        chart=chart.to_html(
            include_plotlyjs=False, full_html=False, config={"responsive": True}, post_script=_ON_A_PHONE
        ),
        notes="\n".join(f"<p>{escape(note)}</p>" for note in notes),
    )


def library() -> str:
    """plotly.js, for a script element of a page."""
    packed = files("firsttoken_sizing.report").joinpath("browser/plotly-basic.min.js.gz").read_bytes()
    return gzip.decompress(packed).decode()


def _traces(panel: Panel) -> Iterable[go.Scatter]:
    groups = [series.group for series in panel.series]
    for series in panel.series:
        curve = _curve(series, titled=groups.count(series.group) > 1 and bool(series.kept))
        yield curve.update(stackgroup="stacked", line_shape="hv", line_width=0.5) if panel.stacked else curve
    for limit in panel.limits:
        # NB: a line of its own and not `add_hline`, whose text lands off the page on a logarithmic axis.
        across = list(axis_range(panel.y if limit.vertical else panel.x, panel.values(vertical=limit.vertical)))
        along = [limit.value] * len(across)
        yield go.Scatter(
            x=along if limit.vertical else across,
            y=across if limit.vertical else along,
            mode="lines",
            line={"color": _GRAY, "dash": "dash", "width": 1.5},
            name=limit.label,
        )
    for mark in panel.marks:
        yield _mark(mark)


def _curve(series: Series, *, titled: bool) -> go.Scatter:
    color = COLORS[series.color % len(COLORS)]
    markers: dict[str, Any] = {}
    if series.kept:
        fills = ["white" if kept is False else color for kept in series.kept]
        markers = {
            "marker": {
                "symbol": _SHAPES[series.shape],
                "size": 8,
                "color": fills,
                "line": {"color": color, "width": 1.6},
            }
        }
    hover: dict[str, Any] = {}
    if series.notes:
        hover = {
            "text": [note.replace("\n", "<br>") for note in series.notes],
            "hovertemplate": "%{text}<extra></extra>",
        }
    return go.Scatter(
        x=list(series.x),
        y=list(series.y),
        mode="lines+markers" if series.kept else "lines",
        # NB: what the heading says is not said again on every line below it.
        name=series.name.removeprefix(f"{series.group} ") if titled else series.name,
        legendgroup=series.group,
        legendgrouptitle={"text": series.group} if titled else None,
        line={"color": color, "dash": series.dash.value, "width": 2},
        **markers,
        **hover,
    )


def _mark(mark: Mark) -> go.Scatter:
    color = COLORS[mark.color % len(COLORS)]
    symbol, size = _SYMBOLS[mark.kind]
    return go.Scatter(
        x=[mark.x],
        y=[mark.y],
        mode="markers",
        name=mark.label,
        showlegend=mark.kind is MarkKind.CHOSEN,
        hovertemplate=f"{mark.label}<br>%{{x:.4g}}, %{{y:.4g}}<extra></extra>",
        marker={"color": color, "symbol": symbol, "size": size, "line": {"color": "black", "width": 1}},
    )


def _axis(axis: Axis, values: tuple[float, ...]) -> dict[str, Any]:
    settings: dict[str, Any] = {"title_text": axis.title, "showline": True, "linecolor": _GRAY, "ticks": "outside"}
    low, high = axis_range(axis, values)
    if not axis.log:
        return settings | {"range": [low, high]}
    ticks = log_ticks(low, high)
    return settings | {
        "type": "log",
        "range": [math.log10(low), math.log10(high)],
        "tickvals": list(ticks),
        "ticktext": [tick_label(t) for t in ticks],
    }


def _annotate(chart: go.Figure, panel: Panel, label: str, value: float, vertical: bool, row: int) -> None:
    """The words of a limit beside its line: above the panel, or at its left end, where curves are rarely."""
    axis = panel.x if vertical else panel.y
    # NB: positions on a logarithmic axis are given as logarithms to annotations and ranges, but not to traces.
    at = math.log10(value) if axis.log else value
    suffix = "" if row == 1 else str(row)
    low, high = (math.log10(end) if axis.log else end for end in axis_range(axis, panel.values(vertical=not vertical)))
    side = "left" if at < (low + high) / 2 else "right"
    place: dict[str, Any] = (
        {"x": at, "xref": f"x{suffix}", "y": 1, "yref": f"y{suffix} domain", "xanchor": side, "textangle": 0}
        if vertical
        else {"x": 0.01, "xref": f"x{suffix} domain", "y": at, "yref": f"y{suffix}", "xanchor": "left"}
    )
    chart.add_annotation(text=label, showarrow=False, yanchor="bottom", font={"size": 11, "color": _GRAY}, **place)
