"""Pools in which a fleet plays, and the figures of each play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from firsttoken_lab.replay.play import Played
from firsttoken_lab.replay.rented import RentedGPUs
from firsttoken_lab.replay.score import HOUR_SECONDS, score
from firsttoken_lab.replay.together import Sharer, play_together
from firsttoken_operator.domain import PoolSnapshot, Tenant
from pools.fleet import Fleet

SHARED, QUOTAS, ALONE = "shared", "quotas", "alone"
_POOL = "pool"
_LIMIT_PERCENT, _LIMIT_SECONDS = 20, 600.0
"""Most that a GPUPool gives back, and in which time, where nothing else is declared."""


@dataclass(frozen=True, slots=True)
class Arm:
    """A way to have GPUs; `percent` of those of all declared peaks at once."""

    name: str
    percent: int


@dataclass(frozen=True, slots=True)
class PoolOutcome:
    """Figures of a play."""

    name: str
    gpus: int
    """GPUs that have to be there: of the pool, or the most that each was given at any time."""
    gpu_hours: float
    attainment_percent: float
    """That of all requests."""
    attained: tuple[float, ...]
    """The same of each deployment."""

    @property
    def worst_percent(self) -> float:
        """Attainment of the deployment with the lowest."""
        return min(self.attained)

    def below(self, asked_percent: float) -> int:
        """Number of deployments that attain less than this."""
        return sum(each < asked_percent for each in self.attained)


def outcome_of(fleet: Fleet, arm: Arm) -> PoolOutcome:
    """Play the fleet on GPUs that are there."""
    if arm.name == ALONE:
        played = play_together(fleet.sharers, None)
        most = sum(int(one.trajectory.living.max()) for one in played)
        return _outcome(ALONE, most * fleet.gpus_per_replica, fleet, played)
    parts = shares(fleet.peak_replicas, fleet.peak_gpus * arm.percent // 100 // fleet.gpus_per_replica)
    gpus = sum(parts) * fleet.gpus_per_replica
    pool = pool_of(gpus, fleet, parts if arm.name == QUOTAS else None)
    begun = [replace(s, initial=min(s.initial, part)) for s, part in zip(fleet.sharers, parts, strict=True)]
    return _outcome(f"{arm.name}, {arm.percent} %", gpus, fleet, play_together(begun, pool))


def rented_outcome(fleet: Fleet, provisioning_seconds: float, *, warm: int, together: bool) -> PoolOutcome:
    """Play the fleet on GPUs that come when a pod waits. `warm`: replicas kept idle, by all together or by each."""
    if together:
        shared = RentedGPUs(provisioning_seconds, warm=warm)
        rented, name = [shared] * len(fleet.sharers), f"together, {warm} warm"
    else:
        rented = [RentedGPUs(provisioning_seconds, warm=warm) for _ in fleet.sharers]
        name = f"each, {warm} warm"
    played = play_together(fleet.sharers, None, rented)
    end = max(float(one.trajectory.at_seconds[-1]) for one in played)
    different = {id(gpus): gpus for gpus in rented}.values()
    hours = sum(gpus.billed_seconds(end) for gpus in different) * fleet.gpus_per_replica / HOUR_SECONDS
    most = sum(gpus.most for gpus in different) * fleet.gpus_per_replica
    return replace(_outcome(name, most, fleet, played), gpu_hours=hours)


def pool_of(gpus: int, fleet: Fleet, parts: Sequence[int] | None) -> PoolSnapshot:
    """A pool of so many GPUs; `parts`: replicas of each namespace's quota, None: there are no tenants."""
    namespaces = [] if parts is None else [each.namespace for each in fleet.sharers]
    return PoolSnapshot(
        name=_POOL,
        budget_gpus=gpus,
        inventory_gpus=gpus,
        on_prem=True,
        scale_down_limit_percent=_LIMIT_PERCENT,
        scale_down_limit_window_seconds=_LIMIT_SECONDS,
        tenants=tuple(
            Tenant(n, part * fleet.gpus_per_replica) for n, part in zip(namespaces, parts or (), strict=True)
        ),
        tenant_names={namespace: namespace for namespace in namespaces},
    )


def shares(weights: Sequence[int], total: int) -> list[int]:
    """Whole parts of a total by weight, each at least 1: the largest remainders get what is left."""
    total = max(total, len(weights))
    exact = [total * weight / sum(weights) for weight in weights]
    parts = [max(1, int(each)) for each in exact]
    order = sorted(range(len(weights)), key=lambda i: exact[i] - parts[i], reverse=True)
    for i in order[: max(0, total - sum(parts))]:
        parts[i] += 1
    while sum(parts) > total:
        largest = max(range(len(parts)), key=lambda i: parts[i])
        parts[largest] -= 1
    return parts


def _outcome(name: str, gpus: int, fleet: Fleet, played: Sequence[Played]) -> PoolOutcome:
    def scored(sharer: Sharer, one: Played) -> tuple[int, float, float]:
        found = score(one, sharer.sized.sla, fleet.gpus_per_replica)
        return found.requests, found.attainment_percent, found.gpu_hours

    figures = [scored(sharer, one) for sharer, one in zip(fleet.sharers, played, strict=True)]
    requests = sum(count for count, _, _ in figures)
    return PoolOutcome(
        name=name,
        gpus=gpus,
        gpu_hours=sum(hours for _, _, hours in figures),
        attainment_percent=sum(count * attained for count, attained, _ in figures) / requests,
        attained=tuple(attained for _, attained, _ in figures),
    )
