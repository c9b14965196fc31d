"""Latency against throughput of every configuration that a request allows, inside its SLA or not.

Measured points where the workload was measured, else the step model of the configuration. What does not fit is named
with its reason. The size of the same request stands beside the curves, so that a picture can mark where it lies. Pure;
drawing is in `curve_figure`, numbers for machines in `curve_document`.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from firsttoken_sizing.answer import Answer
from firsttoken_sizing.band import Band
from firsttoken_sizing.errors import one_of
from firsttoken_sizing.optimize.error_band import measured_times, times_band
from firsttoken_sizing.optimize.evaluate import bound_of, evaluate
from firsttoken_sizing.optimize.evaluation import Candidate, CandidateBound, Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.load_model import InFlightRequests, LoadModel, Rate, load_model_of
from firsttoken_sizing.optimize.prefix_hits import with_hits
from firsttoken_sizing.optimize.question import Question, check
from firsttoken_sizing.optimize.size import size
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance import measured
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.request import Basis, Infeasible, Sizing, SizingRequest
from firsttoken_sizing.step import basis_of, speed_key
from firsttoken_sizing.step.bands import Banded
from firsttoken_sizing.workload import Arrivals, Sla

if TYPE_CHECKING:
    from firsttoken_sizing.report.pictures import Picture

CONCURRENCIES = (1, 2, 5, 10, 25, 50, 100, 250)
"""Closed-loop loads of a curve for which none are asked: the ladder of the DLI course."""
UTILIZATIONS = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 0.95)
"""Poisson loads of a curve for which none are asked, as shares of the largest stable rate."""
_FROM_BEST = (Basis.MEASURED, Basis.INTERPOLATED, Basis.FITTED, Basis.EXTRAPOLATED)


@dataclass(frozen=True, slots=True)
class Loads:
    """Loads at which a curve has its points.

    `concurrencies` (whole numbers >= 1) and `rates` (requests a second of one replica, > 0) are used for the load model
    that they belong to; without them a measured curve has its measured loads and a modeled one `CONCURRENCIES` or
    `UTILIZATIONS`, or with `dense` as many as a smooth line takes.
    """

    concurrencies: tuple[int, ...] = ()
    rates: tuple[float, ...] = ()
    dense: bool = False


@dataclass(frozen=True, slots=True)
class Curve:
    """The operating points of one replica of a configuration, by rising load.

    `basis` is that of the least founded point. `points` hold what is known; `filled`, one for one, have percentiles
    that a benchmark did not report filled in as sizing does, to be judged and drawn.
    """

    key: ConfigurationKey
    arrivals: Arrivals
    lengths: Lengths
    basis: Basis
    band: Band
    """Band of the requests a second at the load of a point."""
    points: tuple[Point, ...]
    filled: tuple[Point, ...]
    kept: tuple[bool | None, ...]
    """Verdict on each point, true where it keeps the SLA; None where a statistic is not known, or without limits."""
    alone: Point
    """One request on an idle replica."""
    chosen: Point | None
    """The operating point of the size, where this is the configuration that was chosen."""
    source: str

    @property
    def knee(self) -> Point | None:
        """The point with the most throughput for its end-to-end latency (mean): beyond it latency grows faster.

        Throughput / delay is Kleinrock's power ("Power and deterministic rules of thumb for probabilistic problems in
        computer communications", ICC 1979), whose maximum is where a line from the origin touches the curve.
        """
        known = [p for p in self.points if p.end_to_end.mean]
        return max(known, key=lambda p: p.requests_per_second / (p.end_to_end.mean or math.inf), default=None)


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A configuration without a curve, or loads of a curve that have no point, and why."""

    key: ConfigurationKey
    reason: str


@dataclass(frozen=True, slots=True, repr=False)
class Study(Answer):
    """One model under one workload and SLA: its size (or why none could be computed) and the curves behind it."""

    model: str
    lengths: Lengths
    arrivals: Arrivals
    sla: Sla
    sizing: Sizing
    curves: tuple[Curve, ...]
    left_out: tuple[LeftOut, ...]

    def plot(self, x: str | None = None, y: str = "rps-per-gpu", by: str = "tp") -> Picture:
        """The curves as an image; the axes and groups are those of `firsttoken curve`.

        Raises `InvalidInput` for an axis or a group that is not known, `ModuleNotFoundError` without matplotlib.
        """
        from firsttoken_sizing.report.curve_figure import Grouping, View, curve_figure
        from firsttoken_sizing.report.pictures import Picture
        from firsttoken_sizing.report.quantity import Quantity

        view = View(
            None if x is None else one_of(Quantity, "x", x), one_of(Quantity, "y", y), one_of(Grouping, "by", by)
        )
        return Picture(curve_figure([(self.model, [self])], view))


