"""Admission of deployments to rendering, and their first replicas: a new one takes GPUs as a scale-up does.

Where its pool cannot hold the first replicas it gets fewer, and where it cannot hold one it waits. So does a running
one whose pool cannot be read. One that names no pool takes of the GPUs of the one on whose nodes it runs, or would. One
that names another than that takes of both.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firsttoken_operator.decide.arbitrate import priority_order
from firsttoken_operator.decide.bounds import initial_replicas
from firsttoken_operator.decide.ledger import Ledger
from firsttoken_operator.domain import (
    DEPLOYMENT,
    Decision,
    FleetSnapshot,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScalingMode,
    Sized,
    Target,
    TargetMissing,
)


@dataclass(frozen=True, slots=True)
class Admission:
    """A deployment that is to be rendered. `replicas`: with how many it is created, where it is not there yet."""

    resource: ResourceSnapshot
    sized: Sized
    is_new: bool
    replicas: int


@dataclass(frozen=True, slots=True)
class Waiting:
    """A deployment that its pool does not admit yet, and why. One that is not new runs on as it is."""

    resource: ResourceSnapshot
    is_new: bool
    reason: Reason
    message: str

    @property
    def is_news(self) -> bool:
        """True where there is something to tell: that a running one waits for its pool to be readable is no news."""
        return self.is_new or self.reason is Reason.POOL_EXHAUSTED


def admit(snapshot: FleetSnapshot, decisions: Iterable[Decision]) -> list[Admission | Waiting]:
    """Everything that may be rendered at this tick, in the order in which it takes GPUs.

    `decisions` are those of the same tick: what they grant is not in the snapshot yet and is taken all the same.
    NB: a sizing that is withheld because the running pods have another number of GPUs counts: rendering changes them.
    """
    ledgers = {
        name: Ledger(
            pool,
            (r for r in snapshot.resources if r.pool == name),
            (r for r in snapshot.resources if r.guest_of == name or name in r.strays),
        )
        for name, pool in snapshot.pools.items()
    }
    _take_granted(snapshot, decisions, ledgers)
    admitted: list[Admission | Waiting] = []
    for resource in sorted(snapshot.resources, key=priority_order):
        sized = resource.sized if isinstance(resource.sized, Sized) else resource.sized.withheld
        may_be_made = resource.policy.mode is not ScalingMode.PAUSED and not resource.conflict
        if resource.claims.is_rendered and may_be_made and sized is not None:
            admitted.append(_admit_one(resource, sized, snapshot, ledgers))
    return admitted


def _admit_one(
    resource: ResourceSnapshot, sized: Sized, snapshot: FleetSnapshot, ledgers: Mapping[str, Ledger]
) -> Admission | Waiting:
    """`ledgers` by pool: less what this one takes afterwards."""
    is_guest, is_new = resource.pool is None, isinstance(resource.target, TargetMissing)
    name, gpus = resource.pool or resource.guest_of, sized.configuration.gpus_per_replica
    pool, scheduled = snapshot.pools.get(name or ""), resource.scheduled_requests_per_second
    on_prem = not is_guest and pool is not None and pool.on_prem
    replicas = initial_replicas(resource.policy, sized, scheduled, on_prem=on_prem)
    if not is_guest and not is_new and (pool is None or pool.problem):
        # Without its pool it would be sized and placed in another way, and a running fleet rolled for nothing.
        why = Reason.POOL_NOT_FOUND if pool is None else Reason.INVALID_SPEC
        return Waiting(resource, False, why, f"pool {name} cannot be read; what runs stays as it is")
    more = 0 if name is None else _more_gpus(resource.target, replicas, gpus, pool)
    ledger = ledgers.get(name or "") or Ledger(None, (), ())
    if name is None or more <= 0 or (is_guest and ledger.closed is not None):
        return Admission(resource, sized, is_new, replicas)
    if ledger.closed is not None:
        return Waiting(resource, is_new, ledger.closed, f"pool {name}: how many GPUs it has is not known")
    if isinstance(resource.target, TargetMissing):
        there = resource.target.made_gpus // gpus
        while there < replicas and (why_not := ledger.refusal(resource.namespace, gpus)) is None:
            ledger.take(resource.namespace, gpus)
            there += 1
        if there:
            return Admission(resource, sized, is_new, there)
        text = f"pool {name} has no {gpus} free GPUs for a replica"
        more = gpus
    else:
        # NB: its pods are on servers already, each in the place of one with fewer GPUs. A pool on whose nodes they are
        # has to have the GPUs as well where another one is named.
        hosts = [host for host in sorted(resource.strays) if host in ledgers and ledgers[host].closed is None]
        asked = {name: ledger} | {host: ledgers[host] for host in hosts}
        refusals = ((each, asked[each].refusal(resource.namespace, more, on_one_server=False)) for each in asked)
        refused = next(((each, why) for each, why in refusals if why is not None), None)
        if refused is None:
            for each in asked.values():
                each.take(resource.namespace, more)
            return Admission(resource, sized, is_new, replicas)
        name, why_not = refused
        ledger = asked[name]
        text = f"pool {name} has no {more} free GPUs more for {gpus} GPUs a replica; what runs stays as it is"
    why_not = why_not or Reason.POOL_EXHAUSTED
    words = ledger.words(why_not, resource.namespace, more)
    return Waiting(resource, is_new, why_not, f"{text}; {words}" if words else text)


def _more_gpus(target: Target | TargetMissing, replicas: int, gpus_per_replica: int, pool: PoolSnapshot | None) -> int:
    """GPUs that rendering takes on top of what is charged: of the first replicas, or of larger ones."""
    if isinstance(target, TargetMissing):
        return replicas * gpus_per_replica - target.made_gpus
    if pool is not None and target.kind is DEPLOYMENT and gpus_per_replica > pool.gpus_per_server:
        # Groups of pods take the place of no Deployment: they are made when it is gone, and are new then.
        return 0
    return target.held * (gpus_per_replica - target.gpus_per_replica)


def _take_granted(snapshot: FleetSnapshot, decisions: Iterable[Decision], ledgers: Mapping[str, Ledger]) -> None:
    """Charge what increases of this tick take, written or not: a write that failed is tried again."""
    resources = {resource.uid: resource for resource in snapshot.resources}
    for decision in decisions:
        resource = resources[decision.uid]
        if resource.policy.mode is not ScalingMode.ACTIVE or not isinstance(resource.target, Target):
            continue
        more = decision.to_replicas - resource.target.held
        for name in {resource.pool or resource.guest_of or "", *resource.strays} & ledgers.keys():
            if more > 0:
                ledgers[name].take(resource.namespace, decision.gpus_per_replica, more)
