"""GPUs that one GPUPool may give and that others already take of it, from its declaration, the nodes and the pods."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Set
from functools import lru_cache

from firsttoken_operator.api.gpu_pool import GPUPool, Location
from firsttoken_operator.domain import PoolSnapshot
from firsttoken_operator.observe.projections import GPU_PRODUCT_LABEL, NodeView, PodView
from firsttoken_operator.observe.resources import Stored
from firsttoken_sizing.catalog import resolve_gpu
from firsttoken_sizing.errors import SizingError


def pool_snapshot(
    pool: Stored[GPUPool],
    nodes: Iterable[NodeView],
    pods: Iterable[PodView],
    own_pod_uids: Set[str],
    scale_down_limit_window_seconds: float,
    wall_seconds: float,
) -> PoolSnapshot:
    """One pool at one tick. `own_pod_uids`: pods of the resources that are in this pool; `wall_seconds`: now.

    The budget is what was declared, else the inventory; in the cloud there is none then: where no pod waits for a node,
    none comes. A pool that does not parse has no known budget.
    """
    if pool.parsed is None:
        return PoolSnapshot(
            name=pool.name, budget_gpus=None, inventory_gpus=None, on_prem=True, scale_down_limit_percent=1,
            scale_down_limit_window_seconds=scale_down_limit_window_seconds, uid=pool.uid, generation=pool.generation,
            problem=pool.problem,
        )  # fmt: skip
    spec = pool.parsed.spec
    members = [node for node in nodes if belongs(node, pool.parsed)]
    reported = [node.gpus for node in members if node.ready and node.gpus is not None]
    # NB: where no ready node reports any GPU, how many there are is unknown: neither zero nor unlimited.
    inventory = sum(reported) if reported else None
    names = {node.name for node in members}
    on_prem = spec.location is Location.ON_PREM
    is_elastic = not on_prem and spec.declared_gpus is None
    return PoolSnapshot(
        name=pool.name,
        budget_gpus=spec.declared_gpus if spec.declared_gpus is not None or is_elastic else inventory,
        inventory_gpus=inventory,
        on_prem=on_prem,
        is_elastic=is_elastic,
        scale_down_limit_percent=spec.scale_down_limit_percent,
        scale_down_limit_window_seconds=scale_down_limit_window_seconds,
        charged_elsewhere_gpus=sum(pod.gpus for pod in pods if pod.node in names and pod.uid not in own_pod_uids),
        node_selector=spec.node_selector,
        nodes=len(members),
        lost_seconds=tuple(wall_seconds - node.lost_seconds for node in members if node.lost_seconds is not None),
        uid=pool.uid,
        generation=pool.generation,
    )


def belongs(node: NodeView, pool: GPUPool) -> bool:
    """Tell whether a node is one of the pool's: by its selector, or, without one, by the GPU type that it reports."""
    selector = pool.spec.node_selector
    if selector:
        return _is_selected(node, selector)
    product = node.labels.get(GPU_PRODUCT_LABEL)
    return product is not None and _canonical(product) == _canonical(pool.spec.gpu)


def pool_to_run_on(
    selector: Mapping[str, str], gpu: str, nodes: Iterable[NodeView], pools: Mapping[str, GPUPool]
) -> str | None:
    """Pool on whose nodes alone pods with this node selector and GPU can run; of several the first by name.

    Where there is no such node yet, what pools declare tells where it will be.
    """
    fitting = [node for node in nodes if node.gpus and _is_selected(node, selector)]
    of_gpu = [n for n in fitting if _canonical(n.labels.get(GPU_PRODUCT_LABEL, "")) == _canonical(gpu)]
    names = sorted(pools)
    if fitting:
        found = [next((name for name in names if belongs(n, pools[name])), None) for n in of_gpu or fitting]
        # NB: where other nodes take its pods too, no budget is spent until one has come to a node of the pool.
        return None if None in found else min(name for name in found if name is not None)
    for name in names:
        declared = pools[name].spec
        if _canonical(declared.gpu) == _canonical(gpu) and not _contradict(selector, declared.node_selector):
            return name
    return None


def _is_selected(node: NodeView, selector: Mapping[str, str]) -> bool:
    return all(node.labels.get(key) == value for key, value in selector.items())


def _contradict(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return any(other.get(key, value) != value for key, value in one.items())


@lru_cache(maxsize=256)
def _canonical(name: str) -> str:
    try:
        return resolve_gpu(name).name
    except SizingError:
        return name
