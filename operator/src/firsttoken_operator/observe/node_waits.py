"""Nodes that came for pods, and how long pods waited for them: a history a pool, in which all namespaces have room.

A tenant decides how long its pods wait. So a pod that was held back by scheduling gates tells nothing of nodes; of
the pods that one node came for the one counts that waited least; and a namespace that has filled its share of a pool's
history displaces its own nodes only.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from firsttoken_operator.observe.config import DEFAULT, StartsConfig
from firsttoken_operator.observe.nodes import NodeView


@dataclass(frozen=True, slots=True)
class NodeWait:
    """A node that came, and the pod that waited least for it. `namespace`: of that pod."""

    node: NodeView
    namespace: str
    seconds: float


_Key = tuple[str, float | None]
"""Name of a node, and its creation: one that registers again under its name is another."""


class NodeWaits:
    """The last nodes that came, by pool."""

    def __init__(self, config: StartsConfig = DEFAULT.starts) -> None:
        self._config = config
        self._by_pool: dict[str, dict[_Key, NodeWait]] = defaultdict(dict)
        """Oldest first, by the name of the pool; empty for nodes of none, which may be declared later."""

    def note(self, pools: Iterable[str], wait: NodeWait) -> None:
        """Take into account that a node, which is in these pools, was waited for."""
        # NB: a pod may wait for other things before its node is ordered: then it tells of more than the node.
        if not 0 < wait.seconds <= self._config.longest_node_seconds:
            return
        for pool in tuple(pools) or ("",):
            waits, key = self._by_pool[pool], (wait.node.name, wait.node.created_seconds)
            before = waits.pop(key, wait)
            waits[key] = min(wait, before, key=lambda each: each.seconds)
            _shorten(waits, waits[key].namespace, self._config)

    def __iter__(self) -> Iterator[NodeWait]:
        """Every node once. Which pools it is in is for the pools of today to say."""
        found = {key: wait for waits in self._by_pool.values() for key, wait in waits.items()}
        return iter(found.values())


def _shorten(waits: dict[_Key, NodeWait], namespace: str, config: StartsConfig) -> None:
    """Forget the oldest node of a namespace that has too many, then of the one that has most."""
    nodes = Counter(wait.namespace for wait in waits.values())
    if nodes[namespace] > config.kept_nodes_of_namespace:
        most = namespace
    elif len(waits) > config.kept_nodes:
        most = max(nodes, key=nodes.__getitem__)
    else:
        return
    del waits[next(key for key, wait in waits.items() if wait.namespace == most)]
