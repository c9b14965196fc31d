"""Nodes as places for pods that have none yet: in which pools they may come to run.

Deployments that are made alike ask the same, and each answer is a look at every node: within a tick it is kept.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.toleration import Toleration
from firsttoken_operator.observe.affinity import Affinity
from firsttoken_operator.observe.nodes import NodeView, canonical_gpu
from firsttoken_operator.observe.pools import belongs

RequiredLabels = frozenset[tuple[str, str]]


@dataclass(frozen=True, slots=True)
class Places:
    """Nodes and pools of one tick."""

    nodes: Sequence[NodeView]
    pools: Mapping[str, GPUPool]
    """Those that can be read, in the order of their names."""
    pools_of_node: Mapping[str, tuple[str, ...]]
    """Names of its pools by that of the node."""
    _run_on: dict[tuple[RequiredLabels, str], str | None] = field(init=False, default_factory=dict)
    _stray_to: dict[tuple[str, RequiredLabels, tuple[Toleration, ...], Affinity | None], frozenset[str]] = field(
        init=False, default_factory=dict
    )

    def pool_to_run_on(self, selector: Mapping[str, str], gpu: str) -> str | None:
        """Pool on whose nodes alone pods with this node selector and GPU can run; of several the first by name.

        Where there is no such node yet, what pools declare tells where it will be.
        """
        key = frozenset(selector.items()), gpu
        if key not in self._run_on:
            self._run_on[key] = self._find_pool(selector, gpu)
        return self._run_on[key]

    def pools_to_stray_to(
        self, named: str, selector: Mapping[str, str], tolerations: Iterable[Toleration], affinity: Affinity | None
    ) -> frozenset[str]:
        """Other pools than the one that is named, on whose nodes such pods may come to run as well.

        A node of several pools is in the first of them by name; one that is in the named pool too is in that one.
        """
        key = named, frozenset(selector.items()), tuple(tolerations), affinity
        if key not in self._stray_to:
            self._stray_to[key] = frozenset(self._find_others(named, selector, key[2], affinity))
        return self._stray_to[key]

    def _find_pool(self, selector: Mapping[str, str], gpu: str) -> str | None:
        fitting = [node for node in self.nodes if node.gpus and node.is_selected(selector)]
        of_gpu = [n for n in fitting if n.product == canonical_gpu(gpu)]
        names = sorted(self.pools)
        if fitting:
            found = [next((name for name in names if belongs(n, self.pools[name])), None) for n in of_gpu or fitting]
            # NB: where other nodes take its pods too, no budget is spent until one has come to a node of the pool.
            return None if None in found else min(name for name in found if name is not None)
        for name in names:
            declared = self.pools[name].spec
            if canonical_gpu(declared.gpu) == canonical_gpu(gpu) and not _contradict(selector, declared.node_selector):
                return name
        return None

    def _find_others(
        self, named: str, selector: Mapping[str, str], tolerations: tuple[Toleration, ...], affinity: Affinity | None
    ) -> Iterable[str]:
        for node in self.nodes:
            pools = self.pools_of_node.get(node.name, ())
            if not pools or named in pools or not node.gpus:
                continue
            if not node.takes(tolerations) or not node.is_selected(selector):
                continue
            if affinity is None or any(term.selects(node) for term in affinity):
                yield pools[0]


def _contradict(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return any(other.get(key, value) != value for key, value in one.items())
