"""Content of a picture, without how it is drawn: panels with axes, curves, limits and marked points.

One description and two renderers (`plotly_page` for a browser, `matplotlib_png` for a document), so that both show the
same. Nothing here imports either of them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum

COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9", "#7B3FA0", "#555555")
"""The palette of Okabe and Ito (2008), which color-blind readers can tell apart, without its yellow and with a violet
and a gray of the same darkness. `Series.color` is an index into it, modulo its length."""
_STEPS = (1, 2, 5)
_LEAST_TICKS, _MOST_TICKS = 3, 9
_MARGIN = 1.07
_LEAST_LOG_MARGIN = 1.15


class Dash(StrEnum):
    """Dashes of a line, in the order in which curves of one color get theirs."""

    SOLID = "solid"
    DASHED = "dash"
    DOTTED = "dot"
    DASH_DOTTED = "dashdot"


class Shape(StrEnum):
    """The points of a curve, in the order in which curves of one color and dash get theirs."""

    CIRCLE = "circle"
    SQUARE = "square"
    TRIANGLE = "triangle"
    CROSS = "cross"


class MarkKind(StrEnum):
    """Meaning of a marked point."""

    CHOSEN = "chosen"
    """The operating point that a size stands on."""
    KNEE = "knee"


@dataclass(frozen=True, slots=True)
class Axis:
    """A quantity with its unit, on a linear or a logarithmic scale."""

    title: str
    log: bool = False


@dataclass(frozen=True, slots=True)
class Series:
    """One curve. `x`, `y`, `notes` (what a reader sees who points at a point) and `kept` have one entry a point.

    `kept` says whether the point keeps the whole SLA (None: not known or no SLA); empty: a line without points.
    """

    name: str
    group: str
    x: tuple[float, ...]
    y: tuple[float, ...]
    color: int
    dash: Dash = Dash.SOLID
    shape: Shape = Shape.CIRCLE
    kept: tuple[bool | None, ...] = ()
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class LimitLine:
    """A limit of the SLA: a straight line across the panel at `value` of the x axis (`vertical`) or of the y axis."""

    label: str
    value: float
    vertical: bool


@dataclass(frozen=True, slots=True)
class Mark:
    """One point that stands out."""

    kind: MarkKind
    label: str
    x: float
    y: float
    color: int


@dataclass(frozen=True, slots=True)
class Panel:
    """One pair of axes and what is drawn on them."""

    x: Axis
    y: Axis
    series: tuple[Series, ...]
    limits: tuple[LimitLine, ...] = ()
    marks: tuple[Mark, ...] = ()
    title: str = ""
    stacked: bool = False
    """True where the curves lie on top of each other as steps, filled; they have the same `x`."""

    def values(self, vertical: bool) -> tuple[float, ...]:
        """Everything that has to be inside the x range (`vertical` False) or the y range (True)."""
        drawn = [v for s in self.series for v in (s.y if vertical else s.x)]
        if vertical and self.stacked:
            drawn = [sum(parts) for parts in zip(*(s.y for s in self.series), strict=True)]
        drawn += [m.y if vertical else m.x for m in self.marks]
        return (*drawn, *(limit.value for limit in self.limits if limit.vertical is not vertical))


@dataclass(frozen=True, slots=True)
class Figure:
    """A picture: panels from top to bottom under one title and its verdict, and lines of text below them."""

    title: str
    panels: tuple[Panel, ...]
    notes: tuple[str, ...] = ()
    verdict: str = ""


def axis_range(axis: Axis, values: Iterable[float]) -> tuple[float, float]:
    """Ends of an axis that holds every value with a margin: from 0 where it is linear, else the positive ones only."""
    positive = [v for v in values if v > 0]
    if not positive:
        return (0.3, 3.0) if axis.log else (0.0, 1.0)
    low, high = min(positive), max(positive)
    if not axis.log:
        return 0.0, _MARGIN * high
    margin = max(_LEAST_LOG_MARGIN, (high / low) ** 0.04)
    return low / margin, high * margin


def log_ticks(low: float, high: float) -> tuple[float, ...]:
    """Labels of a logarithmic axis: 1, 2 and 5 of every decade.

    Whole decades where those are too many; evenly where they are too few, on an axis of less than a decade.
    """
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    fine = [step * 10.0**decade for decade in decades for step in _STEPS]
    ticks = tuple(t for t in fine if low <= t <= high)
    if len(ticks) < _LEAST_TICKS:
        span = (high - low) / _LEAST_TICKS
        steps = [step * 10.0 ** (math.floor(math.log10(span)) + up) for up in (0, 1) for step in _STEPS]
        step = max(s for s in steps if s <= span)
        return tuple(step * i for i in range(math.ceil(low / step), math.floor(high / step) + 1))
    if len(ticks) <= _MOST_TICKS:
        return ticks
    every = math.ceil(len(decades) / _MOST_TICKS)
    return tuple(10.0**d for d in decades if d % every == 0 and low <= 10.0**d <= high)


def tick_label(value: float) -> str:
    """A tick as a person writes it: `0.5`, `20`, `1,000`."""
    return f"{value:,.0f}" if value >= 1000 else f"{value:.6g}"
