"""Keeps one resource that makes the decision fail from stopping all the others.

`decide` takes the whole fleet, because a pool is one transaction. Where it raises, the resources are tried one by one,
and the tick goes on without those that fail by themselves. Their GPUs stay charged to their pool: leaving them out must
not make room for others.
"""

from __future__ import annotations

import logging
from contextlib import suppress
from dataclasses import dataclass, replace

from firsttoken_operator.decide import Memory, charged_together, decide
from firsttoken_operator.domain import Decision, FleetSnapshot, ResourceSnapshot

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Decided:
    """Decisions of one tick, the next tick's memory, and the resources that could not be decided."""

    decisions: tuple[Decision, ...]
    memory: Memory
    failed: tuple[ResourceSnapshot, ...] = ()


def decide_isolated(snapshot: FleetSnapshot, memory: Memory) -> Decided:
    """Decide on the fleet, or on what is left of it without the resources that fail.

    Raises what `decide` raises where it is not one resource's fault.
    """
    # What fails by itself is logged below; what does not is raised again.
    with suppress(Exception):
        return Decided(*decide(snapshot, memory))
    failed = tuple(resource for resource in snapshot.resources if _fails(snapshot, resource, memory))
    return Decided(*decide(_without(snapshot, failed), memory), failed)


def _fails(snapshot: FleetSnapshot, resource: ResourceSnapshot, memory: Memory) -> bool:
    try:
        decide(replace(snapshot, resources=(resource,)), memory)
    except Exception:
        logger.exception("no decision for %s/%s", resource.namespace, resource.name)
        return True
    return False


def _without(snapshot: FleetSnapshot, failed: tuple[ResourceSnapshot, ...]) -> FleetSnapshot:
    gone = {resource.uid for resource in failed}
    pools = {}
    for name, pool in snapshot.pools.items():
        elsewhere = dict(pool.charged_elsewhere)
        for namespace in sorted({r.namespace for r in failed}):
            gpus = charged_together(r.target for r in failed if r.pool == name and r.namespace == namespace)
            elsewhere[namespace] = elsewhere.get(namespace, 0) + gpus
        pools[name] = replace(pool, charged_elsewhere=elsewhere)
    return replace(snapshot, resources=tuple(r for r in snapshot.resources if r.uid not in gone), pools=pools)