def study(request: SizingRequest, loads: Loads | None = None) -> Study:
    """Size a request and draw every configuration that it allows.

    Pipelines and other ways of batching than the engine's own are drawn where they are declared or chosen. Raises
    `InvalidInput` (and its kinds) for a request that cannot be sized whatever is measured. A configuration that does
    not fit, or that nothing is known about, is in `left_out`.
    """
    question = check(request)
    sizing = size(request)
    # Where the context window is exceeded no configuration could serve a request, so there is nothing to draw.
    too_long = sizing.cause is Infeasible.CONTEXT_WINDOW_EXCEEDED
    drawn = () if too_long else _drawn(question, sizing)
    found = [one for candidate in drawn for one in _curve(question, candidate, loads or Loads(), sizing)]
    return Study(
        model=question.model.name,
        lengths=question.lengths,
        arrivals=question.arrivals,
        sla=request.sla,
        sizing=sizing,
        curves=tuple(one for one in found if isinstance(one, Curve)),
        left_out=tuple(one for one in found if isinstance(one, LeftOut)),
    )


def _drawn(question: Question, sizing: Sizing) -> tuple[Candidate, ...]:
    """The candidates of the search that a reader wants to compare, and the chosen one."""
    hardware, pinned = question.request.hardware, question.request.pinned
    batchings = question.request.batchings or (question.request.engine.spec.batching,)
    pipelines = hardware.pipeline_parallel is not None or pinned is not None
    drawn = [
        c for c in question.candidates if c.batching in batchings[:1] and (pipelines or c.key.pipeline_parallel == 1)
    ]
    if sizing.feasible and sizing.configuration and sizing.batching:
        drawn.insert(0, Candidate(sizing.configuration, sizing.batching))
    # Formats of equal speed (BF16 and FP16) have one curve, under the name of the chosen one or else of the first.
    of_speed = {(speed_key(c.key), c.batching): c for c in reversed(drawn)}
    gpus = list(question.gpus)

    def order(candidate: Candidate) -> tuple[int, str, int, int]:
        key = candidate.key
        return gpus.index(key.gpu), key.precision, key.pipeline_parallel, key.tensor_parallel

    return tuple(sorted(of_speed.values(), key=order))


def _curve(question: Question, candidate: Candidate, loads: Loads, sizing: Sizing) -> Iterable[Curve | LeftOut]:
    """The curve of one candidate, and what is missing in it."""
    sla, key = question.request.sla, candidate.key
    bound = bound_of(question, candidate)
    if isinstance(bound, InfeasibleCandidate):
        yield _left_out(bound)
        return
    hits = with_hits(question, bound)
    assert hits is not None
    question, bound = hits.question, hits.bound
    # Without limits the evaluation is that of the configuration itself, and a broken SLA hides no curve.
    found = evaluate(replace(question, request=replace(question.request, sla=Sla(mode=sla.mode))), bound)
    if isinstance(found, InfeasibleCandidate):
        yield _left_out(found)
        return
    load_model = load_model_of(bound, question.lengths, question.arrivals)
    basis = found.basis
    if bound.points:
        known, filled, of_points = _measured(question, bound, found, load_model, loads)
        basis = max(of_points, key=_FROM_BEST.index, default=basis)
    else:
        known = filled = _modeled(load_model, loads)
    if beyond := _without_point(known, loads, load_model):
        yield LeftOut(key, beyond)
    if not known:
        return
    limits = (sla.time_to_first_token, sla.inter_token_latency, sla.end_to_end)
    yield Curve(
        key=key,
        arrivals=question.arrivals,
        lengths=question.lengths,
        basis=basis,
        band=_band(question, bound, known if basis is not Basis.MEASURED else ()),
        points=known,
        filled=filled,
        kept=tuple(meets(p, sla) if any(limits) else None for p in filled),
        alone=_alone(filled, load_model),
        chosen=_operating_point(sizing, candidate),
        source=found.source,
    )


