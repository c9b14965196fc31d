"""Pods that the API server refused to a StatefulSet, as its controller told it.

A Deployment has a condition for that; of a StatefulSet only an Event says it. LeaderWorkerSet makes its leaders by a
StatefulSet of its own name, and the workers of each group by one of the name of the leader: the same Events tell of
all of them. Source: Kubernetes 1.36 (`stateful_pod_control.go`,
`recordPodEvent`); LeaderWorkerSet 0.8 (`leaderworkerset_controller.go`, `pod_controller.go`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from types import MappingProxyType

from firsttoken_operator.api.crd import MAX_NAME_LENGTH
from firsttoken_operator.domain.target_kinds import GROUP_NUMBER_LABEL, LEADER_WORKER_SET, STATEFUL_SET
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.projections import Body, PodView, epoch_seconds
from firsttoken_operator.observe.workloads import MOST_REFUSED_CHARACTERS, WorkloadView

REFUSED_BY_EVENT = (STATEFUL_SET, LEADER_WORKER_SET)
"""Kinds whose objects do not say themselves that their pods are refused."""
FIELDS: Mapping[str, str] = MappingProxyType(
    {
        "involvedObject.kind": STATEFUL_SET.kind,
        "reason": "FailedCreate",
        "type": "Warning",
        "source": "statefulset-controller",
    }
)
"""Fields by which the API server tells these Events from all others."""


@dataclass(frozen=True, slots=True)
class _Refusal:
    set_name: str
    seconds: float
    said: str


class Refusals:
    """The last refusals of each namespace."""

    def __init__(self) -> None:
        self._by_namespace: dict[str, dict[str, _Refusal]] = defaultdict(dict)
        """By the uid of the Event, oldest first."""

    def put(self, body: Body) -> None:
        """Take an Event into account."""
        about, kept = body["involvedObject"], self._by_namespace[body["metadata"]["namespace"]]
        series = body.get("series") or {}
        times = (series.get("lastObservedTime"), body.get("lastTimestamp"), body.get("eventTime"))
        seconds = next((at for at in map(epoch_seconds, times) if at is not None), None)
        kept.pop(body["metadata"]["uid"], None)
        # NB: an Event is about any name that its writer likes; no object has one that is longer.
        if seconds is not None and len(about["name"]) <= MAX_NAME_LENGTH:
            said = str(body.get("message") or "")[:MOST_REFUSED_CHARACTERS]
            kept[body["metadata"]["uid"]] = _Refusal(about["name"], seconds, said)
        while len(kept) > DEFAULT.kept_refusals:
            del kept[next(iter(kept))]

    def drop(self, uid: str) -> None:
        """An Event is over."""
        for namespace, kept in list(self._by_namespace.items()):
            kept.pop(uid, None)
            if not kept:
                del self._by_namespace[namespace]

    def of(self, view: WorkloadView, pods: Iterable[PodView], wall_seconds: float) -> str:
        """Say why no further pod of a workload is made; empty: nothing is known to keep it from being made.

        What was refused before the last pod was made (it may be ending by now), or before the replicas were written
        last, says nothing of the pods that are missing now: those may be there, and not be seen yet. `wall_seconds`:
        now, seconds since the epoch.
        """
        kept = self._by_namespace.get(view.namespace)
        if not kept or view.kind not in REFUSED_BY_EVENT:
            return ""
        made = list(pods)
        if sum(not pod.terminating for pod in made) >= (view.replicas or 0):
            return ""
        # NB: a pod that ends was made, too: what was refused before it is no reason that it has no successor yet.
        since = max(view.replicas_seconds or view.created_seconds or 0.0, *(pod.created_seconds for pod in made), 0.0)
        return self._said(kept, view.name, since, wall_seconds)

    def of_groups(
        self, view: WorkloadView, waiting: Iterable[PodView], members: Iterable[PodView], wall_seconds: float
    ) -> list[str]:
        """Say why no further pod is made of each group whose leader waits for it: by a StatefulSet of its name.

        `wall_seconds`: now, seconds since the epoch.
        """
        kept = self._by_namespace.get(view.namespace)
        if not kept or view.kind is not LEADER_WORKER_SET:
            return []
        newest = dict[str, float]()
        for pod in members:
            number = pod.labels.get(GROUP_NUMBER_LABEL, "")
            newest[number] = max(newest.get(number, 0.0), pod.created_seconds)
        since = ((pod, newest.get(pod.labels.get(GROUP_NUMBER_LABEL, ""), pod.created_seconds)) for pod in waiting)
        found = (self._said(kept, pod.name, seconds, wall_seconds) for pod, seconds in since)
        return [said for said in found if said]

    @staticmethod
    def _said(kept: Mapping[str, _Refusal], set_name: str, since_seconds: float, wall_seconds: float) -> str:
        until_seconds = wall_seconds + DEFAULT.refusal_ahead_seconds
        own = (each for each in kept.values() if each.set_name == set_name)
        found = [each for each in own if since_seconds <= each.seconds <= until_seconds]
        return max(found, key=lambda each: each.seconds).said if found else ""
