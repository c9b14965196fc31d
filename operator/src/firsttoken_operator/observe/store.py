"""Image of the cluster, in memory: fed by watch events, read by the snapshot of each tick.

It keeps projections, never bodies, and one bad object never hides another: a custom resource that does not parse is
kept with its problem. It makes no calls; feeding it is the business of `run`.
"""

from __future__ import annotations

import contextlib
from collections import defaultdict
from collections.abc import Callable
from functools import partial
from typing import TypeVar

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain import ReplicaPod
from firsttoken_operator.observe.freshness import LivePod
from firsttoken_operator.observe.projections import (
    AutoscalerView,
    Body,
    DeploymentView,
    NodeView,
    PodView,
    is_finished,
    may_matter,
    owner_uid,
    project_autoscaler,
    project_deployment,
    project_node,
    project_pod,
)
from firsttoken_operator.observe.readiness import ReadinessHistory, Starts, TimeToReady
from firsttoken_operator.observe.resources import Stored, read_resource

DELETED = "DELETED"
DEPLOYMENT = "Deployment"
View = TypeVar("View")
Handlers = tuple[Callable[[Body], None], Callable[[str], object]]
"""Pair of a function that takes an object, and one that drops that of a uid."""


class Store:
    """The cluster as the watches told it. Not thread-safe: fed and read on one event loop."""

    def __init__(self) -> None:
        self.resources: dict[str, Stored[InferenceDeployment]] = {}
        """Resources by uid, as are the next two."""
        self.pools: dict[str, Stored[GPUPool]] = {}
        self.profiles: dict[str, Stored[BenchmarkProfile]] = {}
        self.nodes: dict[str, NodeView] = {}
        """Nodes by uid."""
        self._autoscalers: dict[str, AutoscalerView] = {}
        self._autoscaler_uids: dict[str, set[str]] = defaultdict(set)
        """Uids by namespace/name of the Deployment that they scale."""
        self._deployments: dict[str, DeploymentView] = {}
        self._deployment_uids: dict[tuple[str, str], str] = {}
        self._node_uids: dict[str, str] = {}
        self._set_owners: dict[str, str] = {}
        """Uid of the Deployment by that of its ReplicaSet."""
        self._pods: dict[str, PodView] = {}
        self._set_uids: dict[str, set[str]] = defaultdict(set)
        self._pod_uids: dict[str, set[str]] = defaultdict(set)
        self._readiness = ReadinessHistory()
        self._handlers: dict[str, Handlers] = {
            "InferenceDeployment": _kept(self.resources, partial(read_resource, InferenceDeployment)),
            "GPUPool": _kept(self.pools, partial(read_resource, GPUPool)),
            "BenchmarkProfile": _kept(self.profiles, partial(read_resource, BenchmarkProfile)),
            "Deployment": (self._put_deployment, self._drop_deployment),
            "ReplicaSet": (self._put_set, self._drop_set),
            "Pod": (self._put_pod, self._drop_pod),
            "Node": (self._put_node, self._drop_node),
            "HorizontalPodAutoscaler": (self._put_autoscaler, self._drop_autoscaler),
        }

    def feed(self, kind: str, event_type: str | None, body: Body) -> None:
        """Take one watch event: the kind, its type (None for a listed object, ADDED, MODIFIED, DELETED) and the object.

        Raises nothing for what is in the object: one that cannot be read is left out.
        """
        put, drop = self._handlers[kind]
        with contextlib.suppress(KeyError, TypeError, ValueError, AttributeError):
            if event_type == DELETED:
                drop(body["metadata"]["uid"])
            else:
                put(body)

    def deployment(self, namespace: str, name: str) -> DeploymentView | None:
        """A Deployment by its name."""
        return self._deployments.get(self._deployment_uids.get((namespace, name), ""))

    def autoscalers_of(self, namespace: str, name: str) -> list[str]:
        """Names of the HorizontalPodAutoscalers on a Deployment."""
        uids = self._autoscaler_uids.get(f"{namespace}/{name}", ())
        return [self._autoscalers[uid].name for uid in uids]

    def pods_of(self, deployment_uid: str) -> tuple[PodView, ...]:
        """Pods in the live owner chain Pod -> ReplicaSet -> Deployment, terminating ones included."""
        return tuple(
            self._pods[pod]
            for replica_set in sorted(self._set_uids.get(deployment_uid, ()))
            for pod in sorted(self._pod_uids.get(replica_set, ()))
        )

    def gpu_pods(self) -> list[PodView]:
        """Every pod with GPUs that has not finished."""
        return [pod for pod in self._pods.values() if pod.gpus]

    def live_pods(self, deployment_uid: str, wall_seconds: float) -> tuple[LivePod, ...]:
        """List what `measure` needs of a Deployment's pods; `wall_seconds`: now, seconds since the epoch."""
        return tuple(
            LivePod(
                pod.namespace,
                pod.name,
                None if pod.ready_seconds is None else max(0.0, wall_seconds - pod.ready_seconds),
                pod.terminating,
            )
            for pod in self.pods_of(deployment_uid)
        )

    def replica_pods(self, deployment_uid: str) -> tuple[ReplicaPod, ...]:
        """List the pods of a Deployment that are not ending."""
        return tuple(
            ReplicaPod(pod.uid, pod.name, pod.ready, pod.created_seconds, pod.deletion_cost, pod.has_own_cost)
            for pod in self.pods_of(deployment_uid)
            if not pod.terminating
        )

    def time_to_ready(self, deployment_uid: str) -> TimeToReady | None:
        """Sum up how long this Deployment's pods took to become Ready, all kinds of starts together."""
        starts = self.starts(deployment_uid)
        return None if starts is None else starts.overall

    def starts(self, deployment_uid: str) -> Starts | None:
        """The starts of this Deployment's pods, by kind."""
        return self._readiness.of(deployment_uid, self._node_named)

    def _put_node(self, body: Body) -> None:
        uid, view = body["metadata"]["uid"], project_node(body)
        self.nodes[uid] = view
        self._node_uids[view.name] = uid

    def _drop_node(self, uid: str) -> None:
        view = self.nodes.pop(uid, None)
        # NB: a node that registers again under its name is another object.
        if view is not None and self._node_uids.get(view.name) == uid:
            del self._node_uids[view.name]

    def _node_named(self, name: str) -> NodeView | None:
        return self.nodes.get(self._node_uids.get(name, ""))

    def _put_deployment(self, body: Body) -> None:
        view = project_deployment(body)
        is_new = view.uid not in self._deployments
        self._deployments[view.uid] = view
        self._deployment_uids[view.namespace, view.name] = view.uid
        if is_new:
            # Its pods may have been told before it.
            for pod in self.pods_of(view.uid):
                self._learn(pod)

    def _drop_deployment(self, uid: str) -> None:
        view = self._deployments.pop(uid, None)
        # NB: one that was created anew under the same name may have been told before this deletion.
        if view is not None and self._deployment_uids.get((view.namespace, view.name)) == uid:
            del self._deployment_uids[view.namespace, view.name]
        self._readiness.forget_deployment(uid)

    def _put_set(self, body: Body) -> None:
        uid, owner = body["metadata"]["uid"], owner_uid(body)
        self._drop_set(uid)
        self._set_owners[uid] = owner
        self._set_uids[owner].add(uid)
        # Pods may have been told before the ReplicaSet that owns them.
        for pod in self._pod_uids.get(uid, ()):
            self._learn(self._pods[pod])

    def _drop_set(self, uid: str) -> None:
        owner = self._set_owners.pop(uid, None)
        if owner is not None:
            _unlink(self._set_uids, owner, uid)

    def _put_pod(self, body: Body) -> None:
        if is_finished(body) or not may_matter(body):
            self._drop_pod(body["metadata"]["uid"])
            return
        view = project_pod(body)
        before = self._pods.get(view.uid)
        if before is not None:
            _unlink(self._pod_uids, before.owner_uid, view.uid)
        self._pods[view.uid] = view
        self._pod_uids[view.owner_uid].add(view.uid)
        self._learn(view)

    def _drop_pod(self, uid: str) -> None:
        view = self._pods.pop(uid, None)
        if view is not None:
            _unlink(self._pod_uids, view.owner_uid, uid)
        self._readiness.forget_pod(uid)

    def _learn(self, pod: PodView) -> None:
        deployment = self._set_owners.get(pod.owner_uid)
        # NB: of one that is gone nothing is learned: its last pods go after it, and would be kept for good.
        if deployment in self._deployments:
            self._readiness.learn(deployment, pod)

    def _put_autoscaler(self, body: Body) -> None:
        view = project_autoscaler(body)
        self._drop_autoscaler(view.uid)
        if view.target_kind == DEPLOYMENT:
            self._autoscalers[view.uid] = view
            self._autoscaler_uids[f"{view.namespace}/{view.target_name}"].add(view.uid)

    def _drop_autoscaler(self, uid: str) -> None:
        view = self._autoscalers.pop(uid, None)
        if view is not None:
            _unlink(self._autoscaler_uids, f"{view.namespace}/{view.target_name}", uid)


def _kept(views: dict[str, View], read: Callable[[Body], View]) -> Handlers:
    """Make the handlers of objects that are kept by uid, and of which nothing else depends."""

    def put(body: Body) -> None:
        view = read(body)
        views[body["metadata"]["uid"]] = view

    return put, lambda uid: views.pop(uid, None)


def _unlink(index: dict[str, set[str]], owner: str, member: str) -> None:
    members = index.get(owner)
    if members is not None:
        members.discard(member)
        if not members:
            del index[owner]
