"""Small projections of Kubernetes objects: the few fields that a decision needs, read once when an event arrives.

Bodies are never kept. Every reader takes what the API server sent and survives what it did not send; times are seconds
since the epoch, on the clocks of the cluster.
"""

from __future__ import annotations

import re
from collections.abc import Container, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, NamedTuple

from firsttoken_operator.domain import Owner
from firsttoken_operator.domain.pods import WARM_CLASS

Body = Mapping[str, Any]

GPU_RESOURCES = ("nvidia.com/gpu", "amd.com/gpu")
"""Resources that are whole GPUs; parts of one (`nvidia.com/mig-...`, `nvidia.com/gpu.shared`) are none of them."""

DELETION_COST = "controller.kubernetes.io/pod-deletion-cost"
OWN_DELETION_COST = "firsttoken.dev/deletion-cost"
"""Annotation that says the same as `DELETION_COST` where this operator has set that one."""

FAILING_REASONS = frozenset(
    {
        "CrashLoopBackOff", "ImagePullBackOff", "ErrImagePull", "InvalidImageName", "CreateContainerConfigError",
        "CreateContainerError", "RunContainerError", "ErrImageNeverPull",
    }
)  # fmt: skip
"""Reasons of a container that waits and will not start by waiting."""

REPLICA_SET = "ReplicaSet"
KUEUE_MANAGED = "kueue.x-k8s.io/managed"
"""Label of pods that Kueue makes with a gate of its own: it stays when the gate is gone."""
PREEMPTED = "PreemptionByScheduler"
"""Reason of the condition `DisruptionTarget` of a pod that ends for one of a higher priority."""
MOST_SAID_CHARACTERS = 300
"""Characters that are kept of what a scheduler says of a pod."""


class ClaimName(NamedTuple):
    """A claim of a pod by its name, and the template that it is made of; each empty where there is none, or not yet."""

    name: str
    template: str = ""


@dataclass(frozen=True, slots=True)
class PodView:
    """One pod that has not finished. Times are None where the condition has not come true."""

    uid: str
    namespace: str
    name: str
    owner_uid: str
    node: str
    created_seconds: float
    scheduled_seconds: float | None
    ready_seconds: float | None
    terminating: bool
    gpus: int
    """By its limits and, where devices are read, by its claims."""
    unschedulable: bool
    failing: str
    """Reason that a container will not start by waiting (`CrashLoopBackOff`...); empty: none is known."""
    restarts: int
    lost_seconds: float | None = None
    """Time since when a pod that was Ready is not so any more; None: it is, or never was."""
    pulling_seconds: float | None = None
    """Time from the sandbox being ready to the last container's first start: where that is long, images were pulled.

    NB: exact from Kubernetes 1.29 on; before, there is no time of the sandbox and the scheduling stands for it, so that
    volumes that are slow to mount look like a pull. None: no container has begun, or one began anew."""
    ends_seconds: float | None = None
    """Time at which the grace period of a pod that ends is over; None: it does not end."""
    deletion_cost: int | None = None
    """See `domain.ReplicaPod`, as the next one."""
    has_own_cost: bool = False
    owner_kind: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    gates: str = ""
    """Scheduling gates that keep every scheduler from it, in one line; empty: there are none."""
    was_gated: bool = False
    """True where gates kept every scheduler from it, now or before: when it began to wait for a node is not known."""
    claims: tuple[ClaimName, ...] = ()
    """Claims by which it asks for devices."""
    claimed_gpus: int = 0
    """Part of `gpus` that it has by its claims."""
    said: str = ""
    """Words of the scheduler that finds no node for it."""
    is_warm: bool = False
    """True where it holds its GPUs only until another pod wants them."""
    volume_claims: tuple[str, ...] = ()
    """Names of the PersistentVolumeClaims that it mounts, of those that others may mount, too."""
    is_unmounted: bool = False
    """True where it has a node, and its volumes and its network are not ready there: nothing of it has begun."""
    preempted_seconds: float | None = None
    """Time at which it had to end for a pod of a higher PriorityClass; None: it did not have to."""

    @property
    def ready(self) -> bool:
        """True where it takes traffic."""
        return self.ready_seconds is not None and not self.terminating


@dataclass(frozen=True, slots=True)
class AutoscalerView:
    """A HorizontalPodAutoscaler and what it scales."""

    uid: str
    namespace: str
    name: str
    target_kind: str
    target_name: str


