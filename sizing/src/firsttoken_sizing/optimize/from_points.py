"""One candidate from points that were measured at exactly its lengths, as the DLI course takes them.

The operating point is a measured one. A statistic that the points lack is filled in, and then says so in the basis.
What the points do not reach is for the step model to say (`from_model`).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, partial

from firsttoken_sizing.band import Band
from firsttoken_sizing.optimize.error_band import measured_band, measured_times, quantity_of, tightened, times_band
from firsttoken_sizing.optimize.evaluation import CandidateBound, Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.infeasible import infeasible_by_latency
from firsttoken_sizing.optimize.measured_with import with_its_memory
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance import closed_loop, measured
from firsttoken_sizing.performance.limits import Bound, bounds, meets, tightest
from firsttoken_sizing.profile import ConfigurationKey, Load, Point
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step import Origin, speed_key
from firsttoken_sizing.step.bands import Banded
from firsttoken_sizing.step.samples import usable_samples
from firsttoken_sizing.workload import Sla


def from_points(question: Question, bound: CandidateBound) -> Evaluation | InfeasibleCandidate | None:
    """Evaluate a candidate by its points (at least one); None where only the step model can say more."""
    sla, key = question.request.sla, bound.candidate.key
    judged = [p for p in bound.points if measured.can_be_judged(p, sla)]
    if not judged:
        return None
    known = measured.operating_point(judged, sla)
    filled, of_prior = _fill(question, bound, judged)
    chosen, basis = known, Basis.MEASURED
    if measured.has_better_unknown(judged, sla, known):
        # NB: not those that their own mean rules out: a filled percentile must not bring them back.
        possible = [(p, f) for p, f in zip(judged, filled, strict=True) if meets(p, sla) is not False]
        best = measured.operating_point([f for _, f in possible], sla)
        if best is not None and (known is None or best.requests_per_second > known.requests_per_second):
            before = next(p for p, f in possible if f is best)
            basis = Basis.INTERPOLATED if measured.is_between(judged, before, sla) else Basis.FITTED
            if of_prior:
                basis = Basis.EXTRAPOLATED
            chosen = best
    if chosen is None and any(meets(p, sla) is None for p in filled):
        return None
    if chosen is None:
        lowest = min(filled, key=lambda p: p.concurrency or math.inf)
        if lowest.concurrency is None or lowest.concurrency > PARAMETERS.capacity.alone_concurrency:
            return None
        return infeasible_by_latency(bound.candidate, lowest, sla, bound.memory)
    fastest = max(p.requests_per_second for p in bound.points)
    is_measured, binding = basis is Basis.MEASURED, _binding(filled, chosen, sla, fastest)
    names = sorted({p.name for p in question.profiles if speed_key(p.key) == speed_key(key)})
    return Evaluation(
        bound=bound,
        point=chosen,
        basis=basis,
        band_of=measured_band if is_measured else cache(partial(_band, question, bound, filled, chosen, binding)),
        curve=lambda _: measured.interpolate(filled),
        times_of=measured_times if is_measured else partial(_times, question, bound, chosen),
        binding=binding,
        saturation_requests_per_second=fastest,
        source=f"measured points of {', '.join(names)}",
        by_physics=basis is Basis.EXTRAPOLATED,
        from_points=True,
    )


def _band(question: Question, bound: CandidateBound, filled: Sequence[Point], chosen: Point, binding: str) -> Band:
    """Band of a capacity that a statistic decided which was filled in: as much may it be longer or shorter."""
    quantity = quantity_of(binding, chosen, question.request.sla)
    times, again = times_band(question, bound, quantity, chosen), measured_band()
    curve = measured.interpolate(filled)

    def share(factor: float) -> float:
        best = measured.operating_point(curve, tightened(question.request.sla, 1 / factor))
        least = PARAMETERS.bands.least_share
        return max(least, best.requests_per_second / chosen.requests_per_second) if best else least

    return Band(min(again.low, share(times.high)), max(again.high, share(times.low)))


def _times(question: Question, bound: CandidateBound, chosen: Point, quantity: Banded) -> Band:
    return times_band(question, bound, quantity, chosen)


def measured_concurrency(question: Question, key: ConfigurationKey) -> int | None:
    """Most requests that were measured running at once at these lengths: so many do fit, whatever is reserved.

    Where the TTFT alone is known to compare with, all of a concurrency without a queue; else those that were decoding,
    by Little's law over the decode time, `X * ITL * (OSL - 1)`.
    """
    lengths = question.lengths
    profiles = with_its_memory(question, key.precision)
    same = measured.same_lengths(profiles, key, Load.CLOSED_LOOP, lengths.input_tokens, lengths.output_tokens)
    running: list[float] = []
    for profile in same:
        samples = usable_samples((profile,))
        queue_would_show = any(s.concurrency == 1 and s.point.ttft.mean is not None for s in samples)
        for s in samples:
            if queue_would_show and s.point.ttft.mean is not None:
                running.append(s.concurrency)
            elif (itl := s.point.itl.mean) is not None:
                decoding = s.point.requests_per_second * itl * (s.output_tokens - 1) / 1000
                running.append(min(s.concurrency, decoding))
    return int(max(running)) if running else None


def _fill(question: Question, bound: CandidateBound, judged: Sequence[Point]) -> tuple[tuple[Point, ...], bool]:
    """The points with what they lack, and whether physics alone had to say it.

    A fit says what the measured ratios do not reach. The prior is asked only where nothing was measured at all: beside
    a ratio of neighbors it would be the worse guess.
    """
    step = bound.step

    def shape(point: Point) -> Point | None:
        if point.concurrency is None:
            return None
        wide = replace(step, max_batch=max(step.max_batch, math.ceil(point.concurrency)))
        concurrency = max(1, round(point.concurrency))
        return closed_loop.predict(wide, question.lengths, concurrency, bound.scheduler, bound.clients)

    if bound.fitted.origin is not Origin.PRIOR:
        return measured.fill_percentiles(judged, shape), False
    filled = measured.fill_percentiles(judged, lambda _: None)
    if all(meets(p, question.request.sla) is not None for p in filled):
        return filled, False
    return measured.fill_percentiles(judged, shape), True


def _binding(points: Sequence[Point], chosen: Point, sla: Sla, fastest: float) -> str:
    """Limit that stops the replica at `chosen`; `fastest`: the largest measured throughput, in the SLA or not."""
    if chosen.requests_per_second >= fastest:
        return "Throughput"
    faster = [p for p in points if p.requests_per_second > chosen.requests_per_second]
    following = min(faster, key=lambda p: p.requests_per_second, default=chosen)
    broken = [b for b in bounds(following, sla) if b.kept is False]
    limit: Bound | None = max(broken, key=lambda b: b.share or 0.0, default=tightest(chosen, sla))
    return limit.name if limit else "Throughput"
