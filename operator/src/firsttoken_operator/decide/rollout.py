"""Release of a rollout: whether the pods of a rendered deployment may be replaced now.

A rollout takes GPUs out of service one after the other, each for as long as a start takes. It is released by the
policy, by proven silence, or by the name of the very revision: a later change is not released with it.
"""

from __future__ import annotations

from firsttoken_operator.domain import Reason, ResourceSnapshot, RolloutPolicy, Target

Said = tuple[bool | None, Reason, str]


def may_roll(resource: ResourceSnapshot, revision: str) -> bool:
    """Tell whether pods of this revision may take the place of those that run."""
    terms, target = resource.rollout, resource.target
    if terms.policy is RolloutPolicy.IMMEDIATE or terms.released == revision:
        return True
    if terms.policy is RolloutPolicy.MANUAL or not isinstance(target, Target):
        return False
    is_idle = resource.metrics.health is Reason.IDLE and not resource.metrics.awaited
    return target.pods == 0 or is_idle


def rollout_pending(resource: ResourceSnapshot) -> Said | None:
    """Judge whether a rollout waits; None: that is not known yet, or nothing is rendered."""
    if resource.pending_rollout is None:
        return None
    if not resource.pending_rollout:
        return False, Reason.RENDERED, f"the {resource.claims.kind.kind} is as spec.runtime says"
    text = f"{resource.rollout.policy}: the pods stay as they are {resource.pending_rollout}"
    return True, Reason.ROLLOUT_PENDING, text
