"""From what one replica carries to replicas, GPUs and servers, and the order in which plans are preferred."""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_sizing.optimize.cost import cost_per_year
from firsttoken_sizing.optimize.evaluate import Evaluation
from firsttoken_sizing.request import SizingRequest

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
    return Plan(
        evaluation=evaluation,
        replicas=replicas,
        gpus=gpus,
        servers=servers,
        replicas_per_server=replicas_per_server,
        peak_requests_per_second=peak,
        cost_per_year=cost_per_year(pricing, gpus=gpus, servers=servers, gpus_per_server=per_server)
        if pricing
        else None,
    )


def prefer(plans: list[Plan]) -> list[Plan]:
    """Plans from best to worst: cheapest, else fewest GPUs. Ties keep the order of `plans` (hardware order).

    Cost decides only where every plan has a price: a priced and an unpriced one cannot be compared.
    """
    if all(p.cost_per_year is not None for p in plans):
        return sorted(plans, key=lambda p: (p.cost_per_year or 0.0, p.gpus))
    return sorted(plans, key=lambda p: p.gpus)
