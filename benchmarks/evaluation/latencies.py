"""TTFT, ITL and E2E of recent engines at the concurrencies that were measured: what `curve` says of them.

The configuration asked about is left out of the constants and the fits, as for the capacities inside an SLA. What is
seen of the workload is what a user gives: the lengths, and the engine as it is installed.
"""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path

from evaluation import without
from evaluation.curves import MeasuredCurve, silicon_curves
from evaluation.row import Row, absolute_errors
from firsttoken_sizing import Arrivals, Hardware, SizingRequest, Workload
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.optimize.evaluate import bound_of
from firsttoken_sizing.optimize.evaluation import InfeasibleCandidate
from firsttoken_sizing.optimize.load_model import load_model_of
from firsttoken_sizing.optimize.question import check
from firsttoken_sizing.profile import Point
from firsttoken_sizing.workload import Limit, Percentile, Sla

_METRICS = {"ttft": "TTFT", "itl": "ITL", "end_to_end": "E2E"}
_LIMIT = Sla(time_to_first_token=Limit(1e9, Percentile.MEAN))


def rows(data: Path) -> list[Row]:
    """A row for each engine, kind of model and latency."""
    errors: dict[tuple[str, str, str], list[float]] = defaultdict(list)
    for curve in silicon_curves(data):
        kind = "mixtures of experts" if resolve_model(curve.key.model).experts else "dense"
        for measured, predicted in _predicted(data, curve):
            for metric, name in _METRICS.items():
                truth, said = getattr(measured, metric).mean, getattr(predicted, metric).mean
                if truth and said is not None:
                    errors[curve.engine.value, kind, name].append(100 * (said / truth - 1))
    return [
        Row(f"{engine} on recent GPUs, {name} at a concurrency, {kind}", "the configuration", len(found), figures)
        for (engine, kind, name), found in sorted(errors.items())
        for figures in (absolute_errors(found),)
    ]


def _predicted(data: Path, curve: MeasuredCurve) -> list[tuple[Point, Point]]:
    """Every point of a curve, and what the product says there; none where it says that nothing fits."""
    request = SizingRequest(
        model=curve.key.model,
        workload=Workload(curve.input_tokens, curve.output_tokens, peak_requests_per_second=1.0),
        sla=_LIMIT,
        hardware=Hardware(gpus=(curve.key.gpu,)),
        arrivals=Arrivals.CLOSED_LOOP,
        engine=curve.engine,
        engine_release=curve.engine.spec.release(curve.release).label,
        pinned=curve.key,
    )
    question = check(request, without.without_configuration(data, curve))
    bound = bound_of(question, question.candidates[0])
    if isinstance(bound, InfeasibleCandidate):
        return []
    at = load_model_of(bound, question.lengths, Arrivals.CLOSED_LOOP).at
    return [(point, at(round(point.concurrency or 1.0))) for point in curve.points]
