"""GPUs that one GPUPool may give and that others already take of it, from its declaration, the nodes and the pods."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from firsttoken_operator.api.gpu_pool import GPUPool, Location
from firsttoken_operator.domain import Excluded, Exclusion, PoolSnapshot, Server, Tenant
from firsttoken_operator.observe.nodes import NodeView, canonical_gpu
from firsttoken_operator.observe.projections import PodView
from firsttoken_operator.observe.resources import Stored
from firsttoken_operator.observe.tenancy import Tenancy


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts that all pools of one tick share. `wall_seconds`: now, since the epoch."""

    nodes: tuple[NodeView, ...]
    gpu_pods: tuple[PodView, ...]
    tenancy: Tenancy
    scale_down_limit_window_seconds: float
    wall_seconds: float
    pools_of_node: Mapping[str, tuple[str, ...]]
    """Names of the pools that a node belongs to, in their order, by its name."""
    used: Counter[str] = field(init=False)
    """GPUs that pods hold, by name of the node."""

    def __post_init__(self) -> None:
        used: Counter[str] = Counter()
        for pod in self.gpu_pods:
            used[pod.node] += pod.gpus
        object.__setattr__(self, "used", used)


def pools_of_nodes(nodes: Iterable[NodeView], pools: Mapping[str, GPUPool]) -> dict[str, tuple[str, ...]]:
    """Names of the pools that a node belongs to, in the order of the pools, by its name; none is left out."""
    found = ((node.name, tuple(name for name, pool in pools.items() if belongs(node, pool))) for node in nodes)
    return {node: names for node, names in found if names}


def pool_snapshot(pool: Stored[GPUPool], around: Surroundings, own_pod_uids: Set[str]) -> PoolSnapshot:
    """One pool at one tick. `own_pod_uids`: pods of the resources that are in this pool.

    The budget is what was declared, else the inventory; in the cloud there is none then: where no pod waits for a node,
    none comes. Where none comes and no node tells of GPUs, what there is is unknown, whatever was declared. A pool that
    does not parse has no known budget.
    """
    if pool.parsed is None:
        return PoolSnapshot(
            name=pool.name, budget_gpus=None, inventory_gpus=None, on_prem=True, scale_down_limit_percent=1,
            scale_down_limit_window_seconds=around.scale_down_limit_window_seconds, uid=pool.uid,
            generation=pool.generation, problem=pool.problem,
        )  # fmt: skip
    spec = pool.parsed.spec
    members = [node for node in around.nodes if pool.name in around.pools_of_node.get(node.name, ())]
    servers, excluded = _sorted_out(members, pool.parsed, around)
    # NB: where no node tells of GPUs, how many there are is unknown: neither zero nor unlimited.
    is_known = any(node.gpus is not None for node in members)
    inventory = sum(server.gpus for server in servers) if is_known else None
    names = {node.name for node in members}
    elsewhere: Counter[str] = Counter()
    for pod in around.gpu_pods:
        if pod.node in names and pod.uid not in own_pod_uids:
            elsewhere[pod.namespace] += pod.gpus
    declared, is_provisioned = spec.declared_gpus, spec.is_provisioned
    return PoolSnapshot(
        name=pool.name,
        budget_gpus=declared if is_provisioned or (declared is not None and is_known) else inventory,
        inventory_gpus=inventory,
        on_prem=spec.location is Location.ON_PREM,
        is_elastic=is_provisioned and declared is None,
        scale_down_limit_percent=spec.scale_down_limit_percent,
        scale_down_limit_window_seconds=around.scale_down_limit_window_seconds,
        charged_elsewhere=dict(elsewhere),
        node_selector=spec.node_selector,
        nodes=len(members),
        lost_seconds=tuple(around.wall_seconds - n.lost_seconds for n in members if n.lost_seconds is not None),
        uid=pool.uid,
        generation=pool.generation,
        gpus_per_server=spec.gpus_per_server,
        servers=None if is_provisioned or not is_known else servers,
        excluded=excluded,
        overlaps=tuple(sorted({other for n in members for other in around.pools_of_node[n.name]} - {pool.name})),
        tenants=tuple(Tenant(t.name, t.quota_gpus, t.max_priority, t.weight) for t in spec.tenants),
        tenant_names=_tenant_names(pool.name, around),
    )


def belongs(node: NodeView, pool: GPUPool) -> bool:
    """Tell whether a node is one of the pool's: by its selector, or, without one, by the GPU type that it reports."""
    selector = pool.spec.node_selector
    if selector:
        return _is_selected(node, selector)
    return node.product == canonical_gpu(pool.spec.gpu)


def pool_to_run_on(
    selector: Mapping[str, str], gpu: str, nodes: Iterable[NodeView], pools: Mapping[str, GPUPool]
) -> str | None:
    """Pool on whose nodes alone pods with this node selector and GPU can run; of several the first by name.

    Where there is no such node yet, what pools declare tells where it will be.
    """
    fitting = [node for node in nodes if node.gpus and _is_selected(node, selector)]
    of_gpu = [n for n in fitting if n.product == canonical_gpu(gpu)]
    names = sorted(pools)
    if fitting:
        found = [next((name for name in names if belongs(n, pools[name])), None) for n in of_gpu or fitting]
        # NB: where other nodes take its pods too, no budget is spent until one has come to a node of the pool.
        return None if None in found else min(name for name in found if name is not None)
    for name in names:
        declared = pools[name].spec
        if canonical_gpu(declared.gpu) == canonical_gpu(gpu) and not _contradict(selector, declared.node_selector):
            return name
    return None


def _sorted_out(
    members: Iterable[NodeView], pool: GPUPool, around: Surroundings
) -> tuple[tuple[Server, ...], tuple[Excluded, ...]]:
    """The nodes that take pods, and the others counted by cause."""
    servers, nodes, gpus = [], Counter[Exclusion](), Counter[Exclusion]()
    product = canonical_gpu(pool.spec.gpu)
    for node in members:
        cause = node.exclusion(product, pool.spec.tolerations)
        if cause is None and around.pools_of_node[node.name][0] != pool.metadata.name:
            cause = Exclusion.OTHER_POOL
        if cause is None:
            servers.append(Server(node.name, node.gpus or 0, around.used[node.name]))
        else:
            nodes[cause] += 1
            gpus[cause] += node.gpus or 0
    by_name = sorted(servers, key=lambda server: server.name)
    return tuple(by_name), tuple(Excluded(cause, nodes[cause], gpus[cause]) for cause in Exclusion if nodes[cause])


def _tenant_names(pool: str, around: Surroundings) -> dict[str, str]:
    namespaces = around.tenancy.namespaces | {pod.namespace for pod in around.gpu_pods}
    found = ((namespace, around.tenancy.tenant(pool, namespace)) for namespace in namespaces)
    return {namespace: tenant.name for namespace, tenant in found if tenant is not None}


def _is_selected(node: NodeView, selector: Mapping[str, str]) -> bool:
    return all(node.labels.get(key) == value for key, value in selector.items())


def _contradict(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return any(other.get(key, value) != value for key, value in one.items())
