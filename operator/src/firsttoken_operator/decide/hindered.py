"""Judges why pods of a target do not run although they were asked for, and would not if there were more. Pure.

What others decide on (a quota, a queue such as Kueue, a scheduler that preempts, a driver that allocates devices) is
waited for and named. Nothing is ordered again meanwhile, and nothing is lowered for it.
"""

from __future__ import annotations

from firsttoken_operator.domain import Reason, Target

NO_PLACE = frozenset(
    {
        Reason.PODS_REFUSED, Reason.PODS_GATED, Reason.CLAIMS_UNALLOCATED, Reason.NODES_PROVISIONING,
        Reason.INSUFFICIENT_CAPACITY, Reason.PODS_PREEMPTED, Reason.PODS_UNSCHEDULABLE, Reason.VOLUMES_NOT_MOUNTED,
    }
)  # fmt: skip
"""Reasons that pods which were asked for have no GPUs, or none where they could run."""


def hindrance(target: Target) -> tuple[Reason, str] | None:
    """Name what keeps its pods from running, and say it in words; None: nothing is known to."""
    held, pods = target.hindrances, target.unschedulable
    said = f": {held.said}" if held.said else ""
    if target.unmade:
        return Reason.PODS_REFUSED, f"{target.unmade} pods are refused: {target.refused}"
    if held.half_made:
        return Reason.PODS_REFUSED, f"pods of {held.half_made} groups are refused: {held.refused}"
    if held.gated:
        return Reason.PODS_GATED, f"{held.gated} pods wait until their scheduling gates are taken away: {held.gates}"
    if pods and held.unclaimed:
        return Reason.CLAIMS_UNALLOCATED, f"the ResourceClaims of {held.unclaimed} pods are not allocated{said}"
    usual = "" if held.usual_seconds is None else f", as it does within {held.usual_seconds:.0f} s for nine of ten"
    if pods and held.overdue:
        waited = max(held.placeless_seconds)
        return Reason.INSUFFICIENT_CAPACITY, f"no node has come in {waited:.0f} s for {held.overdue} pods{usual}{said}"
    # NB: beside pods that crash more would crash, whatever comes for these.
    if pods and held.are_nodes_coming and not target.failing:
        return Reason.NODES_PROVISIONING, f"{pods} pods wait for a node to come{usual}{said}"
    if pods and held.preempted:
        taken = f"pods of a higher PriorityClass took the places of {held.preempted}"
        return Reason.PODS_PREEMPTED, f"{pods} pods cannot be scheduled, since {taken}{said}"
    if pods:
        return Reason.PODS_UNSCHEDULABLE, f"{pods} pods cannot be scheduled{said}"
    if held.unmounted:
        return Reason.VOLUMES_NOT_MOUNTED, (
            f"nothing of {held.unmounted} pods has begun on their nodes, and their claim {held.volume_claim} is in use "
            "on another node: if it is ReadWriteOnce, one node at a time mounts it; use one that is ReadWriteMany or "
            "ReadOnlyMany, or one for each pod (modelCache.perReplica)"
        )
    if target.failing:
        return Reason.PODS_FAILING, f"{target.failing} pods cannot start"
    return None