def project_pod(body: Body, *, with_labels: bool = False) -> PodView:
    """A pod; one that is not owned by a controller has an empty `owner_uid`. `with_labels`: its labels are kept."""
    metadata, spec, status = body["metadata"], body.get("spec") or {}, body.get("status") or {}
    conditions, annotations = conditions_of(status), metadata.get("annotations") or {}
    scheduled = conditions.get("PodScheduled") or {}
    containers = [*(status.get("initContainerStatuses") or ()), *(status.get("containerStatuses") or ())]
    waiting = [((entry.get("state") or {}).get("waiting") or {}).get("reason", "") for entry in containers]
    owner = controller_of(body)
    # NB: a pod that waits for those to end that it displaces has its place.
    is_placeless = scheduled.get("status") == "False" and scheduled.get("reason") == "Unschedulable"
    is_placeless = is_placeless and not status.get("nominatedNodeName")
    disrupted = conditions.get("DisruptionTarget") or {}
    gates = () if spec.get("nodeName") else spec.get("schedulingGates") or ()
    return PodView(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        owner_uid=owner.uid if owner else "",
        node=spec.get("nodeName") or "",
        created_seconds=epoch_seconds(metadata.get("creationTimestamp")) or 0.0,
        scheduled_seconds=true_since(scheduled),
        ready_seconds=true_since(conditions.get("Ready") or {}),
        terminating=bool(metadata.get("deletionTimestamp")),
        gpus=gpus_of(spec),
        unschedulable=is_placeless,
        failing=next((reason for reason in waiting if reason in FAILING_REASONS), ""),
        restarts=sum(count(entry.get("restartCount")) for entry in containers),
        lost_seconds=lost_since(conditions.get("Ready") or {}, true_since(conditions.get("Initialized") or {})),
        pulling_seconds=_pulling_seconds(status, conditions),
        # NB: Kubernetes adds the grace period to the time of the deletion.
        ends_seconds=epoch_seconds(metadata.get("deletionTimestamp")),
        deletion_cost=_deletion_cost(annotations),
        has_own_cost=annotations.get(OWN_DELETION_COST, "") == annotations.get(DELETION_COST),
        owner_kind=owner.kind if owner else "",
        labels=dict(metadata.get("labels") or {}) if with_labels else {},
        gates=", ".join(sorted(str(gate.get("name", "")) for gate in gates)),
        was_gated=bool(gates) or (metadata.get("labels") or {}).get(KUEUE_MANAGED) == "true",
        claims=claims_of(spec, status),
        said=str(scheduled.get("message") or "")[:MOST_SAID_CHARACTERS] if is_placeless else "",
        is_warm=spec.get("priorityClassName") == WARM_CLASS,
        volume_claims=_volume_claims(spec),
        is_unmounted=bool(spec.get("nodeName")) and _is_false(conditions.get("PodReadyToStartContainers")),
        preempted_seconds=true_since(disrupted) if disrupted.get("reason") == PREEMPTED else None,
    )


def _volume_claims(spec: Body) -> tuple[str, ...]:
    claims = (volume.get("persistentVolumeClaim") for volume in spec.get("volumes") or ())
    return tuple(sorted({str(claim.get("claimName") or "") for claim in claims if claim}))


def _is_false(condition: Body | None) -> bool:
    """Tell whether a condition is there and does not hold; one that is not there says nothing."""
    return (condition or {}).get("status") == "False"


