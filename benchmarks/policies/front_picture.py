"""The picture of docs/policy.md: a panel for each week, in which every policy is a line of attainment and GPU-hours."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from xml.sax.saxutils import escape

from policies.fronts import Point, front
from policies.picture import opened

COLORS = {
    "firsttoken": "#2563eb",
    "hpa": "#ea580c",
    "knative": "#16a34a",
    "llm-d": "#9333ea",
    "dynamo": "#0f766e",
    "causal-bound": "#64748b",
    "clairvoyant": "#0f172a",
}
"""Policies that are drawn. KEDA on the queue attains 91 % at most, and static fleets have no setting."""
_COLUMNS, _PANEL_WIDTH, _PANEL_HEIGHT = 3, 268, 230
_LEFT, _RIGHT, _TOP, _BOTTOM, _HEAD, _FOOT = 44, 10, 30, 34, 92, 14
_LEAST_PERCENT, _MOST_PERCENT = 97.0, 99.97
_TICKS_PERCENT = (98.0, 99.0, 99.5, 99.9)
_LEAST_OVER, _MOST_OVER, _STEP_OVER = -10, 120, 20


@dataclass(frozen=True, slots=True)
class FrontRow:
    """One row of the table of fronts: a setting of a policy on a trace."""

    trace: str
    policy: str
    point: Point
    """With the GPU-hours over the clairvoyant, percent, in place of the hours."""


def rows(headings: Sequence[str], table: Sequence[Sequence[str]]) -> list[FrontRow]:
    """The rows of the table that are drawn."""
    inside, over = headings.index("inside SLA %"), headings.index("over clairvoyant %")
    return [
        FrontRow(row[0], row[1], Point(float(row[2]), float(row[inside]), float(row[over])))
        for row in table
        if row[1] in COLORS and row[over] != "-"
    ]


def drawn(found: Sequence[FrontRow]) -> str:
    """The picture as SVG: lower is cheaper, further to the right is more inside the SLA."""
    traces = list(dict.fromkeys(row.trace for row in found))
    width = _COLUMNS * _PANEL_WIDTH
    height = _HEAD + _PANEL_HEIGHT * math.ceil(len(traces) / _COLUMNS) + _FOOT
    title = "GPU-hours of scaling policies against what they attain, week by week"
    styles = (
        ".head { font-size: 16px; font-weight: 700; } .name { font-size: 13px; font-weight: 700; }",
        ".grid { stroke: #e2e8f0; } .asked { stroke: #94a3b8; stroke-dasharray: 3 3; }",
        ".line { fill: none; stroke-width: 1.6; } .ours { stroke-width: 3.2; }",
    )
    lines = [
        *opened(title, ", ".join(traces), width, height, 11, styles),
        '  <text class="head" x="24" y="30">GPU-hours above the clairvoyant (%) against requests inside the SLA</text>',
        '  <text x="24" y="50">A line is the front of a policy over its settings: lower and further to the right is'
        " better. The dashed line is what is asked.</text>",
        *_legend(found),
    ]
    for number, trace in enumerate(traces):
        column, row = number % _COLUMNS, number // _COLUMNS
        lines += _panel(trace, found, column * _PANEL_WIDTH, _HEAD + row * _PANEL_HEIGHT)
    return "\n".join([*lines, "</svg>"]) + "\n"


def _legend(found: Sequence[FrontRow]) -> Iterator[str]:
    there = {row.policy for row in found}
    for number, policy in enumerate(policy for policy in COLORS if policy in there):
        x = 24 + 108 * number
        yield f'  <rect x="{x}" y="66" width="16" height="4" fill="{COLORS[policy]}"/>'
        yield f'  <text x="{x + 21}" y="72">{escape(policy)}</text>'


def _panel(trace: str, found: Sequence[FrontRow], left: int, top: int) -> Iterator[str]:
    begin, end = left + _LEFT, left + _PANEL_WIDTH - _RIGHT
    above, below = top + _TOP, top + _PANEL_HEIGHT - _BOTTOM

    def x(percent: float) -> float:
        return round(begin + (end - begin) * _share(percent), 1)

    def y(over: float) -> float:
        return round(below - (below - above) * (over - _LEAST_OVER) / (_MOST_OVER - _LEAST_OVER), 1)

    yield f'  <text class="name" x="{begin}" y="{top + 20}">{escape(trace)}</text>'
    for over in range(0, _MOST_OVER + 1, _STEP_OVER):
        yield f'  <line class="grid" x1="{begin}" y1="{y(over)}" x2="{end}" y2="{y(over)}"/>'
        yield f'  <text x="{begin - 6}" y="{y(over) + 4}" text-anchor="end">{over:+d}</text>'
    for percent in _TICKS_PERCENT:
        style = "asked" if percent == _TICKS_PERCENT[1] else "grid"
        yield f'  <line class="{style}" x1="{x(percent)}" y1="{above}" x2="{x(percent)}" y2="{below}"/>'
        yield f'  <text x="{x(percent)}" y="{below + 16}" text-anchor="middle">{percent:g}</text>'
    for policy, color in COLORS.items():
        kept = front([row.point for row in found if (row.trace, row.policy) == (trace, policy)])
        shown = [each for each in kept if each.attainment_percent >= _LEAST_PERCENT and each.gpu_hours <= _MOST_OVER]
        style = "line ours" if policy == "firsttoken" else "line"
        places = [(x(each.attainment_percent), y(each.gpu_hours)) for each in shown]
        if len(places) > 1:
            path = " ".join(f"{across},{down}" for across, down in places)
            yield f'  <polyline class="{style}" stroke="{color}" points="{path}"/>'
        for across, down in places:
            yield f'  <circle cx="{across}" cy="{down}" r="{4 if policy == "firsttoken" else 2.5}" fill="{color}"/>'


def _share(percent: float) -> float:
    """Place of an attainment on its axis, 0..1: the logarithm of the misses."""
    low, high = (math.log(100 - end) for end in (_LEAST_PERCENT, _MOST_PERCENT))
    misses = math.log(100 - min(max(percent, _LEAST_PERCENT), _MOST_PERCENT))
    return (low - misses) / (low - high)
