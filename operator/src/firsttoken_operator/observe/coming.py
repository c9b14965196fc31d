"""Nodes that come when pods wait for them: how long they take in each pool, and whether the next pod needs one.

Learned from the pods of all deployments of a pool, so that one which never waited for a node knows how long it would.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.domain import Provisioning
from firsttoken_operator.observe.node_waits import NodeWait
from firsttoken_operator.observe.nodes import NodeView
from firsttoken_operator.observe.pools import belongs
from firsttoken_operator.observe.projections import PodView
from firsttoken_operator.observe.readiness import percentiles


@dataclass(frozen=True, slots=True)
class Coming:
    """Nodes of one pool. `provisioning` None: no pod was seen to wait for one that came.

    `most_free_gpus`: on one node that takes pods.
    """

    provisioning: Provisioning | None
    most_free_gpus: int

    def ready_seconds(self, gpus: int, usual_seconds: float) -> float:
        """Time until a replica of so many GPUs would be ready on a node that has to come for it; 0: none has to.

        `usual_seconds`: from its having a node to being ready.
        """
        if self.provisioning is None or gpus <= self.most_free_gpus:
            return 0.0
        return self.provisioning.p90_seconds + usual_seconds


def coming_nodes(
    pools: Mapping[str, GPUPool],
    nodes: Iterable[NodeView],
    pools_of_node: Mapping[str, tuple[str, ...]],
    gpu_pods: Iterable[PodView],
    node_waits: Iterable[NodeWait],
) -> Mapping[str, Coming]:
    """Look at each pool whose nodes come by themselves, by its name. `node_waits`: as the store has them."""
    provisioned = {name: pool for name, pool in pools.items() if pool.spec.is_provisioned}
    if not provisioned:
        return {}
    used, node_waits = Counter[str](), tuple(node_waits)
    for pod in gpu_pods:
        used[pod.node] += pod.gpus
    most = dict.fromkeys(provisioned, 0)
    for node in nodes:
        for name in pools_of_node.get(node.name, ()) if node.ready and not node.cordoned else ():
            if name in most:
                most[name] = max(most[name], (node.gpus or 0) - used[node.name])
    return {
        name: Coming(_provisioning([wait.seconds for wait in node_waits if belongs(wait.node, pool)]), most[name])
        for name, pool in provisioned.items()
    }


def _provisioning(waits_seconds: list[float]) -> Provisioning | None:
    if not waits_seconds:
        return None
    found = percentiles(waits_seconds)
    return Provisioning(found.p50_seconds, found.p90_seconds, found.p99_seconds, found.pods)
