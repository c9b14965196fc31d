"""Work of a tick on pods without a node: deployments that are made alike cost one look at the nodes together."""

from __future__ import annotations

from collections.abc import Iterator

from firsttoken_operator.api.toleration import Toleration
from firsttoken_operator.observe.nodes import NodeView
from firsttoken_operator.observe.places import Places
from firsttoken_operator.observe.pools import pools_of_nodes
from tests.operator.observe.bodies import node, pool
from tests.operator.observe.test_the_snapshot_shows_the_fleet import cluster

DEPLOYMENTS = 50


class Read(tuple[NodeView, ...]):
    """Nodes, and how often they were gone through."""

    times = 0

    def __iter__(self) -> Iterator[NodeView]:
        self.times += 1
        return super().__iter__()


def places() -> tuple[Places, Read]:
    store = cluster(
        *(("GPUPool", pool(room, nodeSelector={"room": room})) for room in ("a", "b")),
        *(("Node", node(f"gpu-{room}", room=room, kind=room)) for room in ("a", "b")),
    )
    pools = {each.name: each.parsed for each in store.pools.values() if each.parsed is not None}
    nodes = Read(store.nodes.values())
    return Places(nodes, pools, pools_of_nodes(tuple(nodes), pools)), nodes


def test_equal_deployments_cost_one_look_at_the_nodes() -> None:
    found, nodes = places()
    before = nodes.times
    strays = {found.pools_to_stray_to("a", {}, (), None) for _ in range(DEPLOYMENTS)}
    hosts = {found.pool_to_run_on({"kind": "b"}, "H100-SXM-80GB") for _ in range(DEPLOYMENTS)}

    assert (strays, hosts) == ({frozenset({"b"})}, {"b"})
    assert nodes.times - before == 2


def test_what_differs_is_looked_for_anew() -> None:
    found, _ = places()
    tolerates = Toleration.model_validate({"key": "room", "operator": "Exists"})

    assert found.pools_to_stray_to("a", {}, (), None) == {"b"}
    assert found.pools_to_stray_to("b", {}, (), None) == {"a"}
    assert found.pools_to_stray_to("a", {"kind": "a"}, (), None) == set()
    assert found.pools_to_stray_to("a", {}, (), ()) == set()
    assert found.pools_to_stray_to("a", {}, (tolerates,), None) == {"b"}
    assert found.pool_to_run_on({"kind": "a"}, "H100-SXM-80GB") == "a"
    assert found.pool_to_run_on({"kind": "b"}, "H100-SXM-80GB") == "b"
