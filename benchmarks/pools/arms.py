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
    """The most that are paid for at one time: GPUs of the pool, or the most that each was given at any time."""
    paid_gpu_hours: float
    """Owned GPUs are paid for all the time, rented ones from when they come until they go."""
    used_gpu_hours: float
    """GPU-hours of replicas, from their creation until they are gone."""
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
        # NB: each by itself, since the scale-down rate limit is one for all that are decided on together.
        played = [one for sharer in fleet.sharers for one in play_together([sharer], None)]
        most = sum(_most_living(one, fleet.warm_up_seconds) for one in played)
        return _owned(ALONE, most * fleet.gpus_per_replica, fleet, played)
    parts = shares(fleet.peak_replicas, fleet.peak_gpus * arm.percent // 100 // fleet.gpus_per_replica)
    gpus = sum(parts) * fleet.gpus_per_replica
    pool = pool_of(gpus, fleet, parts if arm.name == QUOTAS else None)
    begun = [replace(s, initial=min(s.initial, part)) for s, part in zip(fleet.sharers, parts, strict=True)]
    return _owned(f"{arm.name}, {arm.percent} %", gpus, fleet, play_together(begun, pool))


def rented_outcome(fleet: Fleet, provisioning_seconds: float, *, warm: int, together: bool) -> PoolOutcome:
    """Play the fleet on GPUs that come when a pod waits. `warm`: replicas kept idle, by all together or by each."""
    begin = fleet.warm_up_seconds
    if together:
        shared = RentedGPUs(provisioning_seconds, warm=warm, from_seconds=begin)
        rented, name = [shared] * len(fleet.sharers), f"together, {warm} warm"
    else:
        rented = [RentedGPUs(provisioning_seconds, warm=warm, from_seconds=begin) for _ in fleet.sharers]
        name = f"each, {warm} warm"
    played = play_together(fleet.sharers, None, rented)
    end = max(float(one.trajectory.at_seconds[-1]) for one in played)
    different = {id(gpus): gpus for gpus in rented}.values()
    hours = sum(gpus.billed_seconds(end) for gpus in different) * fleet.gpus_per_replica / HOUR_SECONDS
    most = sum(gpus.most for gpus in different) * fleet.gpus_per_replica
    return _outcome(name, most, hours, fleet, played)


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


def _most_living(played: Played, from_seconds: float) -> int:
    trajectory = played.trajectory
    return int(trajectory.living[trajectory.at_seconds >= from_seconds].max())


def _owned(name: str, gpus: int, fleet: Fleet, played: Sequence[Played]) -> PoolOutcome:
    return _outcome(name, gpus, gpus * fleet.hours, fleet, played)


def _outcome(name: str, gpus: int, paid_gpu_hours: float, fleet: Fleet, played: Sequence[Played]) -> PoolOutcome:
    def scored(sharer: Sharer, one: Played) -> tuple[int, float, float]:
        found = score(one, sharer.sized.sla, fleet.gpus_per_replica, fleet.warm_up_seconds)
        return found.requests, found.attainment_percent, found.gpu_hours

    figures = [scored(sharer, one) for sharer, one in zip(fleet.sharers, played, strict=True)]
    requests = sum(count for count, _, _ in figures)
    return PoolOutcome(
        name=name,
        gpus=gpus,
        paid_gpu_hours=paid_gpu_hours,
        used_gpu_hours=sum(hours for _, _, hours in figures),
        attainment_percent=sum(count * attained for count, attained, _ in figures) / requests,
        attained=tuple(attained for _, attained, _ in figures),
    )
