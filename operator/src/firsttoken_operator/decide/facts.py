"""Judges each resource by itself, from the facts that a tick observed and before anything is decided.

Which starting pods are stuck, whether many were lost at once, whose guest it is, whether its sizing fits its pods (one
for another number of GPUs a replica says nothing of them), and that its mode is Advisory where nothing may be written.
"""

from __future__ import annotations

from dataclasses import replace

from firsttoken_operator.decide.provisioning import judge_provisioning
from firsttoken_operator.domain import (
    FleetSnapshot,
    PoolSnapshot,
    Reason,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    ScalingPolicy,
    Sized,
    Target,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig


def judge_facts(
    snapshot: FleetSnapshot, *, time_scale: float = 1.0, may_write: bool = True, config: EstimatorConfig = DEFAULT
) -> FleetSnapshot:
    """Add what follows from the facts of each resource. `time_scale` divides the start deadline and nothing else."""
    resources = []
    for resource in snapshot.resources:
        guest_of = min(resource.hosts, default=None) if resource.pool is None else None
        pool = snapshot.pools.get(resource.pool or guest_of or "")
        target = _stuck(resource.target, pool, time_scale, config)
        resources.append(
            replace(
                resource,
                policy=resource.policy if may_write else _advisory(resource.policy),
                sized=_fitting(resource),
                target=target,
                guest_of=guest_of,
                priority=_allowed_priority(resource, pool),
                is_shaken=_is_shaken(target, pool, config.decision.lost_deadline_seconds / time_scale, config),
            )
        )
    return replace(snapshot, resources=tuple(resources))


def start_deadline_seconds(target: Target, time_scale: float, config: EstimatorConfig = DEFAULT) -> float:
    """Time after scheduling for which a pod is credited as starting. A measured one is not divided by the scale."""
    law, slowest = config.decision, target.p99_start_seconds
    default = max(law.least_start_deadline_seconds, target.startup_timeout_seconds or 0.0) / time_scale
    # NB: condition times have whole seconds.
    return default if slowest is None else max(default, law.start_deadline_slack * slowest + 1.0)


def usual_scale_down(pool: str | None, on_prem: bool | None) -> ScaleDown:
    """Say when GPUs are given back by default: bought ones if the pool needs them, rented ones always.

    `on_prem`: where the GPUs of its pool are; None: there is none, or it is not known whose they are, so they are kept.
    """
    if on_prem:
        return ScaleDown.WHEN_POOL_SHORT
    return ScaleDown.NEVER if on_prem is None and pool else ScaleDown.ALWAYS


def _allowed_priority(resource: ResourceSnapshot, pool: PoolSnapshot | None) -> int:
    """The declared priority, at most that of its tenant."""
    tenant = pool.tenant(resource.namespace) if pool else None
    if tenant is None or tenant.max_priority is None:
        return resource.priority
    return min(resource.priority, tenant.max_priority)


def _advisory(policy: ScalingPolicy) -> ScalingPolicy:
    # NB: while writes are stopped, too: who scales by hand meanwhile is no rival.
    return replace(policy, mode=ScalingMode.ADVISORY) if policy.mode is ScalingMode.ACTIVE else policy


def _stuck(
    target: Target | TargetMissing, pool: PoolSnapshot | None, time_scale: float, config: EstimatorConfig
) -> Target | TargetMissing:
    if isinstance(target, TargetMissing) or not target.waits_seconds:
        return target
    deadline = start_deadline_seconds(target, time_scale, config)
    stuck = sum(wait > deadline for wait in target.waits_seconds)
    held = judge_provisioning(target.hindrances, pool, time_scale, config)
    if held.are_nodes_coming or held.overdue:
        # NB: what waits for a node is judged by what nodes take, however long a start may take.
        stuck += held.overdue - sum(wait > deadline for wait in held.placeless_seconds)
    return replace(target, hindrances=held, starting=len(target.waits_seconds) - stuck, stuck=stuck)


def _is_shaken(
    target: Target | TargetMissing, pool: PoolSnapshot | None, deadline_seconds: float, config: EstimatorConfig
) -> bool:
    """Tell whether much of what it runs on was lost at once: what is left then says little about the load."""
    parts = [(target.lost_seconds, target.pods)] if isinstance(target, Target) else []
    parts += [(pool.lost_seconds, pool.nodes)] if pool else []
    most = config.decision.most_lost_percent
    return any(100 * sum(seconds < deadline_seconds for seconds in lost) > most * there for lost, there in parts)


def _fitting(resource: ResourceSnapshot) -> Sized | Unsized:
    sized, target = resource.sized, resource.target
    if not isinstance(sized, Sized) or not isinstance(target, Target):
        return sized
    wanted, found = sized.configuration.gpus_per_replica, target.gpus_per_replica
    if wanted == found:
        return sized
    # What is rendered gets the new number with the next rendering, which does not wait for this to fit.
    claims = resource.claims
    updated = f"the {claims.kind.kind} is to be updated first"
    way_out = updated if claims.is_rendered else "set hardware.tensorParallel to what they run"
    text = f"sized for {wanted} GPUs a replica, the pods of {target.name} have {found}; {way_out}"
    return Unsized(Reason.TENSOR_PARALLEL_MISMATCH, text, withheld=sized)
