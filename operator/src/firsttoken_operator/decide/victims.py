"""Chooses the pods that a smaller fleet ends: those that start, then those with the fewest requests under way. Pure.

Where nodes come and go by themselves an empty one costs nothing, and half of one costs as much as all of it. There, of
those that are ready, first go those that empty whole nodes, then those on the nodes that are nearest to being empty:

| pods by node, 5 more than are wanted | they end on |
|---|---|
| base 8, new 3, newer 2 | newer, new |
| base 8, new 8 | new 5 |
| base 8, new 3 and one of another target, newer 2 | newer, new |
| base 8, new 4, newer 4 | newer 4, new 1 |

A Deployment names no pods: its ReplicaSet ends those without a node first, then those that are not Ready, then those of
the lowest `controller.kubernetes.io/pod-deletion-cost` (an int32, 0 where there is none; `ActivePodsWithRanks` of
Kubernetes). So the chosen ones get costs below 0, and no other pod is written:

| replicas | pod, requests under way | cost | what happens |
|---|---|---|---|
| 4 -> 2 is decided | a 5, b 0, c 9, d starts | d -2, b -1 | written before the replicas |
| 2 is written | a, b, c and d still live | stay | the ReplicaSet ends d and b |
| 2 stay | a and c live | none is left | nothing to take away |
| 4 stay: the write was refused | a, b, c, d | taken away | the next decision chooses anew |

Costs that are not ours are another's choice already: then no pod of the target is marked. Where nothing is known of
the requests under way, Kubernetes chooses as ever.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence

from firsttoken_operator.domain import CostChange, Decision, ReplicaPod


def cost_changes(
    decision: Decision, pods: Sequence[ReplicaPod], under_way: Mapping[str, float], *, empties_nodes: bool = False
) -> tuple[CostChange, ...]:
    """Changes of deletion costs that a decision, about to be written, asks for.

    `pods` are those of its target that are not ending, `under_way` their requests by name of the pod.
    `empties_nodes`: an empty node goes by itself.
    """
    wanted = _costs(decision, pods, under_way, empties_nodes=empties_nodes)
    if wanted is None:
        return ()
    return tuple(
        CostChange(pod, wanted.get(pod.uid))
        for pod in pods
        if (pod.uid in wanted or pod.is_ours) and pod.deletion_cost != wanted.get(pod.uid)
    )


def _costs(
    decision: Decision, pods: Sequence[ReplicaPod], under_way: Mapping[str, float], *, empties_nodes: bool
) -> dict[str, int] | None:
    """Cost by uid of each pod that is to have one; None: they stay as they are."""
    excess = len(pods) - decision.to_replicas
    if excess <= 0 or any(pod.deletion_cost is not None and not pod.is_ours for pod in pods):
        return {}
    if decision.to_replicas >= decision.from_replicas:
        # NB: more pods than replicas: an earlier write is being carried out, by the costs that it was given.
        return None if len(pods) > decision.from_replicas else {}
    if not empties_nodes and not any(pod.ready and pod.name in under_way for pod in pods):
        return {}

    def rank(pod: ReplicaPod) -> tuple[bool, float, float, str]:
        return pod.ready, under_way.get(pod.name, math.inf), -pod.created_seconds, pod.name

    ordered = sorted(pods, key=rank)
    chosen = (_emptying(ordered, excess) if empties_nodes else ordered)[:excess]
    return {pod.uid: place - len(chosen) for place, pod in enumerate(chosen)}


def _emptying(ordered: Sequence[ReplicaPod], excess: int) -> list[ReplicaPod]:
    """The pods in the order in which they empty nodes; `ordered`: by what they have to do, those that start first."""
    first = [pod for pod in ordered if not pod.ready]
    by_node: dict[str, list[ReplicaPod]] = defaultdict(list)
    for pod in ordered:
        if pod.ready:
            by_node[pod.node].append(pod)
    for pod in first[excess:]:
        by_node.pop(pod.node, None)

    def order(there: Sequence[ReplicaPod]) -> tuple[int, float, str]:
        # NB: the youngest node first: a base of reserved nodes was there before the others.
        return len(there) + there[0].others_there, -there[0].node_created_seconds, there[0].node

    whole, rest = list[ReplicaPod](), list[ReplicaPod]()
    for there in sorted(by_node.values(), key=order):
        fits = not there[0].others_there and len(first) + len(whole) + len(there) <= excess
        (whole if fits else rest).extend(there)
    return [*first, *whole, *rest]
