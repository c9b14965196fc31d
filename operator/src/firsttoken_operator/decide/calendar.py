"""Calendar of a pool: when the declared peaks of its deployments need more GPUs than it has.

At any time a deployment needs the size for its declared peak, or for the largest window of its schedule that is open
then where that is more, inside its own bounds. The largest sum counts, not one for each hour.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, replace

from firsttoken_operator.domain import Opening, PoolSnapshot, ResourceSnapshot, Sized


@dataclass(frozen=True, slots=True)
class Shortage:
    """A time in which a pool is short, seconds since the epoch, and the most that it needs in it."""

    begins_seconds: float
    ends_seconds: float
    need_gpus: int
    short_gpus: int


def pool_gpus(pool: PoolSnapshot) -> int | None:
    """GPUs that the members of a pool may have together; None: as many as they want, or that is not known."""
    if pool.budget_gpus is None:
        return None
    own = pool.budget_gpus - pool.charged_elsewhere_gpus
    return own if pool.servers is None else min(own, sum(server.gpus for server in pool.servers))


def shortages(
    pool: PoolSnapshot, members: Iterable[ResourceSnapshot], epoch_seconds: float, horizon_seconds: float
) -> tuple[Shortage, ...]:
    """Times until the horizon in which a pool is short, in order. `epoch_seconds`: now."""
    has, until = pool_gpus(pool), epoch_seconds + horizon_seconds
    if has is None:
        return ()
    need, changes = 0, defaultdict[float, list[tuple[str, int]]](list)
    held: dict[str, int] = {}
    for resource in members:
        if not isinstance(resource.sized, Sized):
            continue
        for at, gpus in _needs(resource, resource.sized, epoch_seconds, until):
            changes[at].append((resource.uid, gpus))
    if not changes:
        return ()
    found: list[Shortage] = []
    times = sorted(changes)
    for begins, ends in zip(times, [*times[1:], until], strict=True):
        for uid, gpus in changes[begins]:
            need += gpus - held.get(uid, 0)
            held[uid] = gpus
        if need <= has:
            continue
        before = found[-1] if found and found[-1].ends_seconds == begins else None
        most = max(need, before.need_gpus if before else 0)
        if before:
            found.pop()
        found.append(Shortage(before.begins_seconds if before else begins, ends, most, most - has))
    return tuple(found)


def _needs(resource: ResourceSnapshot, sized: Sized, begin: float, until: float) -> Iterable[tuple[float, int]]:
    """GPUs that one deployment needs from each time on, the first of them now."""
    openings = [o for o in resource.openings if o.opens_seconds < until and o.closes_seconds > begin]
    edges = {max(begin, o.opens_seconds) for o in openings} | {o.closes_seconds for o in openings}
    for at in sorted({begin} | {edge for edge in edges if edge < until}):
        yield at, _replicas(resource, sized, openings, at) * sized.configuration.gpus_per_replica


def _replicas(resource: ResourceSnapshot, sized: Sized, openings: Iterable[Opening], at: float) -> int:
    rate = max((o.requests_per_second for o in openings if o.opens_seconds <= at < o.closes_seconds), default=None)
    wanted = sized.replicas_for_declared_peak
    if rate is not None:
        wanted = max(wanted, sized.table.replicas_for(rate))
    most, least = resource.policy.max_replicas, resource.policy.min_replicas
    return max(least, wanted if most is None else min(most, wanted))


def at_load(resource: ResourceSnapshot, requests_per_second: float | None) -> ResourceSnapshot:
    """The resource as if this load of all its replicas were its declared peak; None: as declared."""
    sized = resource.sized
    if requests_per_second is None or not isinstance(sized, Sized):
        return resource
    declared, by_table = sized.replicas_for_declared_peak, sized.table.replicas_for(requests_per_second)
    # NB: the size for the declared peak is the search's own, which the table may miss by one.
    is_above = requests_per_second > (sized.peak_requests_per_second or 0.0)
    wanted = max(declared, by_table) if is_above else min(declared, by_table)
    return replace(
        resource,
        sized=replace(sized, replicas_for_declared_peak=wanted, peak_requests_per_second=requests_per_second),
    )
