"""The batch over time as a picture: a row for each batch slot, a bar for each request in it, with its phases.

Static and in-flight batching below each other show what the difference is: slots that wait for the longest request of
their batch, and slots that are taken again at once. Needs plotly (the extra `plots`).
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import plotly.graph_objects as go
from numpy.typing import NDArray
from plotly.subplots import make_subplots

from firsttoken_sizing.report.plotly_page import page
from firsttoken_sizing.simulation.outcome import Outcome

_PREFILL, _PADDING = "#ff7f0e", "#d0d0d0"
_DECODE = ("#1f77b4", "#6baed6", "#2171b5", "#9ecae1")
"""Neighbors in a slot have different blues, so that it shows where one request ends and the next begins."""
_WAITING = "#d62728"
_MOST_SLOTS = 64
_PIXELS_A_SLOT, _PIXELS_A_PANEL = 13, 150
_SHARE_OF_COUNTS = 0.3
_GAP = 0.05


@dataclass(frozen=True, slots=True)
class BatchPanel:
    """One simulation, of which one replica is drawn."""

    title: str
    outcome: Outcome
    replica: int = 0


def batch_page(
    title: str, panels: Sequence[BatchPanel], start_s: float, end_s: float, notes: Sequence[str], verdict: str = ""
) -> str:
    """A self-contained page: for each panel its slots, and below them how many run and wait, from `start_s` to `end_s`.

    Of more than 64 slots the first ones are drawn, and the title of the panel says so.
    """
    placed = [slots_of(panel.outcome, panel.replica, start_s, end_s) for panel in panels]
    heights = [float(n) for slots in placed for n in _heights(_rows(slots))]
    figure = make_subplots(
        rows=2 * len(panels),
        cols=1,
        shared_xaxes=True,
        row_heights=heights,
        vertical_spacing=_GAP,
        subplot_titles=[t for panel, slots in zip(panels, placed, strict=True) for t in (_title(panel, slots), "")],
    )
    for i, (panel, slots) in enumerate(zip(panels, placed, strict=True)):
        for bars in _bars(panel.outcome, slots, show_legend=i == 0):
            figure.add_trace(bars, row=2 * i + 1, col=1)
        for line in _counts(panel, start_s, end_s, show_legend=i == 0):
            figure.add_trace(line, row=2 * i + 2, col=1)
        figure.update_yaxes(title="slot", range=[_rows(slots) - 0.5, -0.5], row=2 * i + 1, col=1)
        figure.update_yaxes(title="requests", rangemode="tozero", row=2 * i + 2, col=1)
    figure.update_xaxes(range=[start_s, end_s])
    figure.update_xaxes(title="seconds", row=2 * len(panels), col=1)
    figure.update_layout(
        barmode="overlay", bargap=0.15, height=100 + sum(heights), template="plotly_white", margin={"t": 50, "b": 60}
    )
    return page(title, figure, notes, verdict)


def slots_of(outcome: Outcome, replica: int, start_s: float, end_s: float) -> dict[int, int]:
    """The batch slot of each request (its index) of a replica that holds one between `start_s` and `end_s`.

    The lowest free slot is taken, so a slot never holds two at once.
    """
    here = outcome.replica == replica
    shown = np.flatnonzero(here & (outcome.released_s > start_s) & (outcome.admitted_s < end_s))
    slots: dict[int, int] = {}
    taken: list[tuple[float, int]] = []
    free: list[int] = []
    for request in shown[np.argsort(outcome.admitted_s[shown], kind="stable")].tolist():
        while taken and taken[0][0] <= outcome.admitted_s[request]:
            heapq.heappush(free, heapq.heappop(taken)[1])
        slot = heapq.heappop(free) if free else len(taken)
        slots[request] = slot
        heapq.heappush(taken, (float(outcome.released_s[request]), slot))
    return slots


def _rows(slots: dict[int, int]) -> int:
    return min(_MOST_SLOTS, 1 + max(slots.values(), default=0))


def _heights(rows: int) -> tuple[float, float]:
    slots = max(_PIXELS_A_PANEL, rows * _PIXELS_A_SLOT)
    return slots, max(_PIXELS_A_PANEL, _SHARE_OF_COUNTS * slots)


def _title(panel: BatchPanel, slots: dict[int, int]) -> str:
    used = 1 + max(slots.values(), default=0)
    return panel.title if used <= _MOST_SLOTS else f"{panel.title} ({_MOST_SLOTS} of {used} slots)"


def _bars(outcome: Outcome, slots: dict[int, int], show_legend: bool) -> Iterator[go.Bar]:
    shown = np.array([r for r, slot in slots.items() if slot < _MOST_SLOTS], np.int64)
    rows = np.array([slots[int(r)] for r in shown], np.int64)
    generation = np.zeros(len(shown), np.int64)
    in_slot: dict[int, int] = {}
    for i, slot in enumerate(rows.tolist()):
        generation[i] = in_slot.get(slot, 0)
        in_slot[slot] = in_slot.get(slot, 0) + 1
    blues = [_DECODE[(a + b) % len(_DECODE)] for a, b in zip(generation.tolist(), rows.tolist(), strict=True)]
    # Slots hold no pipeline stages: what leaves the last stage later than the slot is cut there.
    decoded = np.minimum(outcome.finish_s, outcome.released_s)
    first = np.minimum(outcome.first_token_s, outcome.released_s)
    texts = [_hover(outcome, int(r)) for r in shown]
    for name, begin, end, color in (
        ("prefill", outcome.admitted_s, first, _PREFILL),
        ("decode", first, decoded, blues),
        ("done, slot not free", decoded, outcome.released_s, _PADDING),
    ):
        width = (end - begin)[shown]
        drawn = width > 0
        if not drawn.any():
            continue
        yield go.Bar(
            x=width[drawn].tolist(),
            base=begin[shown][drawn].tolist(),
            y=rows[drawn].tolist(),
            orientation="h",
            name=name,
            legendgroup=name,
            showlegend=show_legend or name.startswith("done"),
            marker={"color": color if isinstance(color, str) else [c for c, d in zip(color, drawn, strict=True) if d]},
            text=[t for t, d in zip(texts, drawn, strict=True) if d],
            textposition="none",
            hovertemplate="%{text}<extra>" + name + "</extra>",
        )


def _hover(outcome: Outcome, request: int) -> str:
    requests = outcome.requests
    return (
        f"request {request}: {requests.input_tokens[request]} in, {requests.output_tokens[request]} out"
        f"<br>arrived {outcome.arrival_s[request]:.3f} s, waited {1000 * outcome.waiting_s[request]:.0f} ms"
        f"<br>TTFT {1000 * outcome.ttft_s[request]:.0f} ms, E2E {1000 * outcome.end_to_end_s[request]:.0f} ms"
    )


def _counts(panel: BatchPanel, start_s: float, end_s: float, show_legend: bool) -> Iterator[go.Scatter]:
    outcome = panel.outcome
    here = outcome.replica == panel.replica
    for name, begin, end, color in (
        ("running", outcome.admitted_s, np.minimum(outcome.finish_s, outcome.released_s), _DECODE[0]),
        ("waiting", outcome.arrival_s, outcome.admitted_s, _WAITING),
    ):
        at, count = count_over_time(begin[here], end[here], start_s, end_s)
        yield go.Scatter(
            x=at.tolist(),
            y=count.tolist(),
            mode="lines",
            line={"shape": "hv", "color": color},
            name=name,
            legendgroup=name,
            showlegend=show_legend,
        )


def count_over_time(
    begin: NDArray[np.float64], end: NDArray[np.float64], start_s: float, end_s: float
) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Count the intervals [begin, end) that hold each moment: the moments of change, and the count from each on."""
    moments, where = np.unique(np.concatenate((begin, end)), return_inverse=True)
    changes = np.zeros(len(moments), np.int64)
    np.add.at(changes, where, np.repeat((1, -1), (len(begin), len(end))))
    times, counts = moments, np.cumsum(changes)
    inside = (times > start_s) & (times < end_s)
    before = int(counts[times <= start_s][-1]) if (times <= start_s).any() else 0
    at = np.concatenate(([start_s], times[inside], [end_s]))
    count = np.concatenate(([before], counts[inside]))
    return at, np.append(count, count[-1])