def is_finished(body: Body) -> bool:
    """Tell whether a pod has ended and holds nothing any more."""
    return (body.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def may_matter(body: Body, owner_kinds: Container[str] = (REPLICA_SET,), *, claims_matter: bool = False) -> bool:
    """Tell whether a pod may be a replica, or takes GPUs from those that are; most of a cluster are not.

    `owner_kinds`: the kinds of objects that make the pods of a target. `claims_matter`: what it claims may be GPUs.
    """
    owner, spec = controller_of(body), body.get("spec") or {}
    is_made = owner is not None and owner.kind in owner_kinds
    return is_made or gpus_of(spec) > 0 or (claims_matter and bool(spec.get("resourceClaims")))


def project_autoscaler(body: Body) -> AutoscalerView:
    """A HorizontalPodAutoscaler."""
    metadata, reference = body["metadata"], (body.get("spec") or {}).get("scaleTargetRef") or {}
    return AutoscalerView(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        target_kind=reference.get("kind", ""),
        target_name=reference.get("name", ""),
    )


def _deletion_cost(annotations: Mapping[str, Any]) -> int | None:
    """The cost as the ReplicaSet controller reads it: what is no int32 counts as none."""
    text = str(annotations.get(DELETION_COST, ""))
    cost = int(text) if re.fullmatch(r"-?(0|[1-9][0-9]{0,9})", text) else None
    return cost if cost is not None and -(2**31) <= cost < 2**31 else None


def conditions_of(status: Body) -> dict[Any, Body]:
    """Conditions by their type."""
    return {condition.get("type"): condition for condition in status.get("conditions") or ()}


def controller_of(body: Body) -> Owner | None:
    """The owner that controls an object (there is at most one)."""
    for owner in body["metadata"].get("ownerReferences") or ():
        if owner.get("controller"):
            return Owner(owner.get("kind", ""), owner.get("name", ""), owner.get("uid", ""))
    return None


def owner_uid(body: Body) -> str:
    """That of the controller; empty: there is none."""
    owner = controller_of(body)
    return owner.uid if owner else ""


def gpus_of(pod_spec: Body) -> int:
    """GPUs of one pod: containers run together, init containers one after the other before them."""
    running = sum(_gpu_limit(container) for container in pod_spec.get("containers") or ())
    return max([running, *(_gpu_limit(container) for container in pod_spec.get("initContainers") or ())])


def claims_of(pod_spec: Body, status: Body) -> tuple[ClaimName, ...]:
    """Claims of a pod; of a template, whose `status` is empty, those that each of its pods has."""
    made = {each.get("name"): each.get("resourceClaimName") for each in status.get("resourceClaimStatuses") or ()}
    return tuple(
        ClaimName(
            str(each.get("resourceClaimName") or made.get(each.get("name")) or ""),
            str(each.get("resourceClaimTemplateName") or ""),
        )
        for each in pod_spec.get("resourceClaims") or ()
    )


def gpu_images(pod_spec: Body) -> tuple[str, ...]:
    """Images of the containers of a pod that have GPUs; of one without any, all."""
    containers = pod_spec.get("containers") or ()
    served = [container for container in containers if _gpu_limit(container)] or containers
    return tuple(str(container["image"]) for container in served if container.get("image"))


def _gpu_limit(container: Body) -> int:
    resources = container.get("resources") or {}
    limits, requests = resources.get("limits") or {}, resources.get("requests") or {}
    return sum(count(limits.get(name, requests.get(name))) for name in GPU_RESOURCES)


def count(value: Any) -> int:
    """A whole number of things, as JSON or as a Quantity (`"8"`, `"1k"`); 0 where there is none."""
    if isinstance(value, int):
        return max(0, value)
    match = re.fullmatch(r"(\d{1,12})(k?)", str(value or ""))
    return int(match[1]) * (1000 if match[2] else 1) if match else 0


def epoch_seconds(timestamp: Any) -> float | None:
    """Seconds since the epoch of an RFC 3339 time, None for none or nonsense."""
    try:
        return datetime.fromisoformat(timestamp).timestamp()
    except (TypeError, ValueError):
        return None


def _pulling_seconds(status: Body, conditions: Mapping[Any, Body]) -> float | None:
    """See `PodView.pulling_seconds`. Containers begin one after the other, each after its image is there."""
    sandbox = true_since(conditions.get("PodReadyToStartContainers") or {})
    before = [sandbox if sandbox is not None else true_since(conditions.get("PodScheduled") or {})]
    for entry in status.get("initContainerStatuses") or ():
        # One that runs on is a sidecar: the containers begin after it has begun.
        state = entry.get("state") or {}
        before.append(epoch_seconds((state.get("terminated") or {}).get("finishedAt")))
        before.append(epoch_seconds((state.get("running") or {}).get("startedAt")))
    begun = [
        epoch_seconds(((entry.get("state") or {}).get("running") or {}).get("startedAt"))
        for entry in status.get("containerStatuses") or ()
    ]
    known = [at for at in begun if at is not None]
    since = [at for at in before if at is not None]
    if not known or len(known) < len(begun) or not since:
        return None
    return max(0.0, max(known) - max(since))


def lost_since(ready: Body, began: float | None) -> float | None:
    """Time at which a condition ended that was true before; `began`: when it was first said, as not true yet."""
    since = None if ready.get("status") == "True" else epoch_seconds(ready.get("lastTransitionTime"))
    # NB: what was never ready says since its beginning, in whole seconds, that it is not.
    return since if since is not None and began is not None and since > began + 1 else None


def true_since(condition: Body) -> float | None:
    """Time since when a condition holds; None: it does not."""
    return epoch_seconds(condition.get("lastTransitionTime")) if condition.get("status") == "True" else None
