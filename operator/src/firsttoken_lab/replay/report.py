"""A comparison for people (a table) and for programs (JSON; the names are a public contract)."""

from __future__ import annotations

from typing import Any

from rich.table import Table

from firsttoken_lab.replay.compare import Comparison, Result
from firsttoken_lab.replay.score import target_percent

_DIGITS = 6
_HEADINGS = ("inside SLA %", "worst hour %", "5 min < 95 in %", "GPU hours", "over least %", "changes")


_REFERENCES = frozenset({"static-peak", "static-p95", "clairvoyant"})
"""Fleets that know the future."""


def verdict(comparison: Comparison) -> str:
    """One line: which policies keep the SLA, and which of them needs the fewest GPU-hours."""
    target = target_percent(comparison.scene.sla)
    scores = [result.score for result in comparison.results if result.score.policy not in _REFERENCES]
    kept = sorted((s for s in scores if s.attainment_percent >= target), key=lambda s: s.gpu_hours)
    if not scores:
        return f"Only references were replayed; the SLA asks for {target:g} % inside."
    if not kept:
        best = max(scores, key=lambda s: s.attainment_percent)
        return f"No policy keeps the SLA ({target:g} % inside): {best.policy} comes to {best.attainment_percent:.2f} %."
    least, *others = kept
    parts = [f"{least.policy} keeps the SLA ({target:g} % inside) with the fewest GPU-hours, {least.gpu_hours:.1f}"]
    if others:
        parts.append(f"also kept by {', '.join(f'{s.policy} {s.gpu_hours:.1f}' for s in others)}")
    if missed := [s for s in scores if s not in kept]:
        parts.append(f"missed by {', '.join(f'{s.policy} {s.attainment_percent:.2f} %' for s in missed)}")
    return f"{'; '.join(parts)}."


def comparison_json(comparison: Comparison, seed: int) -> list[dict[str, Any]]:
    """One object a policy."""
    scene = comparison.scene
    return [
        {
            "policy": result.score.policy,
            "trace": scene.traffic.name,
            "requests": result.score.requests,
            "rateScale": scene.traffic.rate_scale,
            "slaAttainmentPercent": _round(result.score.attainment_percent),
            "worstHourAttainmentPercent": _round(result.score.worst_hour_attainment_percent),
            "shareOfWindowsUnder95Percent": _round(result.score.windows_under_95_percent),
            "gpuHours": _round(result.score.gpu_hours),
            "gpuHoursStandby": _round(result.score.standby_gpu_hours),
            "gpuHoursClairvoyant": _round(comparison.clairvoyant.score.gpu_hours),
            "gpuHoursStaticPeak": _round(scene.static_peak_gpu_hours),
            "scaleEvents": result.score.scale_events,
            "seed": seed,
        }
        for result in comparison.results
    ]


def comparison_table(title: str, comparison: Comparison) -> Table:
    """One line a policy, and what it was all about below."""
    scene, best = comparison.scene, comparison.clairvoyant.score
    traffic = scene.traffic
    left_out = f", {traffic.left_out} left out that no replica holds" if traffic.left_out else ""
    table = Table(
        title=f"{title}: {traffic.name} x {traffic.rate_scale:g}, {len(traffic.requests)} requests{left_out}",
        title_justify="left",
        caption=(
            f"Target: {target_percent(scene.sla):g} % inside the SLA. Least: the clairvoyant's {best.gpu_hours:.1f}"
            f" GPU-hours at {best.attainment_percent:.2f} %."
            f" Static at the peak: {scene.static_peak_gpu_hours:.1f} GPU-hours."
        ),
        caption_justify="left",
    )
    table.add_column("policy", no_wrap=True)
    for heading in _HEADINGS:
        table.add_column(heading, justify="right")
    for result in comparison.results:
        table.add_row(*_cells(result, best.gpu_hours))
    return table


def _cells(result: Result, least_gpu_hours: float) -> tuple[str, ...]:
    figures = result.score
    return (
        figures.policy,
        f"{figures.attainment_percent:.2f}",
        f"{figures.worst_hour_attainment_percent:.2f}",
        f"{figures.windows_under_95_percent:.2f}",
        f"{figures.gpu_hours:.1f}",
        f"{100 * (figures.gpu_hours / least_gpu_hours - 1):+.1f}",
        str(figures.scale_events),
    )


def _round(value: float) -> float:
    return float(f"{value:.{_DIGITS}g}")
