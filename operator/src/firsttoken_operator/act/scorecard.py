"""Scorecard of the operator: attainment, GPU-hours, flaps and model error of one resource. Pure.

A tick speaks for the time since the last one, and for at most one rate window: what happened while the operator did
not look is neither billed nor judged. The windows of consecutive ticks overlap; a tick takes of its window's requests
the share that its own time has of the window, so that each request counts once. What is shown of it, and when, is in
`scorecard_status`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from datetime import UTC, date, datetime, time, timedelta

from firsttoken_operator.api.scorecard import FLAP_MINUTES, KEPT_DAYS
from firsttoken_operator.domain import Decision, LateShare, ResourceSnapshot, Sized, Target, TtftInterval
from firsttoken_sizing.workload import Percentile

FLAP_TIME = timedelta(minutes=FLAP_MINUTES)
SECONDS_PER_HOUR = 3600.0


@dataclass(frozen=True, slots=True)
class Tally:
    """Sums over some time; tallies of times that do not overlap add up.

    `hours`: time in which the target was seen. `gpu_hours`: of the pods that held GPUs in it. `saved_gpu_hours`: what
    the replicas for the declared peak would have held beyond that; negative where they would have held less, None where
    no size was known. `requests`: those whose first token was judged against its limit; of them `late_requests` most
    likely came late and `late_requests_at_most` possibly. `late_requests_allowed`: those that might by the percentile
    of their limit, their error budget; `late_requests_charged`: the late ones that it is charged with, counted only
    while a percentile allowed some. `compared_requests`: those of windows in which model and measurement are
    comparable; `error_requests`: the sum over them of the relative error of their window.
    """

    hours: float = 0.0
    gpu_hours: float = 0.0
    saved_gpu_hours: float | None = None
    requests: float = 0.0
    late_requests: float = 0.0
    late_requests_at_most: float = 0.0
    compared_requests: float = 0.0
    error_requests: float = 0.0
    flaps: int = 0
    late_requests_allowed: float = 0.0
    late_requests_charged: float = 0.0

    def __add__(self, other: Tally) -> Tally:
        saved = [tally.saved_gpu_hours for tally in (self, other) if tally.saved_gpu_hours is not None]
        return Tally(
            hours=self.hours + other.hours,
            gpu_hours=self.gpu_hours + other.gpu_hours,
            saved_gpu_hours=sum(saved) if saved else None,
            requests=self.requests + other.requests,
            late_requests=self.late_requests + other.late_requests,
            late_requests_at_most=self.late_requests_at_most + other.late_requests_at_most,
            compared_requests=self.compared_requests + other.compared_requests,
            error_requests=self.error_requests + other.error_requests,
            flaps=self.flaps + other.flaps,
            late_requests_allowed=self.late_requests_allowed + other.late_requests_allowed,
            late_requests_charged=self.late_requests_charged + other.late_requests_charged,
        )

    @property
    def attainment(self) -> float | None:
        """Share 0..1 of the judged requests that most likely came in time; None: none was judged."""
        return 1 - self.late_requests / self.requests if self.requests > 0 else None

    @property
    def burn_rate(self) -> float | None:
        """Charged late requests as a multiple of the allowed ones; None: no percentile allowed any."""
        return self.late_requests_charged / self.late_requests_allowed if self.late_requests_allowed > 0 else None

    @property
    def calibration_error(self) -> float | None:
        """Mean of |observed - predicted| / observed over the compared requests; None: nothing was comparable."""
        return self.error_requests / self.compared_requests if self.compared_requests > 0 else None


NOTHING = Tally()


@dataclass(frozen=True, slots=True)
class Change:
    """The last change of replicas that firsttoken made or advised."""

    at: datetime
    up: bool


@dataclass(frozen=True, slots=True)
class Scorecard:
    """The figures of one resource since `since`: its last `KEPT_DAYS` days of UTC, newest first.

    `counted` is what this process added, whatever has been dropped of it since. `seen_at`: time of the last tick.
    `settled_seconds`: for how long the same `settled_replicas` have been ready and nothing was under way.
    """

    since: datetime
    days: Mapping[date, Tally] = field(default_factory=dict)
    last_change: Change | None = None
    counted: Tally = NOTHING
    seen_at: datetime | None = None
    settled_replicas: int = 0
    settled_seconds: float = 0.0

    @property
    def total(self) -> Tally:
        """The sum of its days."""
        return sum(self.days.values(), NOTHING)


@dataclass(frozen=True, slots=True)
class Look:
    """Sight of one resource at one tick. `changed`: its decision changed replicas, or newly advised a change.

    `decision` is None where it failed: GPUs are billed all the same.
    """

    at: datetime
    resource: ResourceSnapshot
    decision: Decision | None
    changed: bool = False


def advance(card: Scorecard, look: Look) -> Scorecard:
    """The scorecard after one more tick."""
    window_seconds = look.resource.metrics.window_seconds
    elapsed = (look.at - card.seen_at).total_seconds() if card.seen_at else 0.0
    # NB: a wall clock may be set back (nothing is billed) or ahead (one window is).
    seconds = min(max(elapsed, 0.0), window_seconds)
    share = seconds / window_seconds if window_seconds > 0 else 0.0
    card = _settle(card, look, seconds)
    change = _change(look)
    added = _billed(look, seconds) + _judged(look, share)
    if card.settled_seconds >= window_seconds:
        added += _compared(look, share)
    before = card.last_change
    if change and before and before.up != change.up and timedelta() <= change.at - before.at <= FLAP_TIME:
        added += Tally(flaps=1)
    days = _entered(card.days, look.at.date(), added)
    return replace(
        card,
        since=_since(card, days, look.at),
        days=days,
        last_change=change or card.last_change,
        counted=card.counted + added,
        seen_at=look.at,
    )


def _change(look: Look) -> Change | None:
    decision = look.decision
    if decision is None or not look.changed or not decision.changes:
        return None
    return Change(look.at, decision.to_replicas > decision.from_replicas)


def _settle(card: Scorecard, look: Look, seconds: float) -> Scorecard:
    """Count how long the fleet has had its decided size with nothing under way: the model is about such a fleet."""
    target, decision = look.resource.target, look.decision
    if not isinstance(target, Target) or decision is None:
        return replace(card, settled_replicas=0, settled_seconds=0.0)
    under_way = target.starting or target.stuck or target.terminating or target.rollout
    if under_way or not target.ready == target.replicas == decision.to_replicas:
        return replace(card, settled_replicas=0, settled_seconds=0.0)
    if target.ready != card.settled_replicas:
        return replace(card, settled_replicas=target.ready, settled_seconds=0.0)
    return replace(card, settled_seconds=card.settled_seconds + seconds)


def _billed(look: Look, seconds: float) -> Tally:
    target, sized = look.resource.target, look.resource.sized
    if not isinstance(target, Target) or seconds <= 0:
        return NOTHING
    # A pod that found no node, or looks for none yet, holds no GPU; one that starts, fails or ends does.
    pods = max(0, target.pods - target.unschedulable - target.hindrances.gated) + target.terminating
    hours = seconds / SECONDS_PER_HOUR
    held = hours * pods * target.gpus_per_replica
    if not isinstance(sized, Sized):
        return Tally(hours=hours, gpu_hours=held)
    peak = hours * sized.replicas_for_declared_peak * target.gpus_per_replica
    return Tally(hours=hours, gpu_hours=held, saved_gpu_hours=peak - held)


def _judged(look: Look, share: float) -> Tally:
    ttft = look.resource.metrics.ttft
    late = _late(look.resource, ttft)
    if ttft is None or late is None or not look.resource.metrics.may_raise:
        return NOTHING
    requests, allowed = share * ttft.requests, _allowed_share(look.resource)
    return Tally(
        requests=requests,
        late_requests=requests * late.estimate,
        late_requests_at_most=requests * late.high,
        late_requests_allowed=requests * allowed,
        late_requests_charged=requests * late.estimate if allowed > 0 else 0.0,
    )


def _allowed_share(resource: ResourceSnapshot) -> float:
    """Share of the requests that may be late; 0 where the limit is on no percentile."""
    limit = resource.sized.sla.time_to_first_token if isinstance(resource.sized, Sized) else None
    return 0.0 if limit is None or limit.percentile.share is None else 1 - limit.percentile.share


def _late(resource: ResourceSnapshot, ttft: TtftInterval | None) -> LateShare | None:
    """The share of a window that came late. A limit on the mean is kept or missed by a window as a whole."""
    limit = resource.sized.sla.time_to_first_token if isinstance(resource.sized, Sized) else None
    if ttft is None or limit is None:
        return None
    if limit.percentile is not Percentile.MEAN:
        return ttft.late
    late = 1.0 if ttft.mean_milliseconds > limit.milliseconds else 0.0
    return LateShare(late, late, late)


def _compared(look: Look, share: float) -> Tally:
    """The mean TTFT that the model says at the present size and load against the exact mean of the window.

    The mean, because it is the one statistic that histograms give exactly.
    """
    ttft, decision = look.resource.metrics.ttft, look.decision
    point = decision.prediction.n if decision and decision.prediction else None
    if ttft is None or point is None or not look.resource.metrics.may_lower:
        return NOTHING
    observed, predicted = ttft.mean_milliseconds, point.ttft.mean
    if observed <= 0 or predicted is None or point.saturated:
        return NOTHING
    requests = share * ttft.requests
    return Tally(compared_requests=requests, error_requests=requests * abs(observed - predicted) / observed)


def _entered(days: Mapping[date, Tally], today: date, added: Tally) -> dict[date, Tally]:
    """The days with what today adds; those that are too old are dropped."""
    oldest = today - timedelta(days=KEPT_DAYS - 1)
    tallies = {at: tally for at, tally in days.items() if oldest <= at <= today}
    if added != NOTHING:
        tallies[today] = tallies.get(today, NOTHING) + added
    return dict(sorted(tallies.items(), reverse=True))


def _since(card: Scorecard, days: Mapping[date, Tally], now: datetime) -> datetime:
    """Find the begin of the first of the days, or of the scorecard where that was later."""
    if not days:
        return now if card.days else card.since
    return max(card.since, datetime.combine(min(days), time(), UTC))
