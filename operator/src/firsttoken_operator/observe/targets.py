"""Target of a resource: what is scaled, the state of its pods, and who else has a claim on its replicas."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain import DEPLOYMENT, Claims, Hindrances, Reason, Target, TargetKind, TargetMissing
from firsttoken_operator.domain.target_kinds import GROUP_NUMBER_LABEL, LEADER_WORKER_SET, NAMED
from firsttoken_operator.observe.config import DEFAULT
from firsttoken_operator.observe.projections import REPLICA_SET, PodView
from firsttoken_operator.observe.store import Store
from firsttoken_operator.observe.workloads import WorkloadView


def target_name(resource: InferenceDeployment) -> str:
    """Name of what is scaled: the object referred to, else the rendered workload, named as the resource."""
    reference = resource.spec.target_ref
    return resource.metadata.name if reference is None else reference.name


def beginning_of_pods(resource: InferenceDeployment) -> str:
    """Name with which those of its pods begin."""
    reference = resource.spec.target_ref
    kind = DEPLOYMENT if reference is None else NAMED.get(reference.kind, DEPLOYMENT)
    return target_name(resource) + kind.pods_after


def workload_of(store: Store, resource: InferenceDeployment) -> WorkloadView | None:
    """The object that the resource names; None: it is not there, or its kind is not allowed."""
    kind = _kind(store, resource)
    return None if kind is None else store.workload(resource.metadata.namespace, target_name(resource), kind.kind)


def target_of(
    store: Store, resource: InferenceDeployment, *, wall_seconds: float, sized_gpus: int | None = None
) -> Target | TargetMissing:
    """The scaled object with its pods counted. `wall_seconds`: now, seconds since the epoch.

    `sized_gpus`: GPUs of a replica as it was sized, which stand for those of a target without a template and pods.
    """
    name, kind, namespace = target_name(resource), _kind(store, resource), resource.metadata.namespace
    if kind is None:
        return TargetMissing(Reason.TARGET_KIND_NOT_ALLOWED, _refusal(store, resource))
    view = store.workload(namespace, name, kind.kind)
    if view is None:
        return TargetMissing(Reason.TARGET_NOT_FOUND, f"{kind.kind} {name} not found in {namespace}")
    if view.replicas is None or view.unknown:
        return TargetMissing(Reason.TARGET_UNREADABLE, f"{kind.kind} {name} has {view.unknown}")
    pods, known, runtime = store.pods_of(view.uid), store.time_to_ready(view.uid), resource.spec.runtime
    made = store.beneath(view)
    gpus = _gpus_per_replica(store, (view, *made), pods, sized_gpus)
    members = store.members_of(view.uid)
    waiting = _with_their_groups([pod for pod in pods if not pod.ready and not pod.terminating], members)
    return Target(
        uid=view.uid,
        kind=kind,
        name=view.name,
        replicas=view.replicas,
        ready=sum(pod.ready for pod in pods),
        starting=len(waiting),
        terminating=sum(pod.terminating for pod in pods),
        draining=sum(pod.ends_seconds is not None and pod.ends_seconds > wall_seconds for pod in pods),
        unschedulable=sum(pod.unschedulable for pod in waiting),
        failing=sum(bool(pod.failing) for pod in waiting),
        unplaced=sum(not pod.node for pod in waiting),
        # Pods of two templates: what is between them is not one fleet.
        rollout=any(each.is_updating for each in (view, *made)) or _has_two_templates(pods),
        gpus_per_replica=gpus,
        occupied_gpus=_occupied_gpus(pods, members, gpus),
        refused=next(
            (each.refused for each in (view, *made) if each.refused), store.refusals.of(view, pods, wall_seconds)
        ),
        waits_seconds=tuple(_waited_seconds(pod, wall_seconds) for pod in waiting),
        lost_seconds=tuple(wall_seconds - pod.lost_seconds for pod in waiting if pod.lost_seconds is not None),
        p99_start_seconds=known.p99_seconds if known else None,
        startup_timeout_seconds=runtime.startup_timeout_seconds if runtime else None,
        ending=next((each.ending for each in (view, *made) if each.ending is not None), None),
        resource_version=view.resource_version,
        started=next((each.started for each in (view, *made) if each.started is not None), None),
        hindrances=_hindrances(
            waiting,
            store.preemptions.count(view.uid, wall_seconds),
            wall_seconds,
            store.refusals.of_groups(view, waiting, members, wall_seconds),
            _without_volumes(members, wall_seconds),
        ),
    )


def claims_on(store: Store, resource: InferenceDeployment) -> Claims:
    """Find the claims on the replicas that the resource names."""
    namespace, name, view = resource.metadata.namespace, target_name(resource), workload_of(store, resource)
    allowed = _kind(store, resource)
    kind = allowed or DEPLOYMENT
    return Claims(
        # NB: of a kind that is not scaled nothing is claimed, least of all what has its name and another kind.
        target_name=name if allowed else "",
        is_rendered=resource.spec.target_ref is None,
        owner=view.owner if view else None,
        autoscaler=min(store.autoscalers_of(namespace, name, kind.kind), default="") if allowed else "",
        writer=view.replicas_writer if view else "",
        kind=kind,
        barred=view.barred if view else "",
        scalable=frozenset(store.kinds),
    )


def image_is_kept(store: Store, resource: InferenceDeployment) -> bool:
    """Tell whether the image of its next pod is kept on every node that the pod may come to.

    Those are the nodes that have a pod that keeps it, as long as none of its own pods is anywhere else.
    """
    view = workload_of(store, resource)
    if view is None:
        return False
    images = next((each.images for each in (view, *store.beneath(view)) if each.images), ())
    nodes = {pod.node for pod in store.members_of(view.uid) if pod.node and not pod.terminating}
    metadata = resource.metadata
    return store.kept_images.are_everywhere(metadata.namespace, metadata.name, images, nodes)


def _kind(store: Store, resource: InferenceDeployment) -> TargetKind | None:
    """Kind of the target; None: it is not one that the administrator allows."""
    reference = resource.spec.target_ref
    if reference is None:
        return LEADER_WORKER_SET if _has_groups(store, resource) else DEPLOYMENT
    kind = store.kinds.get(reference.kind)
    # NB: of a group every version is the same object.
    return kind if kind is not None and kind.group == reference.api_version.rpartition("/")[0] else None


def _has_groups(store: Store, resource: InferenceDeployment) -> bool:
    """Tell whether the replicas that were rendered for it are groups of pods."""
    if LEADER_WORKER_SET.kind not in store.kinds:
        return False
    view = store.workload(resource.metadata.namespace, resource.metadata.name, LEADER_WORKER_SET.kind)
    return view is not None and view.owner is not None and view.owner.uid == resource.metadata.uid


def _refusal(store: Store, resource: InferenceDeployment) -> str:
    reference = resource.spec.target_ref
    assert reference is not None, "what is rendered is always allowed"
    allowed = ", ".join(kind.named for kind in store.kinds.values())
    return (
        f"{reference.kind} ({reference.api_version}) is not among the kinds that are scaled here: {allowed}; the "
        "administrator allows others by scale.kinds of the chart"
    )


def _has_two_templates(pods: tuple[PodView, ...]) -> bool:
    return len({pod.owner_uid for pod in pods if not pod.terminating and pod.owner_kind == REPLICA_SET}) > 1


def _gpus_per_replica(
    store: Store, views: Iterable[WorkloadView], pods: tuple[PodView, ...], sized_gpus: int | None
) -> int:
    for each in views:
        if each.gpus_per_replica is not None:
            claimed = (number * store.devices.gpus_of(each.namespace, (claim,)) for claim, number in each.claims)
            return each.gpus_per_replica + sum(claimed)
    return max((pod.gpus for pod in pods), default=1 if sized_gpus is None else sized_gpus)


def _occupied_gpus(pods: Sequence[PodView], members: Sequence[PodView], gpus_per_replica: int) -> int:
    """GPUs that its pods hold: of a replica at least its own, though not all of its pods may be there yet.

    And at least those of all pods that count as its own: they are charged to nothing else.
    """
    ending = sum(pod.gpus for pod in members if pod.terminating)
    held = sum(pod.gpus for pod in members if not pod.terminating)
    return ending + max(held, sum(max(pod.gpus, gpus_per_replica) for pod in pods if not pod.terminating))


def _with_their_groups(waiting: Sequence[PodView], members: Sequence[PodView]) -> list[PodView]:
    """Pods that wait, each as its group does: one that has no place, or fails, holds up all of them."""
    groups = defaultdict[str, list[PodView]](list)
    for pod in members:
        if not pod.terminating and (number := pod.labels.get(GROUP_NUMBER_LABEL)):
            groups[number].append(pod)
    return [_as_group(pod, groups.get(pod.labels.get(GROUP_NUMBER_LABEL, ""), [])) for pod in waiting]


def _as_group(leader: PodView, group: Sequence[PodView]) -> PodView:
    late = [pod for pod in group if pod.unschedulable]
    return replace(
        leader,
        node=leader.node if all(pod.node for pod in group) else "",
        unschedulable=leader.unschedulable or bool(late),
        failing=leader.failing or min((pod.failing for pod in group if pod.failing), default=""),
        gates=leader.gates or min((pod.gates for pod in group if pod.gates), default=""),
        claims=(*leader.claims, *(claim for pod in late for claim in pod.claims)),
        said=leader.said or min((pod.said for pod in late if pod.said), default=""),
    )


def _hindrances(
    waiting: Sequence[PodView],
    preempted: int,
    wall_seconds: float,
    half_made: Sequence[str],
    without_volumes: Mapping[str, str],
) -> Hindrances:
    gated = [pod for pod in waiting if pod.gates]
    placeless = [pod for pod in waiting if pod.unschedulable]
    claiming = [pod for pod in placeless if pod.claims and "claim" in pod.said]
    # NB: of several the scheduler's words are those of one, and of the same one at each tick.
    return Hindrances(
        len(gated), "; ".join(sorted({pod.gates for pod in gated})), len(claiming),
        min((pod.said for pod in claiming or placeless if pod.said), default=""), preempted,
        tuple(_waited_seconds(pod, wall_seconds) for pod in placeless),
        half_made=len(half_made), refused=min(half_made, default=""),
        unmounted=len(without_volumes), volume_claim=min(without_volumes.values(), default=""),
    )  # fmt: skip


def _without_volumes(members: Sequence[PodView], wall_seconds: float) -> dict[str, str]:
    """Find the pods that wait for volumes of a claim that pods have mounted on another node; the claim, by uid.

    A claim that is ReadWriteOnce is mounted on one node at a time. NB: claims themselves are not read, for which the
    operator has no right.
    """
    live = [pod for pod in members if not pod.terminating]
    late = [pod for pod in live if pod.is_unmounted and _waited_seconds(pod, wall_seconds) > DEFAULT.mount_seconds]
    if not late:
        return {}
    used = {(claim, pod.node) for pod in live if pod.node and not pod.is_unmounted for claim in pod.volume_claims}
    found = {}
    for pod in late:
        elsewhere = (claim for claim, node in used if claim in pod.volume_claims and node != pod.node)
        if claim := min(elsewhere, default=""):
            found[pod.uid] = claim
    return found


def _waited_seconds(pod: PodView, wall_seconds: float) -> float:
    """Time for which a pod has been starting; one that was never scheduled has waited since it was made."""
    began = pod.created_seconds if pod.scheduled_seconds is None else pod.scheduled_seconds
    return wall_seconds - began
