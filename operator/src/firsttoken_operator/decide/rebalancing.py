"""Rebalancing of a pool: replicas that a lower priority gives up, above its minimum, for a higher one that is short.

One that gives up keeps the pace of every scale-down (one step, then it is measured), and the pool's rate limit holds.
Nothing is taken while as many GPUs are free or on their way, nor where the GPUs of a smaller replica, wherever they
come free, would make no room on one server for a larger one.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

from firsttoken_operator.decide.case import Unscalable
from firsttoken_operator.decide.down import Reduction, veto
from firsttoken_operator.decide.ledger import SHORT, Ledger
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import Outcome, Reason, ScaleDown, ScalingMode
from firsttoken_operator.estimate import Demand

Proposed = Proposal | Unscalable


def concessions(
    asked: Iterable[Proposed], results: Mapping[str, Proposed], ledger: Ledger, returned_gpus: int
) -> list[Proposal]:
    """Decreases of members of a pool for others of it, in the order in which they are to be made.

    `asked`: what the members proposed; `results`: what was made of it at this tick, by uid. `returned_gpus`: those that
    decreases of this tick give back anyway.
    """
    members = [p for p in asked if isinstance(p, Proposal) and p.resource.policy.mode is ScalingMode.ACTIVE]
    coming = max(0, ledger.free_gpus) + ledger.coming_gpus + returned_gpus
    conceded: dict[str, Proposal] = {}
    short = [p for p in members if _withheld_gpus(p, results) > 0]
    for p in sorted(short, key=lambda p: (-p.resource.priority, p.resource.created, p.resource.uid)):
        missing = _withheld_gpus(p, results) - coming
        coming = max(0, -missing)
        for other in sorted(members, key=_reluctance):
            each, uid = other.case.target.gpus_per_replica, other.resource.uid
            lower = other.resource.priority < p.resource.priority
            if missing <= 0 or not lower or each == 0 or uid in conceded:
                continue
            if ledger.counts_servers and each < p.case.target.gpus_per_replica:
                continue
            if (given := _smaller(other, results[uid], -(-missing // each))) is not None:
                conceded[uid] = given
                missing -= (given.from_replicas - given.to_replicas) * each
    return list(conceded.values())


def _withheld_gpus(p: Proposal, results: Mapping[str, Proposed]) -> int:
    """GPUs that the pool did not grant of what was proposed."""
    granted = results[p.resource.uid]
    if not isinstance(granted, Proposal) or granted.limited_by not in SHORT:
        return 0
    return max(0, p.to_replicas - granted.to_replicas) * p.case.target.gpus_per_replica


def _reluctance(p: Proposal) -> tuple[int, int, str, str]:
    """Order of who gives up: the lowest priority, there who lacks the least, and the youngest last of equals."""
    wanted = p.to_replicas if p.recommended is None else p.recommended
    return p.resource.priority, wanted - p.from_replicas, p.resource.created, p.resource.uid


def _smaller(p: Proposal, result: Proposed, replicas: int) -> Proposal | None:
    """One step down by at most so many replicas; None: nothing may go now."""
    case, current = p.case, p.from_replicas
    is_moving = not isinstance(result, Proposal) or result.to_replicas != current
    step = max(1, current * case.resource.policy.scale_down_step_percent // 100)
    to = max(case.bounds.lower, 1, current - min(step, replicas))
    if is_moving or to >= current or case.target.rollout or case.resource.policy.scale_down is ScaleDown.NEVER:
        return None
    # NB: it is no choice of its own and no matter of its metrics, as where the user lowers the maximum.
    if veto(Reduction(case, case.demand or Demand(0.0, 0.0, 0.0), to, Reason.MAX_REPLICAS)) is not None:
        return None
    wanted = p.to_replicas if p.recommended is None else p.recommended
    return replace(
        p, outcome=Outcome.DOWN, to_replicas=to, reason=Reason.REBALANCED, limited_by=Reason.POOL_EXHAUSTED,
        unmet_replicas=max(0, wanted - to), shortage="what it gives up is for a higher priority",
    )  # fmt: skip
