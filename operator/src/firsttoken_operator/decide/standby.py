"""Replicas on standby: started, asleep, kept from traffic, woken in seconds. Decides how many there are to be. Pure.

Beside `to_replicas` that answer, `scaling.standby` sleep. More replicas are taken from those first, which takes no GPU:
they hold theirs already. Fewer fall asleep where standby is short of any, and end otherwise. What is missing then is
started anew, behind everything that others of the pool ask for.

Worked, for `scaling.standby: 2`, bounds of 2 to 10 and a pool with GPUs for 9 replicas, all of them this resource's:

| answer, asleep | needed | answer then | asleep then | pods | what happens |
|---|---|---|---|---|---|
| 4, 2 | 5 | 5 | 2 | 6 -> 7 | one wakes up, one is started to sleep |
| 5, 2 | 8 | 8 | 1 | 7 -> 9 | two wake up, one is started to answer; the pool has room for one more, which sleeps |
| 8, 1 | 9 | 9 | 0 | 9 | one wakes up; none is left to start |
| 9, 0 | 8 | 8 | 1 | 9 | one falls asleep and ends no pod |
| 8, 1 | 7 | 7 | 2 | 9 | the same again |
| 7, 2 | 6 | 6 | 2 | 9 -> 8 | one falls asleep, and one that sleeps ends |
| 6, 2 and another deployment of no lower priority lacks a replica | 6 | 6 | 0 | 8 -> 6 | standby gives way |
| 9, 0 and 9 is `maxReplicas` | 9 | 9 | 0 | 9 | at its bound there is no standby |
| any, where the last replica goes (`minReplicas: 0`) | 0 | 0 | 0 | 0 | what is proven idle holds no GPU |
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from firsttoken_operator.decide.case import Unscalable
from firsttoken_operator.decide.ledger import Ledger
from firsttoken_operator.decide.propose import Proposal
from firsttoken_operator.domain import ScalingMode

Proposed = Proposal | Unscalable


def with_standby(
    proposed: Iterable[Proposed], ledger: Ledger | None = None, short_priority: int | None = None
) -> list[Proposed]:
    """The proposals, after the pool has granted them, with the replicas that each is to keep asleep.

    `ledger`: what the pool has left; None: there is none, and nothing bounds it. `short_priority`: the highest priority
    of those of the pool whose replicas lack GPUs; None: none lacks any.
    """
    return [_with(p, ledger, short_priority) if isinstance(p, Proposal) else p for p in proposed]


def _with(p: Proposal, ledger: Ledger | None, short_priority: int | None) -> Proposal:
    case, now = p.case, p.case.target.standby
    if not (now or case.resource.policy.standby):
        return p
    if case.resource.policy.mode is not ScalingMode.ACTIVE or p.resource.strays:
        # Advice starts nothing, and what runs in another pool than it names is not added to.
        return replace(p, standby=min(now, max(0, p.from_replicas + now - p.to_replicas)))
    wanted = min(case.resource.policy.standby, max(0, case.bounds.upper - p.to_replicas)) if p.to_replicas else 0
    if short_priority is not None and short_priority >= p.resource.priority:
        wanted = 0
    # Those that sleep, less those that wake up, and those that fall asleep; the rest is started.
    there = max(0, p.from_replicas + now - p.to_replicas)
    more = wanted - there
    return replace(p, standby=there + _started(p, ledger, more) if more > 0 else wanted)


def _started(p: Proposal, ledger: Ledger | None, replicas: int) -> int:
    """Those of so many further replicas that can be started to sleep."""
    target = p.case.target
    if target.rollout or target.leaving or target.stuck or target.unmade or target.unschedulable or target.failing:
        return 0  # More pods would not run either, or run as what is being replaced.
    if ledger is None:
        return replicas
    if ledger.closed is not None:
        return 0
    given = 0
    while given < replicas and ledger.refusal(p.resource.namespace, target.gpus_per_replica) is None:
        ledger.take(p.resource.namespace, target.gpus_per_replica)
        given += 1
    return given
