"""Target of a resource: the Deployment, the state of its pods, and who else has a claim on its replicas."""

from __future__ import annotations

from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.domain import Claims, Reason, Target, TargetMissing
from firsttoken_operator.observe.projections import PodView
from firsttoken_operator.observe.store import Store

KIND = "Deployment"


def target_name(resource: InferenceDeployment) -> str:
    """Name of the Deployment that is scaled: the one referred to, else the rendered one, named as the resource."""
    reference = resource.spec.target_ref
    return resource.metadata.name if reference is None else reference.name


def target_of(store: Store, resource: InferenceDeployment, *, wall_seconds: float) -> Target | TargetMissing:
    """The scaled object with its pods counted. `wall_seconds`: now, seconds since the epoch."""
    name = target_name(resource)
    view = store.deployment(resource.metadata.namespace, name)
    if view is None:
        return TargetMissing(Reason.TARGET_NOT_FOUND, f"Deployment {name} not found in {resource.metadata.namespace}")
    pods, known, runtime = store.pods_of(view.uid), store.time_to_ready(view.uid), resource.spec.runtime
    waiting = [pod for pod in pods if not pod.ready and not pod.terminating]
    return Target(
        uid=view.uid,
        kind=KIND,
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
        rollout=view.is_updating or len({pod.owner_uid for pod in pods if not pod.terminating}) > 1,
        gpus_per_replica=view.gpus_per_replica,
        refused=view.refused,
        waits_seconds=tuple(_waited_seconds(pod, wall_seconds) for pod in waiting),
        lost_seconds=tuple(wall_seconds - pod.lost_seconds for pod in waiting if pod.lost_seconds is not None),
        p99_start_seconds=known.p99_seconds if known else None,
        startup_timeout_seconds=runtime.startup_timeout_seconds if runtime else None,
        grace_seconds=view.grace_seconds,
        resource_version=view.resource_version,
    )


def claims_on(store: Store, resource: InferenceDeployment) -> Claims:
    """Find the claims on the replicas that the resource names."""
    namespace, name = resource.metadata.namespace, target_name(resource)
    view = store.deployment(namespace, name)
    return Claims(
        target_name=name,
        is_rendered=resource.spec.target_ref is None,
        owner=view.owner if view else None,
        autoscaler=min(store.autoscalers_of(namespace, name), default=""),
        writer=view.replicas_writer if view else "",
    )


def _waited_seconds(pod: PodView, wall_seconds: float) -> float:
    """Time for which a pod has been starting; one that was never scheduled has waited since it was made."""
    began = pod.created_seconds if pod.scheduled_seconds is None else pod.scheduled_seconds
    return wall_seconds - began
