"""A figure as a PNG image, drawn without a display or a browser. Needs matplotlib (the extra `plots`)."""

from __future__ import annotations

import io
import textwrap
from typing import TYPE_CHECKING

from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure as Canvas
from matplotlib.layout_engine import ConstrainedLayoutEngine
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from firsttoken_sizing.report.figure import (
    COLORS,
    Axis,
    Dash,
    Figure,
    MarkKind,
    Panel,
    Shape,
    axis_range,
    log_ticks,
    tick_label,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_WIDTH_INCHES = 12.0
_HEIGHT_OF_THE_ONLY_PANEL_INCHES = 5.6
_HEIGHT_OF_A_PANEL_INCHES = 3.8
_HEIGHT_OF_A_LINE_INCHES = 0.2
_DOTS_PER_INCH = 130
_CHARACTERS_A_LINE = 165
_MOST_LEGEND_LINES = 34
_DASHES = {Dash.SOLID: "-", Dash.DASHED: (0, (5, 2)), Dash.DOTTED: (0, (1, 1.6)), Dash.DASH_DOTTED: (0, (6, 2, 1, 2))}
_SHAPES = {Shape.CIRCLE: "o", Shape.SQUARE: "s", Shape.TRIANGLE: "^", Shape.CROSS: "X"}
_MARKS = {MarkKind.CHOSEN: ("*", 260), MarkKind.KNEE: ("D", 90)}
_GRAY = "#444444"


def png_image(figure: Figure) -> bytes:
    """The image: the panels, and the notes of the figure below them."""
    lines = [line for note in figure.notes for line in textwrap.wrap(note, _CHARACTERS_A_LINE)]
    rows = max(1, len(figure.panels))
    of_notes = _HEIGHT_OF_A_LINE_INCHES * (len(lines) + 1)
    of_panels = _HEIGHT_OF_THE_ONLY_PANEL_INCHES if rows == 1 else _HEIGHT_OF_A_PANEL_INCHES * rows
    height = of_panels + of_notes + 0.5
    layout = ConstrainedLayoutEngine(rect=(0, of_notes / height, 1, 1 - of_notes / height))
    canvas = Canvas(figsize=(_WIDTH_INCHES, height), layout=layout)
    FigureCanvasAgg(canvas)
    canvas.suptitle(figure.title, fontsize=13, fontweight="bold")
    for row, panel in enumerate(figure.panels, 1):
        _draw(canvas.add_subplot(rows, 1, row), panel)
    canvas.text(0.01, 0.01, "\n".join(lines), fontsize=8, color=_GRAY, va="bottom", linespacing=1.3)
    image = io.BytesIO()
    # NB: without the software version in it, so that the same figure gives the same bytes.
    canvas.savefig(image, format="png", dpi=_DOTS_PER_INCH, metadata={"Software": None})
    return image.getvalue()


def _draw(axes: Axes, panel: Panel) -> None:
    _scale(axes, panel.x, panel.values(vertical=False), vertical=False)
    _scale(axes, panel.y, panel.values(vertical=True), vertical=True)
    if panel.stacked:
        _stack(axes, panel)
    for series in () if panel.stacked else panel.series:
        color = COLORS[series.color % len(COLORS)]
        shape = _SHAPES[series.shape] if series.kept else ""
        axes.plot(
            series.x,
            series.y,
            color=color,
            linestyle=_DASHES[series.dash],
            linewidth=1.8,
            marker=shape,
            markersize=6,
            label=series.name,
        )
        broken = [(x, y) for x, y, kept in zip(series.x, series.y, series.kept, strict=False) if kept is False]
        if broken:
            x, y = zip(*broken, strict=True)
            axes.scatter(x, y, s=36, marker=shape, c="white", edgecolors=color, linewidths=1.4, zorder=3)
    for limit in panel.limits:
        draw = axes.axvline if limit.vertical else axes.axhline
        draw(limit.value, color=_GRAY, linestyle=(0, (6, 3)), linewidth=1.3, zorder=1)
        # Above the panel, or at its left end, where curves are rarely.
        place = (limit.value, 1.0) if limit.vertical else (0.01, limit.value)
        of_panel = axes.get_xaxis_transform() if limit.vertical else axes.get_yaxis_transform()
        axes.text(*place, limit.label, transform=of_panel, ha="left", va="bottom", fontsize=8.5, color=_GRAY)
    for mark in panel.marks:
        shape, area = _MARKS[mark.kind]
        color = COLORS[mark.color % len(COLORS)]
        chosen = mark.kind is MarkKind.CHOSEN
        axes.scatter(
            [mark.x],
            [mark.y],
            marker=shape,
            s=area,
            c=color if chosen else "none",
            edgecolors="black" if chosen else color,
            linewidths=1.0 if chosen else 1.6,
            zorder=5 if chosen else 4,
            label=mark.label if chosen else None,
        )
    if panel.title:
        axes.set_title(panel.title, fontsize=11, loc="left")
    axes.grid(which="major", color="#dddddd", linewidth=0.7)
    axes.set_axisbelow(True)
    axes.spines[["top", "right"]].set_visible(False)
    if handles := axes.get_legend_handles_labels()[0]:
        columns = 1 + len(handles) // _MOST_LEGEND_LINES
        axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), fontsize=8, frameon=False, ncols=columns)


def _stack(axes: Axes, panel: Panel) -> None:
    below = [0.0] * len(panel.series[0].x) if panel.series else []
    for series in panel.series:
        above = [low + high for low, high in zip(below, series.y, strict=True)]
        color = COLORS[series.color % len(COLORS)]
        axes.fill_between(series.x, below, above, step="post", color=color, alpha=0.6, linewidth=0, label=series.name)
        below = above


def _scale(axes: Axes, axis: Axis, values: tuple[float, ...], *, vertical: bool) -> None:
    one = axes.yaxis if vertical else axes.xaxis
    (axes.set_ylabel if vertical else axes.set_xlabel)(axis.title, fontsize=10)
    low, high = axis_range(axis, values)
    if axis.log:
        (axes.set_yscale if vertical else axes.set_xscale)("log")
        one.set_major_locator(FixedLocator(log_ticks(low, high)))
        one.set_major_formatter(FuncFormatter(lambda value, _: tick_label(value)))
        one.set_minor_locator(NullLocator())
    (axes.set_ylim if vertical else axes.set_xlim)(low, high)
