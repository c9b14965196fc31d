"""Rebalancing of a pool: replicas that a lower priority gives up, above its minimum, for a higher one that is short.

One that gives up does so by the preconditions of every scale-down (its data is there, one step, then it is measured),
and the pool's rate limit holds. Nothing is taken for a demand that is not measured, while as many GPUs are free or on
their way, nor where what is given up might not become free in the pool: where more is charged than there is, or pods
run on nodes that do not count. Where servers count, the GPUs of a smaller replica make no room for a larger one. An
open window keeps nothing from a higher priority: what is guaranteed is `minReplicas`.

NB: without declared tenants a priority is what each namespace writes itself: it takes inside that namespace alone.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace

from firsttoken_operator.decide.case import Unscalable
from firsttoken_operator.decide.down import Reduction, veto
from firsttoken_operator.decide.ledger import SHORT, Ledger
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import Outcome, Reason, ScaleDown, ScalingMode

Proposed = Proposal | Unscalable


def concessions(
    asked: Iterable[Proposed], results: Mapping[str, Proposed], ledger: Ledger, returned_gpus: int
) -> Iterator[Proposal]:
    """Decreases of members of a pool for others of it, in the order in which they are to be made.

    `asked`: what the members proposed; `results`: what was made of it at this tick, by uid. `returned_gpus`: those that
    decreases of this tick give back anyway.
    """
    if not ledger.gets_what_is_given_back:
        return
    members = [p for p in asked if isinstance(p, Proposal) and p.resource.policy.mode is ScalingMode.ACTIVE]
    short = [(p, gpus) for p in members if (gpus := _withheld_gpus(p, results[p.resource.uid])) > 0]
    givers = _Givers(members, ledger)
    awaited, promised = ledger.coming_gpus + returned_gpus, Counter[str]()
    for p, gpus in sorted(short, key=_urgency):
        each, tenant = p.case.target.gpus_per_replica, ledger.tenant_name(p.resource.namespace)
        room = ledger.room_gpus(p.resource.namespace)
        missing = gpus if room is None else min(gpus, (room - promised[tenant]) // each * each)
        promised[tenant] += missing
        # NB: what is free counts as far as one of its replicas has a place there.
        there = min(missing, max(0, awaited + ledger.usable_gpus(each)))
        awaited, missing = awaited - there, missing - there
        while missing > 0 and (other := givers.next_for(p)) is not None:
            size = other.case.target.gpus_per_replica
            if (given := _smaller(other, results[other.resource.uid], -(-missing // size))) is not None:
                yield given
                missing -= (given.from_replicas - given.to_replicas) * size
        awaited += max(0, -missing)


class _Givers:
    """Members that may have to give up, the one that minds the least first; each is asked once."""

    def __init__(self, members: Iterable[Proposal], ledger: Ledger) -> None:
        self._counts_servers, self._has_tenants = ledger.counts_servers, ledger.has_tenants
        self._waiting: defaultdict[str, defaultdict[int, deque[Proposal]]] = defaultdict(lambda: defaultdict(deque))
        """Those left, by the namespace for which they give, and by the GPUs of a replica."""
        for p in sorted(members, key=_reluctance):
            if p.case.target.gpus_per_replica:
                self._waiting[self._owner(p)][p.case.target.gpus_per_replica].append(p)

    def next_for(self, p: Proposal) -> Proposal | None:
        """Take out the next of a lower priority than one that is short; None: there is none."""
        least = p.case.target.gpus_per_replica if self._counts_servers else 0
        fitting = (
            queue
            for gpus, queue in self._waiting[self._owner(p)].items()
            if gpus >= least and queue and queue[0].resource.priority < p.resource.priority
        )
        first = min(fitting, key=lambda queue: _reluctance(queue[0]), default=None)
        return None if first is None else first.popleft()

    def _owner(self, p: Proposal) -> str:
        return "" if self._has_tenants else p.resource.namespace


def _urgency(short: tuple[Proposal, int]) -> tuple[int, str, str]:
    resource = short[0].resource
    return -resource.priority, resource.created, resource.uid


def _withheld_gpus(p: Proposal, granted: Proposed) -> int:
    """GPUs that the pool did not grant of what was measured to be needed, or is guaranteed as the minimum."""
    if not isinstance(granted, Proposal) or granted.limited_by not in SHORT:
        return 0
    # NB: where nothing runs, the demand is what a gateway counted: there are no pods to tell of it.
    may_raise = p.resource.metrics.may_raise or p.from_replicas == 0
    if p.case.demand is None or not may_raise or p.reason is Reason.DECLARED_PEAK:
        return 0
    wanted = min(p.to_replicas, max(p.recommended or 0, p.resource.policy.min_replicas))
    return max(0, wanted - granted.to_replicas) * p.case.target.gpus_per_replica


def _reluctance(p: Proposal) -> tuple[int, int, str, str]:
    """Order of who gives up: the lowest priority, there who lacks the least, and the youngest last of equals."""
    wanted = p.to_replicas if p.recommended is None else p.recommended
    return p.resource.priority, wanted - p.from_replicas, p.resource.created, p.resource.uid


def _smaller(p: Proposal, result: Proposed, replicas: int) -> Proposal | None:
    """One step down by at most so many replicas; None: nothing may go now."""
    case, current = p.case, p.from_replicas
    is_moving = not isinstance(result, Proposal) or result.to_replicas != current
    step = max(1, current * case.resource.policy.scale_down_step_percent // 100)
    # NB: what is guaranteed is the minimum. A window says what is expected, as what is measured does.
    minimum = min(case.resource.policy.min_replicas, case.bounds.upper)
    to = max(minimum, 1, current - min(step, replicas))
    if is_moving or to >= current or case.target.rollout or case.resource.policy.scale_down is ScaleDown.NEVER:
        return None
    # NB: it is no choice of its own, so the rules of safety are not asked; those that need its data are.
    if case.demand is None or veto(Reduction(case, case.demand, to, Reason.REBALANCED)) is not None:
        return None
    return replace(
        p, outcome=Outcome.DOWN, to_replicas=to, reason=Reason.REBALANCED, limited_by=Reason.POOL_EXHAUSTED,
        unmet_replicas=max(0, p.asked_replicas - to), shortage="what it gives up is for a higher priority",
    )  # fmt: skip
