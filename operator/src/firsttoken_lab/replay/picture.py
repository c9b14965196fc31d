"""A comparison as a picture: load, replicas of each policy, TTFT, misses and GPU-hours, over the same time.

Only describes the figure; `firsttoken_sizing.report` draws it.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from firsttoken_lab.replay.compare import Comparison, Result, Scene
from firsttoken_lab.replay.report import verdict
from firsttoken_lab.replay.score import HOUR_SECONDS, WINDOW_SECONDS, inside_sla, shares, target_percent
from firsttoken_sizing.report.figure import COLORS, Axis, Dash, Figure, LimitLine, Panel, Series
from firsttoken_sizing.workload import Percentile

_FEWEST = 1
_TIME = Axis("hours")
_LOAD = "load"
Floats = NDArray[np.float64]


def comparison_figure(title: str, comparison: Comparison) -> Figure:
    """The figure. One point every 5 minutes."""
    scene, results = comparison.scene, comparison.results
    traffic, limit = scene.traffic, scene.sla.time_to_first_token
    statistic = limit.percentile if limit else Percentile.P95
    limits = (LimitLine(f"SLA: {limit.milliseconds:g} ms", limit.milliseconds, vertical=False),) if limit else ()
    replicas = [_replicas(result) for result in results]
    ttft = [_ttft(result, statistic) for result in results]
    misses = [_misses(result, scene) for result in results]
    spent = [_gpu_hours(result, scene) for result in results]
    return Figure(
        verdict=verdict(comparison),
        title=f"{title}: {traffic.name} x {traffic.rate_scale:g}",
        panels=(
            Panel(_TIME, Axis("requests/s"), (_load(scene),), title="Load"),
            _panel(results, replicas, Axis("replicas"), "Replicas that are paid for: starting, serving and draining"),
            _panel(results, ttft, Axis("ms", log=True), f"TTFT, {statistic.value} of 5 minutes", limits),
            _panel(results, misses, Axis("% of requests"), "Outside the SLA, of 5 minutes"),
            _panel(results, spent, Axis("GPU-hours"), "GPU-hours since the beginning"),
        ),
        notes=(
            f"{len(traffic.requests)} requests; the SLA asks for {target_percent(scene.sla):g} %.",
            *(
                f"{result.score.policy}: {result.score.attainment_percent:.2f} % inside the SLA,"
                f" {result.score.gpu_hours:.1f} GPU-hours, {result.score.scale_events} changes."
                for result in results
            ),
        ),
    )


def _panel(
    results: tuple[Result, ...],
    curves: list[tuple[Floats, Floats]],
    y: Axis,
    title: str,
    limits: tuple[LimitLine, ...] = (),
) -> Panel:
    series = tuple(
        Series(
            name=result.score.policy,
            group=result.score.policy,
            x=tuple(x.tolist()),
            y=tuple(values.tolist()),
            color=i,
            dash=Dash.SOLID if i < len(COLORS) else Dash.DASHED,
        )
        for i, (result, (x, values)) in enumerate(zip(results, curves, strict=True))
    )
    return Panel(_TIME, y, series, limits, title=title)


def _load(scene: Scene) -> Series:
    rate = np.bincount(_windows(scene.traffic.requests.arrival_s)) / WINDOW_SECONDS
    return Series(_LOAD, _LOAD, tuple(_hours(len(rate)).tolist()), tuple(rate.tolist()), color=len(COLORS) - 1)


def _replicas(result: Result) -> tuple[Floats, Floats]:
    """The mean of every window, from what was billed in it."""
    edges, billed = _billed(result)
    return _hours(len(edges) - 1), np.diff(billed) / np.maximum(np.diff(edges), 1e-9)


def _ttft(result: Result, statistic: Percentile) -> tuple[Floats, Floats]:
    """The percentile of every window with an answer in it; one that was never answered counts as the slowest."""
    played = result.played
    windows = _windows(played.arrival_seconds)
    known, starts = np.unique(windows, return_index=True)
    ttft = np.where(np.isnan(played.ttft_seconds), np.inf, played.ttft_seconds)
    parts = np.split(ttft, starts[1:])
    share = statistic.share
    values = np.array([part.mean() if share is None else np.quantile(part, share, method="higher") for part in parts])
    shown = np.isfinite(values)
    return _hours(int(known[-1]) + 1)[known[shown]], 1000 * values[shown]


def _misses(result: Result, scene: Scene) -> tuple[Floats, Floats]:
    late = shares(result.played.arrival_seconds, ~inside_sla(result.played, scene.sla), WINDOW_SECONDS, _FEWEST)
    shown = ~np.isnan(late)
    return _hours(len(late))[shown], 100 * late[shown]


def _gpu_hours(result: Result, scene: Scene) -> tuple[Floats, Floats]:
    edges, billed = _billed(result)
    return edges / HOUR_SECONDS, billed * scene.gpus_per_replica / HOUR_SECONDS


def _billed(result: Result) -> tuple[Floats, Floats]:
    """Edges of the windows in seconds, and the replica-seconds until each."""
    trajectory = result.played.trajectory
    edges = np.append(np.arange(0, trajectory.at_seconds[-1], WINDOW_SECONDS), trajectory.at_seconds[-1])
    return edges, np.interp(edges, trajectory.at_seconds, trajectory.replica_seconds)


def _windows(seconds: Floats) -> NDArray[np.int64]:
    return (seconds // WINDOW_SECONDS).astype(np.int64)


def _hours(windows: int) -> Floats:
    """The middles of so many windows."""
    middles: Floats = (np.arange(windows, dtype=np.float64) + 0.5) * WINDOW_SECONDS / HOUR_SECONDS
    return middles
