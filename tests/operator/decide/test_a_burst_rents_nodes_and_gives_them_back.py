"""A burst in the cloud, second by second: how soon it is answered, what it orders, and when it has cost its last node.

The cluster is played: its scheduler, what adds nodes two minutes after pods wait for them and takes empty ones away,
and its ReplicaSet, which ends the pods that were chosen. The decisions, and the choice of pods, are the operator's.
`tests/faults/test_a_burst_waits_for_its_nodes.py` plays the same on a real API server, by a clock that is not played.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace

from firsttoken_operator.decide import Memory, cost_changes, decide, judge_facts
from firsttoken_operator.domain import (
    Decision,
    FleetSnapshot,
    Hindrances,
    PoolSnapshot,
    Provisioning,
    Reason,
    ReplicaPod,
    Target,
)
from tests.operator.decide.builders import POLICY, TICK_SECONDS, late, metrics, resource, target

NODE_SECONDS, START_SECONDS, EMPTY_SECONDS, GPUS = 120, 60, 600, 8
"""Until an ordered node is there, until a pod on it is ready, until an empty one goes; GPUs and pods on each."""
FEW, MANY = 8, 40
"""Replicas that the load takes before the burst, and in it."""
EACH = 5.0
"""Requests a second of a replica."""
QUIET = 600
"""Seconds before anything happens."""
BASE = "base"


@dataclass
class Pod:
    """A pod with a GPU. `node`: empty while it waits for one."""

    name: str
    created: int
    node: str = ""
    ready_at: int | None = None


@dataclass
class Cloud:
    """One node that is always there, and up to `quota` that come. Seconds since the beginning."""

    quota: int
    load: float = FEW * EACH - 1
    now: int = 0
    pods: list[Pod] = field(default_factory=list)
    nodes: dict[str, int] = field(default_factory=lambda: {BASE: -86400})
    """Time at which each came."""
    due: dict[str, int] = field(default_factory=dict)
    empty_since: dict[str, int] = field(default_factory=dict)
    ordered: int = 0
    waited: list[float] = field(default_factory=list)
    """Seconds that pods waited for the nodes which came for them."""
    memory: Memory = field(default_factory=Memory)
    decisions: list[Decision] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.pods = [Pod(f"pod-{i}", -3600, BASE, -3000) for i in range(FEW)]
        self.made = FEW

    @property
    def ready(self) -> int:
        return sum(pod.ready_at is not None and pod.ready_at <= self.now for pod in self.pods)

    def run(self, seconds: int) -> None:
        """Let time pass; the operator looks every 15 s."""
        for _ in range(seconds):
            self.now += 1
            if self.now % TICK_SECONDS == 0:
                self._tick()
            self._provision()

    def _provision(self) -> None:
        """Bind pods, order nodes for those that find no place, and take away what was empty for long."""
        for name in [name for name, due in self.due.items() if due <= self.now]:
            self.nodes[name] = self.now
            del self.due[name]
        used = Counter(pod.node for pod in self.pods)
        for pod in (pod for pod in self.pods if not pod.node):
            if (place := next((name for name in self.nodes if used[name] < GPUS), None)) is not None:
                pod.node, pod.ready_at = place, self.now + START_SECONDS
                used.subtract([""])
                used[place] += 1
                self.waited.append(self.now - pod.created)
        coming = GPUS * len(self.due)
        while used[""] > coming and len(self.nodes) - 1 + len(self.due) < self.quota:
            self.ordered += 1
            self.due[f"burst-{self.ordered}"] = self.now + NODE_SECONDS
            coming += GPUS
        for name in [name for name in self.nodes if name != BASE]:
            if used[name]:
                self.empty_since.pop(name, None)
            elif self.now - self.empty_since.setdefault(name, self.now) >= EMPTY_SECONDS:
                del self.nodes[name]

    def _tick(self) -> None:
        demand = metrics(self.load, ttft=late(0.5) if self.load > self.ready * EACH else late(0.0))
        seen = resource(self._target(), demand, pool="cloud", policy=replace(POLICY, min_replicas=FEW))
        snapshot = FleetSnapshot(float(self.now), TICK_SECONDS, (seen,), {"cloud": self._pool()})
        (decision,), self.memory = decide(judge_facts(snapshot), self.memory)
        self.decisions.append(decision)
        chosen = cost_changes(decision, [self._seen(pod) for pod in self.pods], {}, empties_nodes=True)
        costs = {change.pod.name: change.cost or 0 for change in chosen}
        excess = max(0, len(self.pods) - decision.to_replicas)
        for pod in sorted(self.pods, key=lambda pod: costs.get(pod.name, 0))[:excess]:
            self.pods.remove(pod)
        while len(self.pods) < decision.to_replicas:
            self.pods.append(Pod(f"pod-{self.made}", self.now))
            self.made += 1

    def _target(self) -> Target:
        starting = [pod for pod in self.pods if pod.ready_at is None or pod.ready_at > self.now]
        placeless = tuple(float(self.now - pod.created) for pod in starting if not pod.node)
        return target(
            len(self.pods), ready=len(self.pods) - len(starting), starting=len(starting),
            waits_seconds=tuple(float(self.now - pod.created) for pod in starting),
            unschedulable=len(placeless), unplaced=len(placeless),
            hindrances=Hindrances(said="0/5 nodes are available", placeless_seconds=placeless),
        )  # fmt: skip

    def _pool(self) -> PoolSnapshot:
        learned = Provisioning(*[max(self.waited)] * 3, len(self.waited)) if self.waited else None
        return PoolSnapshot(
            "cloud", MANY, GPUS * len(self.nodes), on_prem=False, scale_down_limit_percent=20,
            scale_down_limit_window_seconds=600, is_provisioned=True, provisioning=learned,
            newest_node_seconds=float(self.now - max(self.nodes.values())),
        )  # fmt: skip

    def _seen(self, pod: Pod) -> ReplicaPod:
        is_ready = pod.ready_at is not None and pod.ready_at <= self.now
        return ReplicaPod(
            pod.name, pod.name, is_ready, float(pod.created), node=pod.node,
            node_created_seconds=float(self.nodes.get(pod.node, 0)),
        )  # fmt: skip


def test_a_burst_is_ready_within_a_node_a_start_and_two_ticks_and_its_nodes_are_gone_an_hour_later() -> None:
    cloud = Cloud(quota=8)
    cloud.run(QUIET)
    assert len(cloud.pods) == FEW

    cloud.load = MANY * EACH - 1
    cloud.run(round(TICK_SECONDS))
    seen = cloud.now
    while cloud.ready < MANY:
        cloud.run(1)
        assert cloud.now - seen <= NODE_SECONDS + START_SECONDS + 2 * TICK_SECONDS
    assert (cloud.made, cloud.ordered) == (MANY, (MANY - FEW) // GPUS)
    cloud.run(QUIET)
    assert (cloud.made, len(cloud.pods), cloud.ordered) == (MANY, MANY, (MANY - FEW) // GPUS)

    cloud.load = FEW * EACH / 2
    cloud.run(3600)
    assert (list(cloud.nodes), len(cloud.pods), cloud.made) == ([BASE], FEW, MANY)


def test_what_a_quota_of_nodes_keeps_back_is_told_and_not_ordered_again() -> None:
    cloud = Cloud(quota=2)
    cloud.run(QUIET)
    cloud.load = MANY * EACH - 1
    cloud.run(240)
    assert cloud.ready == 24
    assert cloud.decisions[-1].limited_by is not Reason.INSUFFICIENT_CAPACITY

    cloud.run(3600)
    assert cloud.decisions[-1].limited_by is Reason.INSUFFICIENT_CAPACITY
    assert cloud.decisions[-1].to_replicas == MANY
    assert cloud.decisions[-1].unmet_replicas >= MANY - 24
    assert (cloud.made, cloud.ordered, cloud.ready) == (MANY, 2, 24)

    cloud.quota = 4
    cloud.run(NODE_SECONDS + START_SECONDS + 1)
    assert (cloud.made, cloud.ordered, cloud.ready) == (MANY, 4, MANY)
