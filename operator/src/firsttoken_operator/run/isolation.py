"""Keeps one resource that makes the decision fail from stopping all the others.

`decide` takes the whole fleet, because a pool is one transaction. Where it raises, the resources are tried one by one,
and the tick goes on without those that fail by themselves. Their GPUs stay charged to their pool: leaving them out must
not make room for others. Where no resource fails by itself, the pools are tried one by one in the same way.
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
    """Decide on the fleet, or on what is left of it without the resources, or else the pools, that fail.

    Raises what `decide` raises where it is neither one resource's fault nor one pool's.
    """
    # What fails by itself is logged below; what does not is raised again.
    with suppress(Exception):
        return Decided(*decide(snapshot, memory))
    failed = tuple(r for r in snapshot.resources if _fails(snapshot, (r,), memory, f"{r.namespace}/{r.name}"))
    rest = _without(snapshot, failed)
    with suppress(Exception):
        return Decided(*decide(rest, memory), failed)
    together = {name: _of_pool(rest, name) for name in sorted(rest.pools)}
    lost = {
        r.uid for name, members in together.items() if _fails(rest, members, memory, f"GPUPool {name}") for r in members
    }
    failed += tuple(r for r in rest.resources if r.uid in lost)
    return Decided(*decide(_without(snapshot, failed), memory), failed)


def _of_pool(snapshot: FleetSnapshot, name: str) -> tuple[ResourceSnapshot, ...]:
    return tuple(r for r in snapshot.resources if name in (r.pool, r.guest_of))


def _fails(snapshot: FleetSnapshot, resources: tuple[ResourceSnapshot, ...], memory: Memory, about: str) -> bool:
    try:
        decide(replace(snapshot, resources=resources), memory)
    except Exception:
        logger.exception("no decision for %s", about)
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
