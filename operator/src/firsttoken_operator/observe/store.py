"""Image of the cluster, in memory: fed by watch events, read by the snapshot of each tick.

It keeps projections, never bodies, and one bad object never hides another: a custom resource that does not parse is
kept with its problem. It makes no calls; feeding it is the business of `run`.
"""

from __future__ import annotations

import contextlib
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.gpu_pool import GPUPool
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain import DEPLOYMENT, ReplicaPod, TargetKind
from firsttoken_operator.domain.target_kinds import PODS_BY_OWNER, STATEFUL_SET
from firsttoken_operator.observe.devices import Devices
from firsttoken_operator.observe.freshness import LivePod
from firsttoken_operator.observe.indexes import Handlers, kept, named_labels, scaled, unlink
from firsttoken_operator.observe.kept_images import KeptImages
from firsttoken_operator.observe.node_waits import NodeWait, NodeWaits
from firsttoken_operator.observe.nodes import NodeView, project_node
from firsttoken_operator.observe.pools import pools_of_nodes
from firsttoken_operator.observe.preemptions import Preemptions
from firsttoken_operator.observe.projections import (
    REPLICA_SET,
    AutoscalerView,
    Body,
    PodView,
    is_finished,
    may_matter,
    owner_uid,
    project_autoscaler,
    project_pod,
)
from firsttoken_operator.observe.readiness import ReadinessHistory, Starts, TimeToReady
from firsttoken_operator.observe.refusals import Refusals
from firsttoken_operator.observe.resources import Stored, read_resource
from firsttoken_operator.observe.selected import SelectedPods
from firsttoken_operator.observe.selectors import selects
from firsttoken_operator.observe.tenancy import Tenancy
from firsttoken_operator.observe.workloads import WorkloadView, project_workload

DELETED = "DELETED"


