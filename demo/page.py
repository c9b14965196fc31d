"""The HTML page of a run: load, replicas and TTFT over time, and the verdict. One file, nothing fetched."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from demo.record import Record
from demo.scenario import Expectation, Scenario
from demo.verdict import Criterion

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 70rem; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.6rem } table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .3rem .9rem .3rem 0; text-align: left; border-bottom: 1px solid #d8dee4 }
.passed { color: #1a7f37; font-weight: 600 } .failed { color: #cf222e; font-weight: 600 }
"""


def write_page(
    path: Path, scenario: Scenario, expected: Expectation, record: Record, criteria: Sequence[Criterion]
) -> None:
    """Write the page; its figures are the record's, its table the verdict."""
    passed = all(c.passed for c in criteria)
    rows = "".join(
        f"<tr><td class={'passed' if c.passed else 'failed'}>{'passed' if c.passed else 'failed'}</td>"
        f"<td>{escape(c.name)}</td><td>{escape(c.measured)}</td><td>{escape(c.required)}</td></tr>"
        for c in criteria
    )
    chart = _figure(scenario, expected, record).to_html(full_html=False, include_plotlyjs=True)
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8><title>firsttoken demo</title>"
        f"<style>{STYLE}</style><h1>firsttoken demo: {'passed' if passed else 'failed'}</h1>"
        f"<p>{record.requests} requests in {record.seconds:.0f} s of wall time, every duration of the control loop "
        f"divided by {scenario.time_scale:g}. A replica needs {scenario.scaled(scenario.cold_start_seconds):g} s to "
        "become ready.</p>"
        f"<table><tr><th></th><th>criterion</th><th>measured</th><th>required</th></tr>{rows}</table>{chart}</html>",
        encoding="utf-8",
    )


def _figure(scenario: Scenario, expected: Expectation, record: Record) -> go.Figure:
    figure = make_subplots(
        rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.06,
        subplot_titles=("Requests a second", "Replicas", "TTFT P95 of the last seconds, ms"),
    )  # fmt: skip
    at = [s.seconds for s in record.samples]
    load = [s.offered_requests_per_second for s in record.samples]
    figure.add_trace(go.Scatter(x=at, y=load, name="arriving", line={"color": "#0969da", "shape": "hv"}), row=1, col=1)
    at_start = [replace(e, seconds=0.0) for e in record.events if e.seconds < 0][-1:]
    events = [*at_start, *(e for e in record.events if e.seconds >= 0)]
    for name, color, values in (
        ("desired", "#8250df", [e.replicas for e in events]),
        ("ready", "#1a7f37", [e.ready for e in events]),
    ):
        x, line = [e.seconds for e in events], {"color": color, "shape": "hv"}
        figure.add_trace(go.Scatter(x=x, y=values, name=name, line=line), row=2, col=1)
    sized = [s.sized for s in record.samples]
    figure.add_trace(
        go.Scatter(x=at, y=sized, name="sized for the load", line={"color": "#bf8700", "dash": "dot"}), row=2, col=1
    )
    for replicas, label in ((expected.replica_limit, "burst headroom"), (expected.replicas_for_peak, "declared peak")):
        figure.add_hline(y=replicas, line_dash="dash", line_color="#8c959f", annotation_text=label, row=2, col=1)
    ttft = [s.ttft_p95_milliseconds for s in record.samples]
    figure.add_trace(go.Scatter(x=at, y=ttft, name="TTFT P95", line={"color": "#cf222e"}), row=3, col=1)
    figure.add_hline(
        y=expected.ttft_sla_milliseconds, line_dash="dash", line_color="#8c959f", annotation_text="SLA", row=3, col=1
    )
    for phase in scenario.phases[1:]:
        figure.add_vline(x=phase.at_seconds, line_dash="dot", line_color="#d0d7de")
    figure.update_layout(template="plotly_white", height=820, margin={"t": 40, "b": 40}, legend={"orientation": "h"})
    figure.update_yaxes(rangemode="tozero")
    figure.update_xaxes(title_text="seconds of wall time", row=3, col=1)
    return figure
