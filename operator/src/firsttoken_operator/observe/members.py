"""Members of the pools: the pods of the resources that are in one, and the taints that these tolerate."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping

from firsttoken_operator.api.toleration import Toleration
from firsttoken_operator.domain import ResourceSnapshot, Target
from firsttoken_operator.observe.nodes import NodeView
from firsttoken_operator.observe.projections import PodView
from firsttoken_operator.observe.store import Store
from firsttoken_operator.observe.tenancy import Tenancy


def pods_by_pool(store: Store, resources: Iterable[ResourceSnapshot]) -> Mapping[str, set[str]]:
    """Uids of the pods that the resources of a pool are charged for already, by its name."""
    owned: dict[str, set[str]] = defaultdict(set)
    for resource in resources:
        if resource.pool is not None and isinstance(resource.target, Target):
            owned[resource.pool].update(pod.uid for pod in store.members_of(resource.target.uid))
    return owned


def warm_pods(store: Store, tenancy: Tenancy) -> tuple[PodView, ...]:
    """Pods that hold GPUs only until another one wants them.

    NB: those of a tenant are charged as any other: no quota is left by the name of a PriorityClass.
    """
    return tuple(pod for pod in store.gpu_pods() if pod.is_warm and not tenancy.is_in_any(pod.namespace))


def gpus_by_node(pods: Iterable[PodView]) -> Counter[str]:
    """GPUs of pods that are not ending, by name of their node."""
    found: Counter[str] = Counter()
    for pod in pods:
        if pod.node and not pod.terminating:
            found[pod.node] += pod.gpus
    return found


def tolerations_by_pool(
    store: Store, resources: Iterable[ResourceSnapshot], nodes: Iterable[NodeView]
) -> Mapping[str, tuple[Toleration, ...]]:
    """Tolerations of what the resources of a pool run, by its name."""
    nodes_by_name = {node.name: node for node in nodes if node.taints}
    found: dict[str, dict[Toleration, None]] = defaultdict(dict)
    if nodes_by_name:
        for resource in resources:
            if resource.pool is not None:
                found[resource.pool] |= dict.fromkeys(_tolerations(store, resource, nodes_by_name))
    return {pool: tuple(each) for pool, each in found.items()}


def _tolerations(store: Store, resource: ResourceSnapshot, tainted: Mapping[str, NodeView]) -> Iterable[Toleration]:
    """Tolerations of its pod template, and what it is to be rendered with; without a template its pods tell."""
    stored, target = store.resources[resource.uid], resource.target
    runtime = stored.parsed.spec.runtime if stored.parsed else None
    yield from runtime.tolerations if runtime else ()
    view = store.workload(resource.namespace, target.name, target.kind.kind) if isinstance(target, Target) else None
    if view is None:
        return
    templates = [each.tolerations for each in (view, *store.beneath(view)) if each.tolerations is not None]
    for template in templates:
        yield from template
    if templates:
        return
    for node in {pod.node for pod in store.members_of(view.uid)} & tainted.keys():
        for taint in tainted[node].taints:
            yield Toleration.model_construct(key=taint.key, value=taint.value, effect=taint.effect)