class Store:
    """The cluster as the watches told it. Not thread-safe: fed and read on one event loop.

    `kinds`: what is scaled beside Deployments; without any, no label of a pod is kept. `device_classes`: those of whole
    GPUs, where claims are read.
    """

    def __init__(self, kinds: Sequence[TargetKind] = (), device_classes: Sequence[str] = ()) -> None:
        self.kinds = {kind.kind: kind for kind in (DEPLOYMENT, *kinds)}
        """Kinds that are scaled, by name."""
        self._keeps_labels = bool(kinds)
        self._pod_owners = {REPLICA_SET} | ({STATEFUL_SET.kind, *self.kinds} if kinds else set())
        self.resources: dict[str, Stored[InferenceDeployment]] = {}
        """Resources by uid, as are the next two."""
        self.pools: dict[str, Stored[GPUPool]] = {}
        self.profiles: dict[str, Stored[BenchmarkProfile]] = {}
        self.nodes: dict[str, NodeView] = {}
        """Nodes by uid."""
        self._namespaces: dict[str, tuple[str, Mapping[str, str]]] = {}
        """Name and labels of the namespaces by uid."""
        self._autoscalers: dict[str, AutoscalerView] = {}
        self._autoscaler_uids: dict[str, set[str]] = defaultdict(set)
        """Uids by kind/namespace/name of what they scale."""
        self._workloads: dict[str, WorkloadView] = {}
        self._workload_uids: dict[tuple[str, str, str], str] = {}
        """Uids by kind, namespace and name."""
        self._beneath: dict[str, set[str]] = defaultdict(set)
        """Uids of Deployments by that of the object that controls them."""
        self._selected = SelectedPods()
        self.kept_images = KeptImages()
        self.refusals = Refusals()
        self._node_uids: dict[str, str] = {}
        self._set_owners: dict[str, str] = {}
        """Uid of the Deployment by that of its ReplicaSet."""
        self._pods: dict[str, PodView] = {}
        self._gpu_pods_on: Counter[str] = Counter()
        """Pods with GPUs by name of their node; counted as they come, for at every tick there is one look for each
        target."""
        self._set_uids: dict[str, set[str]] = defaultdict(set)
        self._pod_uids: dict[str, set[str]] = defaultdict(set)
        self.devices, self._reads_claims = Devices(device_classes), bool(device_classes)
        self.node_waits = NodeWaits()
        self._readiness = ReadinessHistory(self._note_wait)
        self.preemptions = Preemptions()
        self._handlers: dict[str, Handlers] = {
            "InferenceDeployment": kept(self.resources, partial(read_resource, InferenceDeployment)),
            "GPUPool": kept(self.pools, partial(read_resource, GPUPool)),
            "BenchmarkProfile": kept(self.profiles, partial(read_resource, BenchmarkProfile)),
            **{kind.kind: (partial(self._put_workload, kind), self._drop_workload) for kind in self.kinds.values()},
            "ReplicaSet": (self._put_set, self._drop_set),
            "Pod": (self._put_pod, self._drop_pod),
            "Node": (self._put_node, self._drop_node),
            "ResourceSlice": (self.devices.put_slice, self.devices.drop),
            "ResourceClaim": (self.devices.put_claim, self.devices.drop),
            "ResourceClaimTemplate": (self.devices.put_template, self.devices.drop),
            "Namespace": kept(self._namespaces, named_labels),
            "Event": (self.refusals.put, self.refusals.drop),
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

    def follow_devices(self) -> None:
        """Give nodes and pods the devices that were told of since this was done last."""
        if self.devices.take_change():
            self.nodes.update({uid: self._equipped(view) for uid, view in self.nodes.items()})
            for pod in [pod for pod in self._pods.values() if pod.claims]:
                self._count(pod, -1)
                self._pods[pod.uid] = self._with_claims(pod)
                self._count(self._pods[pod.uid], 1)

    def workload(self, namespace: str, name: str, kind: str = DEPLOYMENT.kind) -> WorkloadView | None:
        """Object that is scaled, by its kind and name."""
        return self._workloads.get(self._workload_uids.get((kind, namespace, name), ""))

    @property
    def tenancy(self) -> Tenancy:
        """Tenants of the pools that can be read."""
        pools = {pool.name: pool.parsed for pool in self.pools.values() if pool.parsed is not None}
        return Tenancy(pools, dict(self._namespaces.values()))

    def beneath(self, view: WorkloadView) -> list[WorkloadView]:
        """Deployments that an object controls and whose pods are its replicas."""
        found = (self._workloads[uid] for uid in sorted(self._beneath.get(view.uid, ())))
        return [made for made in found if made.kind is DEPLOYMENT and selects(view.selector, made.pod_labels)]

    def autoscalers_of(self, namespace: str, name: str, kind: str = DEPLOYMENT.kind) -> list[str]:
        """Names of the HorizontalPodAutoscalers on a target."""
        uids = self._autoscaler_uids.get(f"{kind}/{namespace}/{name}", ())
        return [self._autoscalers[uid].name for uid in uids]

    def pods_of(self, target_uid: str) -> tuple[PodView, ...]:
        """Pods that are the replicas of a target, terminating ones included.

        Of a Deployment those in the live owner chain Pod -> ReplicaSet -> Deployment, of a StatefulSet those that it
        controls, of everything else those that its selector selects: where it makes Deployments, those of them.
        """
        view = self._workloads.get(target_uid)
        if view is not None and view.kind not in PODS_BY_OWNER:
            return self._selected_of(view)
        if view is not None and view.kind is STATEFUL_SET:
            return self._views(sorted(self._pod_uids.get(target_uid, ())))
        sets = sorted(self._set_uids.get(target_uid, ()))
        return self._views([pod for replica_set in sets for pod in sorted(self._pod_uids.get(replica_set, ()))])

    def members_of(self, target_uid: str) -> tuple[PodView, ...]:
        """All pods that the replicas of a target are made of: more than those where a replica is a group of pods."""
        view = self._workloads.get(target_uid)
        return self._views(self._selected.members(target_uid)) if view and view.members else self.pods_of(target_uid)

    def _selected_of(self, view: WorkloadView) -> tuple[PodView, ...]:
        """Pods that are replicas among those that the selector selects, which may be the labels of others too."""
        found, made = self._views(self._selected.replicas(view.uid)), {each.uid for each in self.beneath(view)}
        if made:
            found = tuple(pod for pod in found if self._set_owners.get(pod.owner_uid) in made)
        # NB: without a template its pods tell what a replica holds, and beside those with GPUs the others are none.
        tells = view.gpus_per_replica is None and any(pod.gpus for pod in found)
        return tuple(pod for pod in found if pod.gpus) if tells else found

    def gpu_pods(self) -> list[PodView]:
        """Every pod with GPUs that has not finished."""
        return [pod for pod in self._pods.values() if pod.gpus]

    def live_pods(self, target_uid: str, wall_seconds: float) -> tuple[LivePod, ...]:
        """List what `measure` needs of a target's pods; `wall_seconds`: now, seconds since the epoch."""
        return tuple(
            LivePod(
                pod.namespace,
                pod.name,
                None if pod.ready_seconds is None else max(0.0, wall_seconds - pod.ready_seconds),
                pod.terminating,
            )
            for pod in self.pods_of(target_uid)
        )

    def replica_pods(self, target_uid: str) -> tuple[ReplicaPod, ...]:
        """List the pods of a target that are not ending and that a ReplicaSet chooses among when some are to end."""
        pods = self.pods_of(target_uid)
        own, found = Counter(pod.node for pod in pods if pod.gpus), []
        for pod in pods:
            if not pod.terminating and pod.owner_kind == REPLICA_SET:
                node = self._node_named(pod.node)
                since = node.created_seconds if node and node.created_seconds else 0.0
                found.append(
                    ReplicaPod(
                        pod.uid, pod.name, pod.ready, pod.created_seconds, pod.deletion_cost, pod.has_own_cost,
                        pod.node, since, self._gpu_pods_on[pod.node] - own[pod.node],
                    )
                )  # fmt: skip
        return tuple(found)

    def time_to_ready(self, target_uid: str) -> TimeToReady | None:
        """Sum up how long this target's pods took to become Ready, all kinds of starts together."""
        return starts.overall if (starts := self.starts(target_uid)) else None

    def starts(self, target_uid: str) -> Starts | None:
        """The starts of this target's pods, by kind."""
        return self._readiness.of(target_uid, self._node_named)

    def _note_wait(self, wait: NodeWait) -> None:
        pools = {pool.name: pool.parsed for pool in self.pools.values() if pool.parsed is not None}
        self.node_waits.note(pools_of_nodes([wait.node], pools).get(wait.node.name, ()), wait)

    def _put_node(self, body: Body) -> None:
        uid, view = body["metadata"]["uid"], self._equipped(project_node(body))
        self.nodes[uid] = view
        self._node_uids[view.name] = uid

    def _equipped(self, node: NodeView) -> NodeView:
        published = self.devices.on(node.name)
        return node if node.published == published else replace(node, published=published)

    def _drop_node(self, uid: str) -> None:
        view = self.nodes.pop(uid, None)
        # NB: a node that registers again under its name is another object.
        if view is not None and self._node_uids.get(view.name) == uid:
            del self._node_uids[view.name]

    def _node_named(self, name: str) -> NodeView | None:
        return self.nodes.get(self._node_uids.get(name, ""))

    def _put_workload(self, kind: TargetKind, body: Body) -> None:
        view = project_workload(kind, body)
        before = self._workloads.get(view.uid)
        if before is not None and before.owner is not None:
            unlink(self._beneath, before.owner.uid, view.uid)
        self._workloads[view.uid] = view
        self._workload_uids[kind.kind, view.namespace, view.name] = view.uid
        if view.owner is not None:
            self._beneath[view.owner.uid].add(view.uid)
        if kind not in PODS_BY_OWNER:
            self._selected.put_target(view)
        if before is None:
            # Its pods may have been told before it.
            for pod in self.pods_of(view.uid):
                self._readiness.learn(view.uid, pod)

    def _drop_workload(self, uid: str) -> None:
        view = self._workloads.pop(uid, None)
        if view is not None:
            # NB: one that was created anew under the same name may have been told before this deletion.
            key = (view.kind.kind, view.namespace, view.name)
            if self._workload_uids.get(key) == uid:
                del self._workload_uids[key]
            self._selected.drop_target(view)
            if view.owner is not None:
                unlink(self._beneath, view.owner.uid, uid)
        self._readiness.forget_deployment(uid)
        self.preemptions.forget(uid)

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
            unlink(self._set_uids, owner, uid)

    def _put_pod(self, body: Body) -> None:
        if self.kept_images.put(body) or is_finished(body) or not self._may_matter(body):
            self._drop_view(body["metadata"]["uid"])
            return
        view = self._with_claims(project_pod(body, with_labels=self._keeps_labels))
        before = self._pods.get(view.uid)
        if before is not None:
            view = replace(view, was_gated=True) if before.was_gated else view
            unlink(self._pod_uids, before.owner_uid, view.uid)
            self._count(before, -1)
        self._pods[view.uid] = view
        self._count(view, 1)
        self._pod_uids[view.owner_uid].add(view.uid)
        if self._keeps_labels:
            self._selected.put_pod(view)
        self._learn(view)

    def _may_matter(self, body: Body) -> bool:
        return may_matter(body, self._pod_owners, claims_matter=self._reads_claims)

    def _with_claims(self, pod: PodView) -> PodView:
        claimed = self.devices.gpus_of(pod.namespace, pod.claims, pod.uid)
        if claimed == pod.claimed_gpus:
            return pod
        return replace(pod, gpus=pod.gpus - pod.claimed_gpus + claimed, claimed_gpus=claimed)

    def _drop_pod(self, uid: str) -> None:
        self._drop_view(uid)
        self.kept_images.drop(uid)

    def _drop_view(self, uid: str) -> None:
        view = self._pods.pop(uid, None)
        if view is not None:
            unlink(self._pod_uids, view.owner_uid, uid)
            self._count(view, -1)
            self._selected.drop_pod(view)
        self._readiness.forget_pod(uid)

    def _count(self, pod: PodView, change: int) -> None:
        if pod.gpus:
            self._gpu_pods_on[pod.node] += change
            if not self._gpu_pods_on[pod.node]:
                del self._gpu_pods_on[pod.node]

    def _learn(self, pod: PodView) -> None:
        # NB: of one that is gone nothing is learned: its last pods go after it, and would be kept for good.
        for target in (self._set_owners.get(pod.owner_uid), pod.owner_uid, *self._selected.targets_of(pod)):
            # NB: one without GPUs may be no replica, though it is selected.
            if target in self._workloads and (pod.gpus or pod in self.pods_of(target)):
                self._readiness.learn(target, pod)
                self.preemptions.note(target, pod)

    def _put_autoscaler(self, body: Body) -> None:
        view = project_autoscaler(body)
        self._drop_autoscaler(view.uid)
        if view.target_kind in self.kinds:
            self._autoscalers[view.uid] = view
            self._autoscaler_uids[scaled(view)].add(view.uid)

    def _drop_autoscaler(self, uid: str) -> None:
        view = self._autoscalers.pop(uid, None)
        if view is not None:
            unlink(self._autoscaler_uids, scaled(view), uid)

    def _views(self, uids: Sequence[str]) -> tuple[PodView, ...]:
        return tuple(self._pods[uid] for uid in uids)
