"""Judges whether nodes for pods that wait still come, or should have come by now. Pure.

What a cloud has no more of (a quota, a sold-out type) it does not say to Kubernetes in one way: no node comes. So time
tells it from a cloud that is slow: pods have waited for longer than nodes of this pool ever took, with a margin, and no
node of the pool has come within that time either. Of a burst the last nodes come late; but what has waited for several
such times while nodes came for others is what no node fits: a selector of no node group, more GPUs than a server has.

| nodes took at most | pods wait for | youngest node | judged |
|---|---|---|---|
| not known | 800 s | none | they come: up to 900 s |
| 130 s | 250 s | a day old | they come: up to 300 s |
| 130 s | 310 s | a day old | overdue |
| 130 s | 310 s | 100 s old | they come, one after the other |
| 130 s | 1 day | 100 s old | overdue: after 900 s whatever came |
| 240 s | 470 s | a day old | they come: up to 480 s |
"""

from __future__ import annotations

from dataclasses import replace

from firsttoken_operator.domain import Hindrances, PoolSnapshot
from firsttoken_operator.estimate import DEFAULT, EstimatorConfig


def provisioning_deadline_seconds(
    pool: PoolSnapshot, time_scale: float = 1.0, config: EstimatorConfig = DEFAULT
) -> float:
    """Time after which a node that a pod waits for is overdue. A measured one is not divided by the scale."""
    law, learned = config.decision, pool.provisioning
    if learned is None:
        return law.unknown_provisioning_deadline_seconds / time_scale
    least = law.least_provisioning_deadline_seconds / time_scale
    return max(least, law.provisioning_deadline_slack * learned.p99_seconds)


def judge_provisioning(
    held: Hindrances, pool: PoolSnapshot | None, time_scale: float = 1.0, config: EstimatorConfig = DEFAULT
) -> Hindrances:
    """The hindrances, with what to think of the nodes that pods wait for; the same where none come by themselves."""
    waits = held.placeless_seconds
    if pool is None or not pool.is_provisioned or not waits:
        return held
    deadline = provisioning_deadline_seconds(pool, time_scale, config)
    comes = pool.newest_node_seconds is not None and pool.newest_node_seconds <= deadline
    longest = deadline * (config.decision.most_provisioning_deadlines if comes else 1)
    overdue = sum(seconds > longest for seconds in waits)
    usual = pool.provisioning.p90_seconds if pool.provisioning else None
    return replace(held, usual_seconds=usual, are_nodes_coming=not overdue, overdue=overdue)