def _band(question: Question, bound: CandidateBound, modeled: Iterable[Point]) -> Band:
    """Band of the throughput at a load, at the hardest of the points; without any that of what was measured.

    By Little's law that of the end-to-end latency.
    """
    times = [times_band(question, bound, Banded.END_TO_END, point) for point in modeled]
    return max(times or [measured_times(Banded.END_TO_END)], key=lambda band: band.high / band.low).inverse


def _left_out(candidate: InfeasibleCandidate) -> LeftOut:
    return LeftOut(candidate.candidate.key, f"{candidate.cause.value}: {candidate.sentence}")


def _modeled(load_model: LoadModel, loads: Loads) -> tuple[Point, ...]:
    """Points of the step model: at the loads that are asked for, else spread over what a replica can do."""
    if isinstance(load_model, InFlightRequests):
        if loads.dense and not loads.concurrencies:
            return _without_repeats(load_model.curve(load_model.at(load_model.most)))
        usual = (*(c for c in CONCURRENCIES if c < load_model.most), load_model.most)
        return tuple(load_model.at(c) for c in loads.concurrencies or usual)
    assert isinstance(load_model, Rate)
    if loads.dense and not loads.rates:
        return _without_repeats(load_model.curve(load_model.at(load_model.utilization * load_model.stable)))
    rates = loads.rates or tuple(share * load_model.stable for share in UTILIZATIONS)
    # At and above the stable rate the queue grows for ever: there is no latency to show.
    return tuple(load_model.at(rate) for rate in rates if rate < load_model.stable)


def _without_repeats(points: Iterable[Point]) -> tuple[Point, ...]:
    ordered = {measured.load_of(p): p for p in points}
    return tuple(ordered[load] for load in sorted(ordered))


def _measured(
    question: Question, bound: CandidateBound, found: Evaluation, load_model: LoadModel, loads: Loads
) -> tuple[tuple[Point, ...], tuple[Point, ...], set[Basis]]:
    """Points as known and as filled in, and on what they stand."""
    points, whole_curve = bound.points, found.curve(found.point)
    closed = question.arrivals is Arrivals.CLOSED_LOOP
    known: list[Point] = []
    filled: list[Point] = []
    bases: set[Basis] = set()
    asked: Sequence[float] = loads.concurrencies if closed else loads.rates
    for load in asked or [measured.load_of(p) for p in points]:
        at, whole = measured.at_load(points, load), measured.at_load(whole_curve, load)
        if at is not None and whole is not None:
            known.append(at)
            filled.append(whole)
            bases.add(Basis.MEASURED if at in points else Basis.INTERPOLATED)
        else:
            modeled = _modeled(load_model, replace(loads, concurrencies=(round(load),), rates=(load,)))
            known += modeled
            filled += modeled
            bases |= {_model_basis(question, bound) for _ in modeled}
    return tuple(known), tuple(filled), bases


def _model_basis(question: Question, bound: CandidateBound) -> Basis:
    """Basis of the step model, the source beside measured points for loads that lie outside."""
    return basis_of(bound.fitted, question.lengths.input_tokens, question.lengths.output_tokens)


def _alone(points: Iterable[Point], load_model: LoadModel) -> Point:
    lightest = min(points, key=lambda p: p.concurrency or math.inf)
    is_alone = lightest.concurrency is not None and lightest.concurrency <= PARAMETERS.capacity.alone_concurrency
    return lightest if is_alone and isinstance(load_model, InFlightRequests) else load_model.alone()


def _without_point(known: Sequence[Point], loads: Loads, load_model: LoadModel) -> str:
    """Name the rates that were asked for and have no point, and why. A closed loop has one at any concurrency."""
    if not isinstance(load_model, Rate):
        return ""
    there = [measured.load_of(p) for p in known]
    unstable = [f"{rate:g}" for rate in loads.rates if not any(math.isclose(rate, t) for t in there)]
    if not unstable:
        return ""
    return f"{', '.join(unstable)} requests/s are not below {load_model.stable:.4g}, the largest stable rate"


def _operating_point(sizing: Sizing, candidate: Candidate) -> Point | None:
    """Operating point of the size, if it stands on this candidate."""
    if not sizing.feasible or (sizing.configuration, sizing.batching) != (candidate.key, candidate.batching):
        return None
    rate = sizing.requests_per_second_per_replica
    return Point(
        requests_per_second=rate,
        concurrency=sizing.concurrency_per_replica,
        offered_requests_per_second=None if sizing.arrivals is Arrivals.CLOSED_LOOP else rate,
        ttft=sizing.ttft,
        itl=sizing.itl,
        end_to_end=sizing.end_to_end,
    )
