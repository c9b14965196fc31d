"""Conditions of a pool: whether it has what is asked of it, now and at the declared peaks of all, and its nodes.

The peaks are shared on the pool as if nothing ran yet, by the same ledger and in the same order as every tick: so it is
known before anything starts who will get less then, and what latency to expect there.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

from firsttoken_operator.decide.calendar import pool_gpus
from firsttoken_operator.decide.ledger import SHORT, Ledger
from firsttoken_operator.decide.sharing import Claim, share
from firsttoken_operator.domain import (
    ConditionType,
    Decision,
    Judgement,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    Server,
    Sized,
)
from firsttoken_sizing.workload import Percentile

Said = tuple[bool | None, Reason, str]


@dataclass(frozen=True, slots=True)
class Peak:
    """A deployment at its declared peak: what it is sized for then, and what its pool would give it."""

    resource: ResourceSnapshot
    sized: Sized
    wanted: int
    granted: int

    @property
    def wanted_gpus(self) -> int:
        """GPUs of the size for its peak."""
        return self.wanted * self.sized.configuration.gpus_per_replica

    @property
    def ttft_seconds(self) -> float | None:
        """Time to first token to expect at the granted size, at the percentile of its limit; None: not known."""
        rate, limit = self.sized.peak_requests_per_second, self.sized.sla.time_to_first_token
        if rate is None or not self.granted:
            return None
        percentile = limit.percentile if limit else Percentile.P95
        found = self.sized.table.at(rate / self.granted, self.granted).ttft.at(percentile)
        return None if found is None else found / 1000

    @property
    def expected(self) -> str:
        """Words on what to expect of it."""
        name, limit = f"{self.resource.namespace}/{self.resource.name}", self.sized.sla.time_to_first_token
        seconds, rate = self.ttft_seconds, self.sized.peak_requests_per_second
        if seconds is None or rate is None:
            return f"{self.granted} of {self.wanted} replicas for {name}"
        above = "above " if self.sized.table.at(rate / self.granted, self.granted).saturated else ""
        return f"{limit.percentile if limit else Percentile.P95} TTFT {above}{seconds:.2g} s for {name}"


def peaks(pool: PoolSnapshot, members: Iterable[ResourceSnapshot]) -> list[Peak]:
    """Share a pool as if nothing of its members ran and all of them were at their declared peaks.

    Nothing is shared where nodes come as pods wait for them.
    """
    if pool.is_elastic:
        return []
    sized = [(r, r.sized) for r in members if isinstance(r.sized, Sized)]
    bare = None if pool.servers is None else tuple(Server(s.name, s.gpus) for s in pool.servers)
    claims, wanted = [], dict[str, int]()
    for resource, size in sized:
        most = size.replicas_for_declared_peak
        if resource.policy.max_replicas is not None:
            most = min(most, resource.policy.max_replicas)
        wanted[resource.uid] = max(most, resource.policy.min_replicas)
        least, gpus = resource.policy.min_replicas, size.configuration.gpus_per_replica
        order = (resource.created, resource.namespace, resource.name)
        rest = Claim(
            resource.uid, resource.namespace, gpus, wanted[resource.uid] - least, resource.priority, least * gpus, order
        )
        claims += [c for c in (replace(rest, replicas=least, held_gpus=0, is_minimum=True), rest) if c.replicas]
    granted = share(claims, Ledger(replace(pool, servers=bare), (), (), at_rest=True))
    return [Peak(r, s, wanted[r.uid], granted[r.uid].replicas if wanted[r.uid] else 0) for r, s in sized]


def judge_pool(
    pool: PoolSnapshot, decisions: Iterable[Decision], expected: Sequence[Peak] = ()
) -> tuple[Judgement, ...]:
    """Judge whether a pool has what its members ask for in the decisions on them, or will at their peaks; its nodes."""
    available, overlapping = _available(pool, decisions, expected), _overlapping(pool)
    return (
        Judgement(ConditionType.CAPACITY_AVAILABLE, *available),
        Judgement(ConditionType.OVERLAPPING, *overlapping),
    )


def _available(pool: PoolSnapshot, decisions: Iterable[Decision], expected: Sequence[Peak]) -> Said:
    if pool.problem:
        return None, Reason.INVALID_SPEC, pool.problem
    left_out = "".join(f"; {each.words}" for each in pool.excluded if each.gpus)
    if pool.budget_gpus is None and not pool.is_elastic:
        text = "no matching node reports its GPUs, and no autoscaler adds any: nothing grows"
        return None, Reason.POOL_INVENTORY_UNKNOWN, f"{text}{left_out}"
    decisions = tuple(decisions)
    if sold_out := [d for d in decisions if d.limited_by is Reason.INSUFFICIENT_CAPACITY]:
        names = ", ".join(sorted(f"{d.namespace}/{d.name}" for d in sold_out))
        return False, Reason.INSUFFICIENT_CAPACITY, f"no more nodes come for the pods of {names}{left_out}"
    short = [decision for decision in decisions if decision.limited_by in SHORT]
    if short:
        reason = min(decision.limited_by or Reason.POOL_EXHAUSTED for decision in short)
        words = next((f"; {d.shortage}" for d in short if d.limited_by is reason and d.shortage), "")
        return False, reason, f"{len(short)} deployments want more GPUs than are free{words}{left_out}"
    if less := [peak for peak in expected if peak.granted < peak.wanted]:
        return False, Reason.PEAK_ABOVE_POOL, f"{_at_peak(pool, expected, less)}{left_out}"
    return True, Reason.AVAILABLE, f"no GPU is missing{left_out}"


def _at_peak(pool: PoolSnapshot, expected: Iterable[Peak], less: Iterable[Peak]) -> str:
    need, has = sum(peak.wanted_gpus for peak in expected), pool_gpus(pool) or 0
    short = f", short {need - has}" if need > has else ", and quotas or servers give less"
    worst = sorted(less, key=lambda p: (-(p.wanted - p.granted) / p.wanted, p.resource.namespace, p.resource.name))
    words = ", ".join(peak.expected for peak in worst)
    return f"peak needs {need} GPUs, pool has {has}{short}; at {min(need, has)} expect {words}"


def _overlapping(pool: PoolSnapshot) -> Said:
    if not pool.overlaps:
        return False, Reason.EXCLUSIVE, "its nodes are in no other pool"
    first = min((pool.name, *pool.overlaps))
    counts = f"and count in {first} alone where no GPUs are declared"
    text = f"nodes are in {', '.join(pool.overlaps)} as well {counts}; give each pool a nodeSelector"
    return True, Reason.POOLS_OVERLAP, text
