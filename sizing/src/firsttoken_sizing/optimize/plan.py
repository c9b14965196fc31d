"""From what one replica carries to replicas, GPUs and servers, and the order in which plans are preferred.

A saving that the error of a fit could make up is no reason to leave what was measured. See docs/design/sizing.md.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_sizing.optimize.cost import cost_per_year
from firsttoken_sizing.optimize.evaluate import Evaluation
from firsttoken_sizing.request import Basis, SizingRequest

_NOISE = 1e-9
"""Floating-point noise must not buy a replica: one part in 10^9, as in `CapacityTable.replicas_for`."""


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

    @property
    def requests_per_second_per_server(self) -> float:
        """What one server carries; a replica that spans servers gives its share."""
        return self.evaluation.capacity * self.replicas_per_server


def plan(evaluation: Evaluation, request: SizingRequest) -> Plan:
    """Size one feasible configuration for the declared peak."""
    workload, per_server = request.workload, request.hardware.gpus_per_server
    capacity = evaluation.capacity
    concurrency = evaluation.point.concurrency or 0.0
    if workload.concurrent_requests is not None:
        # N requests outstanding are N / concurrency replicas, and by Little's law that many times their throughput.
        share = workload.concurrent_requests / concurrency
        peak = share * capacity
    else:
        peak = workload.peak_requests_per_second or 0.0
        share = peak / capacity
    replicas = max(1, math.ceil(share - _NOISE))
    gpus_per_replica = evaluation.key.gpus_per_replica
    if gpus_per_replica <= per_server:
        in_one_server = per_server // gpus_per_replica
        servers, replicas_per_server = math.ceil(replicas / in_one_server), float(in_one_server)
    else:
        of_one_replica = math.ceil(gpus_per_replica / per_server)
        servers, replicas_per_server = replicas * of_one_replica, 1 / of_one_replica
    gpus = replicas * gpus_per_replica
    pricing = request.pricing.get(evaluation.key.gpu)

    def cost(gpus: int, servers: float) -> float | None:
        return cost_per_year(pricing, gpus=gpus, servers=servers, gpus_per_server=per_server) if pricing else None

    return Plan(
        evaluation=evaluation,
        replicas=replicas,
        gpus=gpus,
        servers=servers,
        replicas_per_server=replicas_per_server,
        peak_requests_per_second=peak,
        cost_per_year=cost(gpus, servers),
        cost_per_year_of_one_replica=cost(gpus_per_replica, 1 / replicas_per_server),
    )


def prefer(plans: list[Plan]) -> list[Plan]:
    """Plans from best to worst: cheapest, else fewest GPUs, measured ones first. Ties keep the order of `plans`.

    The best is the first whose saving is not in doubt (`saving_in_doubt`). Cost decides only where every plan has a
    price: a priced and an unpriced one cannot be compared.
    """
    priced = _all_priced(plans)
    ordered = sorted(plans, key=lambda p: ((p.cost_per_year or 0.0) if priced else 0.0, p.gpus, not _measured(p)))
    best = next(p for p in ordered if saving_in_doubt(p, plans) is None)
    return [best, *(p for p in ordered if p is not best)]


def saving_in_doubt(plan: Plan, plans: list[Plan]) -> float | None:
    """How much less (percent) a request costs than on the best measured plan, if not more than the plan's error band.

    None where the saving is larger, where the plan is measured itself, or nothing is. NB: taken of one replica and not
    of whole fleets, so that it does not depend on the load: else more load could need fewer GPUs.
    """
    measured = [p for p in plans if _measured(p)]
    if _measured(plan) or not measured:
        return None
    priced = _all_priced(plans)
    cost = min(_cost_of_capacity(p, priced) for p in measured)
    saving = 100 * (1 - _cost_of_capacity(plan, priced) / cost)
    return saving if saving <= plan.evaluation.error_band_percent else None


def _measured(plan: Plan) -> bool:
    return plan.evaluation.basis is Basis.MEASURED


def _all_priced(plans: list[Plan]) -> bool:
    return all(p.cost_per_year is not None for p in plans)


def _cost_of_capacity(plan: Plan, priced: bool) -> float:
    """Of one request a second: money a year where every plan has a price, else GPUs."""
    evaluation = plan.evaluation
    of_one_replica = (plan.cost_per_year_of_one_replica or 0.0) if priced else evaluation.key.gpus_per_replica
    return of_one_replica / evaluation.capacity
