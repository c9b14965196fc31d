"""Plans: replicas, GPUs and servers from what one replica carries, and the order in which they are preferred.

A saving that the error of an answer could make up is no reason to leave one that is better known. See
docs/design/sizing.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from firsttoken_sizing.optimize.cost import Bill, bill
from firsttoken_sizing.optimize.evaluation import Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.fleet import in_fleet, replicas_together, shares_arrivals
from firsttoken_sizing.optimize.job import job_plan
from firsttoken_sizing.optimize.load_model import whole_replicas
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance.offline import OfflinePlan
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import Basis

Trust = tuple[int, int, bool]
_TRUST = (Basis.MEASURED, Basis.INTERPOLATED, Basis.FITTED, Basis.EXTRAPOLATED)


@dataclass(frozen=True, slots=True)
class Plan:
    """An evaluation with its size. Rates are requests a second."""

    evaluation: Evaluation
    replicas: int
    bill: Bill
    peak_requests_per_second: float
    question: Question
    """The question that it answers, with the hits in the prefix cache that this candidate has."""
    job: OfflinePlan | None = None
    """Plan of a declared offline job."""

    @property
    def requests_per_second_per_server(self) -> float:
        """Rate that one server carries; a replica that spans servers gives its share."""
        return self.evaluation.capacity * self.bill.replicas_per_server


def plan(evaluation: Evaluation, question: Question) -> Plan | InfeasibleCandidate:
    """Size one feasible candidate for the declared load; infeasible where an offline job cannot be done in time."""
    request, capacity = question.request, evaluation.capacity
    workload, job = request.workload, None
    if workload.offline is not None:
        found = job_plan(evaluation, question.lengths, workload.offline)
        if isinstance(found, InfeasibleCandidate):
            return found
        job, replicas = found, found.replicas
        peak = workload.offline.requests / (3600 * workload.offline.deadline_hours)
    elif workload.concurrent_requests is not None:
        # N requests outstanding are N / concurrency replicas, and by Little's law that many times their throughput.
        share = workload.concurrent_requests / (evaluation.point.concurrency or math.inf)
        peak, replicas = share * capacity, whole_replicas(share)
    else:
        peak = workload.peak_requests_per_second or 0.0
        if shares_arrivals(question, evaluation):
            replicas = replicas_together(question, evaluation, peak)
            evaluation = in_fleet(question, evaluation, replicas, peak)
        else:
            replicas = whole_replicas(peak / capacity)
    return Plan(evaluation, replicas, bill(evaluation.key, replicas, request), peak, question, job)


def replicas_between(best: Plan) -> tuple[int, int]:
    """Fewest and most replicas that the plan may need, where a replica carries the most and the least of its band."""
    evaluation, band = best.evaluation, best.evaluation.band
    # NB: a job also takes the ramp and the tail, which its replicas have and its mean rate has not.
    share = float(best.replicas) if best.job else best.peak_requests_per_second / evaluation.capacity
    fewest, most = whole_replicas(share / band.high), whole_replicas(share / band.low)
    return min(fewest, best.replicas), max(most, best.replicas)


def trust(basis: Basis, key: ConfigurationKey, *, by_physics: bool, from_points: bool) -> Trust:
    """Rank of how well an answer is known, best first: by basis, then measured configurations, then those of one stage.

    Points whose missing statistic physics had to fill in are known better than physics alone. No shipped coefficient
    stands on a measured pipeline, so physics alone says what one gains.
    """
    guessed = (1 if from_points else 2) if by_physics else 0
    return _TRUST.index(basis), guessed, key.pipeline_parallel > 1


def prefer(plans: Iterable[Plan], *, priced: bool) -> list[Plan]:
    """Plans from best to worst: cheapest (`priced`), else fewest GPUs, better known ones first. Ties keep their order.

    The best is the first whose saving is not in doubt (`saving_in_doubt`). `priced` says that every plan has a price: a
    priced and an unpriced one cannot be compared.
    """
    plans = list(plans)
    ordered = sorted(plans, key=lambda p: (p.bill.compared(priced=priced), trust_of(p)))
    best = next(p for p in ordered if saving_in_doubt(p, plans, priced=priced) is None)
    return [best, *(p for p in ordered if p is not best)]


def saving_in_doubt(plan: Plan, plans: Iterable[Plan], *, priced: bool) -> float | None:
    """Percent that a request costs less than on the best plan that is better known, if that is in doubt.

    None where it is not, or nothing is better known. It is in doubt where the error could undo it (`is_inside_error`),
    and always where physics alone stands against what was measured for this very question: the band of physics is made
    of other models and GPUs, and to leave a measurement for it is to be decided by another measurement.
    NB: taken of one replica and not of whole fleets, so that it does not depend on the load: else more load could need
    fewer GPUs.
    """
    better_known = [p for p in plans if trust_of(p) < trust_of(plan)]
    if not better_known:
        return None
    best = min(cost_of_capacity(p, priced=priced) for p in better_known)
    saving = 100 * (1 - cost_of_capacity(plan, priced=priced) / best)
    is_guessed = plan.evaluation.by_physics and any(p.evaluation.from_points for p in better_known)
    # NB: a saving that there is not needs no band, which takes as long as the capacity.
    return saving if saving <= 0 or is_guessed or is_inside_error(plan, saving) else None


def is_inside_error(plan: Plan, saving_percent: float) -> bool:
    """Tell whether a replica that carries the least of its band leaves nothing of such a saving."""
    return saving_percent <= 100 * (1 - plan.evaluation.band.low)


def trust_of(plan: Plan) -> Trust:
    """Rank of how well a plan is known."""
    known = plan.evaluation
    return trust(known.basis, known.key, by_physics=known.by_physics, from_points=known.from_points)


def cost_of_capacity(plan: Plan, *, priced: bool) -> float:
    """Cost of one request a second: money a year where every plan has a price, else GPUs."""
    evaluation = plan.evaluation
    # NB: of a replica by itself: what it carries among others depends on the load.
    return plan.bill.of_one_replica(priced=priced) / (evaluation.alone or evaluation).capacity
