"""Pods that are found by their labels: those of targets whose owners do not lead to them.

Kept up to date with each event, so that a tick looks nothing through.
"""

from __future__ import annotations

from collections import defaultdict

from firsttoken_operator.observe.projections import PodView
from firsttoken_operator.observe.selectors import selects
from firsttoken_operator.observe.workloads import WorkloadView


class SelectedPods:
    """Uids of the pods of each target that has a selector. Not thread-safe, as the store that owns it."""

    def __init__(self) -> None:
        self._pods: dict[str, dict[str, PodView]] = defaultdict(dict)
        """Pods by uid, by namespace."""
        self._targets: dict[str, dict[str, WorkloadView]] = defaultdict(dict)
        """Targets by uid, by namespace."""
        self._replicas: dict[str, set[str]] = {}
        """Uids of the pods that are replicas, by that of the target."""
        self._members: dict[str, set[str]] = {}
        """The same of all pods that replicas are made of."""

    def replicas(self, target_uid: str) -> list[str]:
        """Uids of the pods that are its replicas, in a fixed order."""
        return sorted(self._replicas.get(target_uid, ()))

    def members(self, target_uid: str) -> list[str]:
        """Uids of all pods that its replicas are made of, in a fixed order."""
        return sorted(self._members.get(target_uid, ()))

    def targets_of(self, pod: PodView) -> list[str]:
        """Uids of the targets that it is a replica of."""
        return [uid for uid in self._targets.get(pod.namespace, ()) if pod.uid in self._replicas[uid]]

    def put_pod(self, pod: PodView) -> None:
        """Take a pod, or its new labels."""
        self._pods[pod.namespace][pod.uid] = pod
        for target in self._targets.get(pod.namespace, {}).values():
            self._judge(target, pod)

    def drop_pod(self, pod: PodView) -> None:
        """Forget a pod."""
        if self._pods[pod.namespace].pop(pod.uid, None) is not None:
            for uid in self._targets.get(pod.namespace, ()):
                self._replicas[uid].discard(pod.uid)
                self._members[uid].discard(pod.uid)
        if not self._pods[pod.namespace]:
            del self._pods[pod.namespace]

    def put_target(self, target: WorkloadView) -> None:
        """Take a target, or its new selector."""
        known = self._targets[target.namespace].get(target.uid)
        self._targets[target.namespace][target.uid] = target
        if known is None or (known.selector, known.members) != (target.selector, target.members):
            self._replicas[target.uid], self._members[target.uid] = set(), set()
            for pod in self._pods.get(target.namespace, {}).values():
                self._judge(target, pod)

    def drop_target(self, target: WorkloadView) -> None:
        """Forget a target."""
        self._targets[target.namespace].pop(target.uid, None)
        if not self._targets[target.namespace]:
            del self._targets[target.namespace]
        self._replicas.pop(target.uid, None)
        self._members.pop(target.uid, None)

    def _judge(self, target: WorkloadView, pod: PodView) -> None:
        for selector, uids in (
            (target.selector, self._replicas[target.uid]),
            (target.members or target.selector, self._members[target.uid]),
        ):
            if selector and selects(selector, pod.labels):
                uids.add(pod.uid)
            else:
                uids.discard(pod.uid)
