"""GPUs that one GPUPool may give and that others already take of it, from its declaration, the nodes and the pods."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Set
from dataclasses import dataclass, field

from firsttoken_operator.api.gpu_pool import GPUPool, Location
from firsttoken_operator.api.toleration import Toleration
from firsttoken_operator.domain import Excluded, Exclusion, PoolSnapshot, Provisioning, Server, Tenant
from firsttoken_operator.observe.nodes import NodeView, canonical_gpu
from firsttoken_operator.observe.projections import PodView
from firsttoken_operator.observe.resources import Stored
from firsttoken_operator.observe.tenancy import Tenancy

COMES_BACK = frozenset({Exclusion.NOT_READY, Exclusion.CORDONED, Exclusion.TAINTED, Exclusion.NOT_REPORTED})
"""Causes that may pass: what pods hold there stays charged, unlike that on nodes which are none of the pool's."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """Facts that all pools of one tick share. `wall_seconds`: now, since the epoch."""

    nodes: tuple[NodeView, ...]
    gpu_pods: tuple[PodView, ...]
    """Pods with GPUs, but for those that give them up to any other."""
    warm: Counter[str]
    """GPUs that such pods hold, by name of the node."""
    tenancy: Tenancy
    scale_down_limit_window_seconds: float
    wall_seconds: float
    pools_of_node: Mapping[str, tuple[str, ...]]
    """Names of the pools that a node belongs to, in their order, by its name."""
    own_pods: Mapping[str, Set[str]]
    """Uids of the pods of the resources that are in a pool, by its name."""
    tolerations: Mapping[str, tuple[Toleration, ...]]
    """Tolerations of those pods, by the name of their pool."""
    provisioning: Mapping[str, Provisioning]
    """Time that nodes take which come for pods, by the name of their pool, where it is known."""
    used: Counter[str] = field(init=False)
    """GPUs that pods hold, by name of the node."""
    pods_on: Mapping[str, list[PodView]] = field(init=False)
    """Those pods, by name of the node."""
    pods_by_uid: Mapping[str, PodView] = field(init=False)
    namespaces: Set[str] = field(init=False)
    """Namespaces that are known, or have such a pod."""
    unlabelled: Excluded = field(init=False)
    """Nodes with GPUs that are in no pool and do not say of which type these are."""

    def __post_init__(self) -> None:
        # NB: read once here; each pool then looks at the pods of its own nodes and deployments only.
        used, pods_on = Counter[str](), defaultdict[str, list[PodView]](list)
        pods_by_uid, namespaces = dict[str, PodView](), set(self.tenancy.namespaces)
        for pod in self.gpu_pods:
            used[pod.node] += pod.gpus
            pods_on[pod.node].append(pod)
            pods_by_uid[pod.uid] = pod
            namespaces.add(pod.namespace)
        object.__setattr__(self, "used", used)
        object.__setattr__(self, "pods_on", dict(pods_on))
        object.__setattr__(self, "pods_by_uid", pods_by_uid)
        object.__setattr__(self, "namespaces", frozenset(namespaces))
        gpus = [n.gpus for n in self.nodes if n.gpus and not n.product and n.name not in self.pools_of_node]
        object.__setattr__(self, "unlabelled", Excluded(Exclusion.UNLABELLED, len(gpus), sum(gpus)))


def pools_of_nodes(nodes: Iterable[NodeView], pools: Mapping[str, GPUPool]) -> dict[str, tuple[str, ...]]:
    """Names of the pools that a node belongs to, in the order of the pools, by its name; none is left out."""
    found = ((node.name, tuple(name for name, pool in pools.items() if belongs(node, pool))) for node in nodes)
    return {node: names for node, names in found if names}


