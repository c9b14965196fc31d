"""From what one replica carries to replicas, GPUs and servers, and the order in which plans are preferred.

A saving that the error of an answer could make up is no reason to leave one that is better known. See
docs/design/sizing.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

from firsttoken_sizing.optimize.cost import cost_per_year
from firsttoken_sizing.optimize.evaluation import Evaluation, InfeasibleCandidate
from firsttoken_sizing.optimize.fleet import in_fleet, replicas_together, shares_arrivals
from firsttoken_sizing.optimize.job import job_plan
from firsttoken_sizing.optimize.load_model import whole_replicas
from firsttoken_sizing.optimize.question import Question
from firsttoken_sizing.performance.offline import OfflinePlan
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import Basis, SizingRequest

Trust = tuple[int, bool, bool]
_TRUST = (Basis.MEASURED, Basis.INTERPOLATED, Basis.FITTED, Basis.EXTRAPOLATED)


@dataclass(frozen=True, slots=True)
class Plan:
    """An evaluation with its size. Rates are requests a second; `cost_per_year` is None without a price."""

    evaluation: Evaluation
    replicas: int
    gpus: int
    servers: int
    replicas_per_server: float
    peak_requests_per_second: float
    cost_per_year: float | None
    cost_per_year_of_one_replica: float | None
    """With its share of a server; it does not depend on the load, as the cost of whole replicas and servers does."""
    job: OfflinePlan | None = None
    """Of a declared offline job."""
    careful_capacity: float | None = None
    """What a replica by itself carries if every step takes longer by the whole error band; None where not asked for."""

    @property
    def requests_per_second_per_server(self) -> float:
        """Rate that one server carries; a replica that spans servers gives its share."""
        return self.evaluation.capacity * self.replicas_per_server


@dataclass(frozen=True, slots=True)
class Bill:
    """GPUs, servers and cost of so many replicas of a configuration. `cost_per_year` is None without a price."""

    gpus: int
    servers: int
    replicas_per_server: float
    cost_per_year: float | None
    cost_per_year_of_one_replica: float | None


def bill(key: ConfigurationKey, replicas: int, request: SizingRequest) -> Bill:
    """Whole replicas in whole servers: none is split between two servers that could hold one."""
    per_server, gpus_per_replica = request.hardware.gpus_per_server, key.gpus_per_replica
    if gpus_per_replica <= per_server:
        in_one_server = per_server // gpus_per_replica
        servers, replicas_per_server = -(-replicas // in_one_server), float(in_one_server)
    else:
        of_one_replica = -(-gpus_per_replica // per_server)
        servers, replicas_per_server = replicas * of_one_replica, 1 / of_one_replica
    gpus, pricing = replicas * gpus_per_replica, request.pricing.get(key.gpu)

    def cost(gpus: int, servers: float) -> float | None:
        return cost_per_year(pricing, gpus=gpus, servers=servers, gpus_per_server=per_server) if pricing else None

    return Bill(
        gpus=gpus,
        servers=servers,
        replicas_per_server=replicas_per_server,
        cost_per_year=cost(gpus, servers),
        cost_per_year_of_one_replica=cost(gpus_per_replica, 1 / replicas_per_server),
    )


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
    of_fleet = bill(evaluation.key, replicas, request)
    return Plan(
        evaluation=evaluation,
        replicas=replicas,
        gpus=of_fleet.gpus,
        servers=of_fleet.servers,
        replicas_per_server=of_fleet.replicas_per_server,
        peak_requests_per_second=peak,
        cost_per_year=of_fleet.cost_per_year,
        cost_per_year_of_one_replica=of_fleet.cost_per_year_of_one_replica,
        job=job,
    )


def trust(basis: Basis, by_physics: bool, key: ConfigurationKey) -> Trust:
    """Rank of how well an answer is known, best first: by basis, then measured configurations, then those of one stage.

    No shipped coefficient stands on a measured pipeline, so physics alone says what one gains.
    """
    return _TRUST.index(basis), by_physics, key.pipeline_parallel > 1


def prefer(plans: Iterable[Plan], *, priced: bool) -> list[Plan]:
    """Plans from best to worst: cheapest (`priced`), else fewest GPUs, better known ones first. Ties keep their order.

    The best is the first whose saving is not in doubt (`saving_in_doubt`). `priced` says that every plan has a price: a
    priced and an unpriced one cannot be compared.
    """
    plans = list(plans)
    ordered = sorted(plans, key=lambda p: (*fleet_cost(p.cost_per_year, p.gpus, priced=priced), trust_of(p)))
    best = next(p for p in ordered if saving_in_doubt(p, plans, priced=priced) is None)
    return [best, *(p for p in ordered if p is not best)]


def saving_in_doubt(plan: Plan, plans: Iterable[Plan], *, priced: bool) -> float | None:
    """Percent that a request costs less than on the best plan that is better known, if the error could undo it.

    None where it could not, or nothing is better known. The error can undo it by its band, which is one of throughput,
    or because with steps that much slower (`careful_capacity`) a limit on latency leaves less than the band says.
    NB: taken of one replica and not of whole fleets, so that it does not depend on the load: else more load could need
    fewer GPUs.
    """
    better_known = [cost_of_capacity(p, priced=priced) for p in plans if trust_of(p) < trust_of(plan)]
    if not better_known:
        return None
    ours, best = cost_of_capacity(plan, priced=priced), min(better_known)
    saving = 100 * (1 - ours / best)
    if saving <= plan.evaluation.error_band_percent:
        return saving
    alone = (plan.evaluation.alone or plan.evaluation).capacity
    careful = alone if plan.careful_capacity is None else plan.careful_capacity
    return saving if ours * alone >= best * careful else None


def fleet_cost(cost_per_year: float | None, gpus: int, *, priced: bool) -> tuple[float, int]:
    """Key by which fleets are compared: money where every one has a price, then GPUs."""
    return (cost_per_year or 0.0) if priced else 0.0, gpus


def trust_of(plan: Plan) -> Trust:
    """Rank of how well a plan is known."""
    return trust(plan.evaluation.basis, plan.evaluation.by_physics, plan.evaluation.key)


def cost_of_capacity(plan: Plan, *, priced: bool) -> float:
    """Cost of one request a second: money a year where every plan has a price, else GPUs."""
    evaluation = plan.evaluation
    of_one_replica = (plan.cost_per_year_of_one_replica or 0.0) if priced else evaluation.key.gpus_per_replica
    # NB: of a replica by itself: what it carries among others depends on the load.
    return of_one_replica / (evaluation.alone or evaluation).capacity
