"""Charges of the members of a pool: the GPUs that their pods hold, that they wait for, and that come back.

Charged are the pods that exist (ready, starting, stuck, asleep, surging, terminating), or the size that was asked for
where that is more, also where the watch does not show our write yet: a scale-down frees its GPUs only when its pods are
gone. A pod that sleeps holds its GPUs as others do, whatever it has freed of their memory.
Replicas whose pods the API server refuses are charged when they are made: they may never be.
"""

from __future__ import annotations

from collections.abc import Iterable

from firsttoken_operator.domain import PoolSnapshot, ResourceSnapshot, Sized, Target, TargetMissing
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig


def charged_gpus(target: Target) -> int:
    """GPUs that a target occupies or has asked for."""
    return _held_gpus(target) + _unmade(target) * target.gpus_per_replica


def charged_together(targets: Iterable[Target | TargetMissing]) -> int:
    """GPUs of several targets; one that two resources claim is charged once."""
    targets = list(targets)
    made = sum(t.made_gpus for t in targets if isinstance(t, TargetMissing))
    return made + sum(charged_gpus(t) for t in {t.uid: t for t in targets if isinstance(t, Target)}.values())


def each_target_once(resources: Iterable[ResourceSnapshot]) -> list[ResourceSnapshot]:
    """The resources without those that claim the target of another one."""
    found = {r.target.uid if isinstance(r.target, Target) else f"no target of {r.uid}": r for r in resources}
    return list(found.values())


def placed_gpus(target: Target | TargetMissing) -> int:
    """GPUs of pods that have a node, ending ones included."""
    if isinstance(target, TargetMissing):
        return 0
    return max(0, _held_gpus(target) - target.unplaced * target.gpus_per_replica)


def on_no_node(resource: ResourceSnapshot) -> list[int]:
    """GPUs of each replica that has no node yet: of the pods that wait for one, and of those that are to be made."""
    target = resource.target
    if isinstance(target, Target):
        # NB: a pod without GPUs (or with parts of them, that are named otherwise) is on no server's account.
        waiting = _unmade(target) + target.unplaced if target.gpus_per_replica else 0
        return [target.gpus_per_replica] * waiting
    sized = resource.sized
    each = max(1, sized.configuration.gpus_per_replica if isinstance(sized, Sized) else target.made_gpus)
    whole, rest = divmod(target.made_gpus, each)
    return [each] * whole + [rest] * bool(rest)


def soon_placed(target: Target | TargetMissing, config: EstimatorConfig = DEFAULT) -> int | None:
    """Replicas of those without a node that will have one in moments; None: all of them.

    NB: what was asked for and is not made may never be, and a pod may wait for what is no GPU (a volume).
    """
    if isinstance(target, TargetMissing):
        return None
    young = sum(seconds < config.decision.most_scheduling_seconds for seconds in target.waits_seconds)
    unseen = max(0, target.written - max(target.replicas, target.pods))
    looked_for = target.unplaced - target.unschedulable - target.hindrances.gated
    return max(0, min(looked_for, young)) + (0 if target.refused else unseen)


def coming_gpus(target: Target | TargetMissing) -> int:
    """GPUs of pods that end, or are not asked for any more."""
    if isinstance(target, TargetMissing):
        return 0
    # NB: pods whose grace is over (a node that is gone) hold their GPUs, and may do so for ever.
    return (target.draining + target.leaving) * target.gpus_per_replica


def all_on_counted_nodes(pool: PoolSnapshot, members: Iterable[ResourceSnapshot]) -> bool:
    """Tell whether the pods that are charged run on nodes that the pool counts, as far as is known."""
    if pool.servers is None:
        return not any(each.gpus for each in pool.excluded)
    used = sum(server.used_gpus for server in pool.servers)
    # NB: pods that should have gone from their nodes by now are not looked for.
    placed = sum(placed_gpus(r.target) - _overdue_gpus(r.target) for r in members) + pool.charged_elsewhere_gpus
    return any(server.gpus for server in pool.servers) and placed <= used


def _held_gpus(target: Target) -> int:
    if target.occupied_gpus is not None:
        return target.occupied_gpus
    return (target.pods + target.standby + target.terminating) * target.gpus_per_replica


def _unmade(target: Target) -> int:
    """Replicas that were asked for and have no pod."""
    return 0 if target.refused else target.held - target.pods


def _overdue_gpus(target: Target | TargetMissing) -> int:
    return (target.terminating - target.draining) * target.gpus_per_replica if isinstance(target, Target) else 0