def pool_snapshot(pool: Stored[GPUPool], around: Surroundings) -> PoolSnapshot:
    """One pool at one tick.

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
    declared, is_provisioned = spec.declared_gpus, spec.is_provisioned
    members = [node for node in around.nodes if pool.name in around.pools_of_node.get(node.name, ())]
    causes = {node.name: _exclusion(node, pool.parsed, around) for node in members}
    counted = (n for n in members if causes[n.name] is None)
    servers = tuple(sorted((Server(n.name, n.gpus or 0, around.used[n.name]) for n in counted), key=lambda s: s.name))
    # NB: where no node tells of GPUs, how many there are is unknown: neither zero nor unlimited.
    is_known = any(node.gpus is not None for node in members)
    inventory = sum(server.gpus for server in servers) if is_known else None
    # NB: nodes that do not tell of their GPUs' type may be what was declared: that is believed, not what is labelled.
    may_be_more = bool(around.unlabelled.nodes) and not spec.node_selector and not is_provisioned
    is_believed = may_be_more and declared is not None and declared > (inventory or 0)
    elsewhere, beside = _charged(pool.parsed, causes, around)
    if is_provisioned or (declared is not None and (is_known or is_believed)):
        budget = declared
    else:
        budget = None if inventory is None else inventory + beside
    return PoolSnapshot(
        name=pool.name,
        budget_gpus=budget,
        inventory_gpus=inventory,
        on_prem=spec.location is Location.ON_PREM,
        is_elastic=is_provisioned and declared is None,
        is_provisioned=is_provisioned,
        provisioning=around.provisioning.get(pool.name),
        newest_node_seconds=min(
            (around.wall_seconds - n.created_seconds for n in members if n.created_seconds is not None), default=None
        ),
        scale_down_limit_percent=spec.scale_down_limit_percent,
        scale_down_limit_window_seconds=around.scale_down_limit_window_seconds,
        charged_elsewhere=elsewhere,
        node_selector=spec.node_selector,
        nodes=len(members),
        lost_seconds=tuple(around.wall_seconds - n.lost_seconds for n in members if n.lost_seconds is not None),
        uid=pool.uid,
        generation=pool.generation,
        gpus_per_server=spec.gpus_per_server,
        servers=None if is_provisioned or is_believed or not is_known else servers,
        excluded=(*_counted(members, causes), *([around.unlabelled] if may_be_more else [])),
        overlaps=tuple(sorted({other for n in members for other in around.pools_of_node[n.name]} - {pool.name})),
        tenants=tuple(Tenant(t.name, t.quota_gpus, t.max_priority, t.weight) for t in spec.tenants),
        tenant_names=_tenant_names(pool.name, around),
        warm_gpus=None if spec.warm_gpus is None else sum(around.warm[node.name] for node in members),
    )


def belongs(node: NodeView, pool: GPUPool) -> bool:
    """Tell whether a node is one of the pool's: by its selector, or, without one, by the GPU type that it reports."""
    selector = pool.spec.node_selector
    if selector:
        return node.is_selected(selector)
    return node.product == canonical_gpu(pool.spec.gpu)


def _exclusion(node: NodeView, pool: GPUPool, around: Surroundings) -> Exclusion | None:
    """Name what keeps the GPUs of one of its nodes from a pool; None: nothing does.

    NB: of GPUs that are declared each pool has its own, also on nodes that are in several.
    """
    spec, name = pool.spec, pool.metadata.name
    # A pool that says nothing of taints has the nodes that its deployments tolerate.
    cause = node.exclusion(canonical_gpu(spec.gpu), spec.tolerations or around.tolerations.get(name, ()))
    if cause is None and spec.declared_gpus is None and around.pools_of_node[node.name][0] != name:
        return Exclusion.OTHER_POOL
    return cause


def _charged(pool: GPUPool, causes: Mapping[str, Exclusion | None], around: Surroundings) -> tuple[dict[str, int], int]:
    """GPUs that pods of others are charged with, by namespace, and all that is charged of nodes that do not count.

    The second is no part of the inventory, and its own deployments are charged wherever their pods run.
    """
    name, own = pool.metadata.name, around.own_pods.get(pool.metadata.name, frozenset())
    elsewhere, beside = Counter[str](), 0
    for node, cause in causes.items():
        first, *others = around.pools_of_node[node]
        is_charged_here = first == name and (cause is None or cause in COMES_BACK)
        for pod in around.pods_on.get(node, ()):
            if pod.uid not in own:
                is_charged_there = any(pod.uid in around.own_pods.get(other, ()) for other in others)
                if not is_charged_here or (is_charged_there and pool.spec.declared_gpus is not None):
                    continue
                elsewhere[pod.namespace] += pod.gpus
            if cause is not None:
                beside += pod.gpus
    for uid in own:
        away = around.pods_by_uid.get(uid)
        if away is not None and away.node and away.node not in causes:
            beside += away.gpus
    return dict(elsewhere), beside


def _counted(nodes: Iterable[NodeView], causes: Mapping[str, Exclusion | None]) -> Iterable[Excluded]:
    """The nodes that do not count, by cause."""
    found = {cause: [n.gpus or 0 for n in nodes if causes[n.name] is cause] for cause in Exclusion}
    return (Excluded(cause, len(gpus), sum(gpus)) for cause, gpus in found.items() if gpus)


def _tenant_names(pool: str, around: Surroundings) -> dict[str, str]:
    found = ((namespace, around.tenancy.tenant(pool, namespace)) for namespace in around.namespaces)
    return {namespace: tenant.name for namespace, tenant in found if tenant is not None}
