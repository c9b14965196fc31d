"""The HTML page of a run: scaled beside frozen, load, replicas and TTFT over time. One file, nothing fetched."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from html import escape
from pathlib import Path

import plotly.graph_objects as go
from plotly.subplots import make_subplots

from demo.record import Judged, Record
from demo.scenario import Expectation, Scenario
from demo.verdict import ATTAINMENT_PERCENT, Criterion
from firsttoken_sizing.report.plotly_page import library

STYLE = """
body { font: 16px/1.5 system-ui, sans-serif; margin: 2rem auto; max-width: 90rem; padding: 0 1rem; color: #1b1f24 }
h1 { font-size: 1.6rem } h2 { font-size: 1.2rem } table { border-collapse: collapse; margin: 1rem 0 }
td, th { padding: .3rem .9rem .3rem 0; text-align: left; border-bottom: 1px solid #d8dee4 }
.figure td, .figure th { text-align: right } .figure td:first-child, .figure th:first-child { text-align: left }
.passed { color: #1a7f37; font-weight: 600 } .failed { color: #cf222e; font-weight: 600 }
.runs { display: grid; grid-template-columns: repeat(2, minmax(0, 1fr)); gap: 1rem }
@media (max-width: 900px) { .runs { grid-template-columns: minmax(0, 1fr) } }
.wide { overflow-x: auto }
"""
GRAY = "#8c959f"
LOWEST_TTFT_MILLISECONDS = 10.0


def write_page(
    path: Path,
    scenario: Scenario,
    expected: Expectation,
    scaled: Record,
    frozen: Record,
    criteria: Sequence[Criterion],
) -> None:
    """Write the page; its figures are the records', its last table the verdict."""
    verdict = "passed" if all(c.passed for c in criteria) else "failed"
    ttfts = [
        ttft
        for r in (scaled, frozen)
        for s in r.samples
        for ttft in (s.ttft_p95_milliseconds, s.real_ttft_p95_milliseconds)
    ]
    highest = max((ttft or 0.0 for ttft in ttfts), default=0.0)
    charts = [
        _figure(scenario, expected, record, max(2 * expected.ttft_sla_milliseconds, highest)).to_html(
            full_html=False, include_plotlyjs=False, config={"responsive": True, "displayModeBar": False}
        )
        for record in (scaled, frozen)
    ]
    path.write_text(
        "<!doctype html><html lang=en><meta charset=utf-8>"
        '<meta name=viewport content="width=device-width, initial-scale=1"><title>firsttoken demo</title>'
        f"<style>{STYLE}</style><script>{library()}</script>"
        f"<h1>firsttoken demo: <span class={verdict}>{verdict}</span></h1>"
        f"<p>{scaled.requests:,} requests in {scaled.seconds:.0f} s of wall time, every duration of the control loop "
        f"divided by {scenario.time_scale:g}. A replica needs {scenario.scaled(scenario.cold_start_seconds):g} s to "
        "become ready. GPU-hours are of the time that was played.</p>"
        f"{_real(scaled)}{_comparison(scenario, expected, scaled, frozen)}"
        f"<div class=runs><section><h2>Scaled by firsttoken</h2>{charts[0]}</section>"
        f"<section><h2>Frozen at {frozen.replicas_at(0.0)} replicas</h2>{charts[1]}</section></div>"
        f"{_verdict(criteria)}</html>",
        encoding="utf-8",
    )


def _real(scaled: Record) -> str:
    if scaled.real is None:
        return ""
    real = scaled.real
    said = f"<p>One of the scaled replicas is a real {real.name}, the others are emulated: {real.sent:,} requests went "
    if not real.is_paced:
        client, bucket = real.median_ttft_milliseconds, real.ttft_bucket_milliseconds
        told = "-" if bucket is None else f"{bucket[0]:g} to {bucket[1]:g} ms"
        return (
            f"{said}to it. Its model is a small one of random weights, and this machine has no GPU: what it answers in "
            f"says nothing of the sizing. Its median TTFT is {'-' if client is None else f'{client:,.0f} ms'} by the "
            f"clock of its client, and {told} by its own histogram.</p>"
        )
    return (
        f"{said}to it, {_inside(real)} of them inside the SLA by the clock of its client. Triton 2.51 tells no TTFT, "
        "so that replicas follow arrivals, the queue and the sizing model.</p>"
    )


def _comparison(scenario: Scenario, expected: Expectation, scaled: Record, frozen: Record) -> str:
    gpu_hours = expected.gpus_per_replica * scenario.time_scale / 3600
    static = expected.replicas_for_peak * scaled.seconds
    rows = [
        ("scaled by firsttoken", scaled.replica_seconds(), f"{scaled.missed:,}", scaled),
        (f"frozen at {frozen.replicas_at(0.0)} replicas", frozen.replica_seconds(), f"{frozen.missed:,}", frozen),
    ]
    body = "".join(
        f"<tr><td>{name}</td><td>{replica_seconds * gpu_hours:.1f}</td><td>{missed}</td><td>{_inside(record)}</td></tr>"
        for name, replica_seconds, missed, record in rows
    )
    return (
        "<div class=wide><table class=figure><tr><th>the same traffic</th><th>GPU-hours</th><th>missed requests</th>"
        f"<th>inside the SLA</th></tr>{body}<tr><td>not played: {expected.replicas_for_peak} replicas all the time, "
        f"sized for the peak</td><td>{static * gpu_hours:.1f}</td><td>-</td><td>-</td></tr></table></div>"
    )


def _inside(record: Judged) -> str:
    attained = record.attainment_percent
    if attained is None:
        return "-"
    kept = "passed" if attained >= ATTAINMENT_PERCENT else "failed"
    return f"<span class={kept}>{attained:.2f} %</span>"


def _verdict(criteria: Sequence[Criterion]) -> str:
    rows = "".join(
        f"<tr><td class={'passed' if c.passed else 'failed'}>{'passed' if c.passed else 'failed'}</td>"
        f"<td>{escape(c.name)}</td><td>{escape(c.measured)}</td><td>{escape(c.required)}</td></tr>"
        for c in criteria
    )
    head = "<tr><th></th><th>criterion</th><th>measured</th><th>required</th></tr>"
    return f"<h2>How it is judged</h2><div class=wide><table>{head}{rows}</table></div>"


def _figure(scenario: Scenario, expected: Expectation, record: Record, highest_ttft_milliseconds: float) -> go.Figure:
    sla = expected.ttft_sla_milliseconds
    figure = make_subplots(
        rows=3, cols=1, shared_xaxes=True, vertical_spacing=0.07,
        subplot_titles=("Requests a second", "Replicas", f"TTFT P95 of the last seconds, ms (SLA: {sla:g})"),
    )  # fmt: skip
    at = [s.seconds for s in record.samples]
    load = [s.offered_requests_per_second for s in record.samples]
    figure.add_trace(go.Scatter(x=at, y=load, name="arriving", line={"color": "#0969da", "shape": "hv"}), row=1, col=1)
    at_start = [replace(e, seconds=0.0) for e in record.events if e.seconds < 0][-1:]
    at_end = [replace(e, seconds=record.seconds) for e in record.events[-1:]]
    events = [*at_start, *(e for e in record.events if e.seconds >= 0), *at_end]
    for name, color, values in (
        ("desired", "#8250df", [e.replicas for e in events]),
        ("ready", "#1a7f37", [e.ready for e in events]),
    ):
        x, line = [e.seconds for e in events], {"color": color, "shape": "hv"}
        figure.add_trace(go.Scatter(x=x, y=values, name=name, line=line, mode="lines"), row=2, col=1)
    sized = [s.sized for s in record.samples]
    figure.add_trace(
        go.Scatter(x=at, y=sized, name="sized for the load", line={"color": "#bf8700", "dash": "dot"}), row=2, col=1
    )
    for replicas, label in ((expected.replica_limit, "burst headroom"), (expected.replicas_for_peak, "declared peak")):
        # NB: at the left, where the replicas are far below.
        figure.add_hline(
            y=replicas, line_dash="dash", line_color=GRAY, row=2, col=1,
            annotation_text=label, annotation_position="top left",
        )  # fmt: skip
    ttft = [s.ttft_p95_milliseconds for s in record.samples]
    figure.add_trace(go.Scatter(x=at, y=ttft, name="TTFT P95", line={"color": "#cf222e"}), row=3, col=1)
    if record.real is not None:
        real = [s.real_ttft_p95_milliseconds for s in record.samples]
        trace = go.Scatter(
            x=at, y=real, name=f"TTFT P95 of the real {record.real.name}", line={"color": "#1b1f24", "dash": "dot"}
        )
        figure.add_trace(trace, row=3, col=1)
    figure.add_hline(y=sla, line_dash="dash", line_color=GRAY, row=3, col=1)
    # NB: without a drag mode a finger scrolls the page.
    figure.update_layout(
        template="plotly_white", height=760, margin={"t": 40, "b": 40, "l": 50, "r": 10}, legend={"orientation": "h"},
        dragmode=False,
    )  # fmt: skip
    # The same axes in both, or the eye compares nothing.
    figure.update_yaxes(rangemode="tozero", row=1, col=1)
    figure.update_yaxes(range=[0, 1.08 * expected.replica_limit], row=2, col=1)
    decades = [math.log10(LOWEST_TTFT_MILLISECONDS), math.log10(1.5 * highest_ttft_milliseconds)]
    figure.update_yaxes(type="log", range=decades, dtick=1, row=3, col=1)
    figure.update_xaxes(range=[0, scenario.duration_seconds])
    figure.update_xaxes(title_text="seconds of wall time", row=3, col=1)
    return figure
