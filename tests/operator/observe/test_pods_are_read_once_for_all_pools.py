"""Work of a tick on the pools: it grows with the pods and with the pools, not with their product."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from firsttoken_operator.observe.pools import Surroundings, pool_snapshot, pools_of_nodes
from firsttoken_operator.observe.projections import PodView
from tests.operator.observe.bodies import EPOCH, node, pod, pool
from tests.operator.observe.test_the_snapshot_shows_the_fleet import cluster

POOLS, PODS_EACH = 20, 4


class Read(tuple[PodView, ...]):
    """Pods, and how often they were gone through."""

    times = 0

    def __iter__(self) -> Iterator[PodView]:
        self.times += 1
        return super().__iter__()


def test_the_pods_are_gone_through_once_however_many_pools_there_are() -> None:
    rooms = [f"room-{number:02}" for number in range(POOLS)]
    store = cluster(
        *(("GPUPool", pool(room, nodeSelector={"room": room})) for room in rooms),
        *(("Node", node(f"gpu-{room}", room=room)) for room in rooms),
        *(
            ("Pod", pod(f"{room}-{i}", ready=1, node=f"gpu-{room}", owned=False))
            for room in rooms
            for i in range(PODS_EACH)
        ),
        ("Pod", pod("own", ready=1, node="gpu-room-01")),
    )
    parsed = {each.name: each.parsed for each in store.pools.values() if each.parsed is not None}
    nodes, pods = tuple(store.nodes.values()), Read(store.gpu_pods())
    around = Surroundings(
        nodes, pods, Counter(), store.tenancy, 600.0, EPOCH, pools_of_nodes(nodes, parsed),
        {"room-00": {"uid-own"}}, {}, {},
    )  # fmt: skip
    found = {each.name: pool_snapshot(each, around) for each in store.pools.values()}

    assert pods.times == 1
    # NB: one pod is of a deployment of the first pool and on the node of the second, which both are charged with.
    assert found["room-00"].budget_gpus == 8 + 1
    assert found["room-01"].charged_elsewhere_gpus == PODS_EACH + 1
    assert all(found[room].charged_elsewhere_gpus == PODS_EACH for room in rooms if room != "room-01")
