"""Kinds of objects whose replicas can be scaled: where they are served, and which of their fields hold the replicas.

Of everything but a Deployment an administrator says whether it may be scaled (`scale.kinds` of the chart). Those of
other projects are named here as their definitions serve them: LeaderWorkerSet 0.8, KServe 0.16, the NIM Operator and
Dynamo of August 2026.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

FieldPath = tuple[str, ...]
"""Names of the fields on the way to a value."""


def at(body: Any, path: FieldPath) -> Any:
    """Value of an object at a path; None: there is none."""
    for name in path:
        if not isinstance(body, Mapping):
            return None
        body = body.get(name)
    return body


SPEC_REPLICAS: FieldPath = ("spec", "replicas")
STATUS_SELECTOR: FieldPath = ("status", "selector")


@dataclass(frozen=True, slots=True)
class TargetKind:
    """A kind that can be scaled.

    `replicas` is the field that is read. `patched` are the fields that are written where the kind has no scale
    subresource, all to the same number; empty: it has one, and that is written.
    """

    kind: str
    group: str
    version: str
    plural: str
    replicas: FieldPath = SPEC_REPLICAS
    patched: tuple[FieldPath, ...] = ()
    selector: FieldPath = STATUS_SELECTOR
    """Field with the label selector of the pods, as a text; not read where owners or labels of its own tell them."""
    is_one_unset: bool = False
    """True where an object without the field has one replica; of the others they are not known then."""
    pods_after: str = ""
    """End of the name of what it makes, after its own: the pods are named by that."""
    controllers: frozenset[str] = frozenset()
    """Kinds that may control such an object without a claim on its replicas: it is their place to be scaled from."""

    @property
    def api_version(self) -> str:
        """Version as manifests name it."""
        return f"{self.group}/{self.version}"

    @property
    def named(self) -> str:
        """Kind and API version, as messages name them."""
        return f"{self.kind} ({self.api_version})"


DEPLOYMENT = TargetKind("Deployment", "apps", "v1", "deployments", is_one_unset=True)
STATEFUL_SET = TargetKind("StatefulSet", "apps", "v1", "statefulsets", is_one_unset=True)
LEADER_WORKER_SET = TargetKind(
    "LeaderWorkerSet", "leaderworkerset.x-k8s.io", "v1", "leaderworkersets", is_one_unset=True
)
GROUP_LABEL, MEMBER_LABEL = "leaderworkerset.sigs.k8s.io/name", "leaderworkerset.sigs.k8s.io/worker-index"
"""Labels that a LeaderWorkerSet gives its pods: its own name, and the number of a pod in its group."""
GROUP_NUMBER_LABEL = "leaderworkerset.sigs.k8s.io/group-index"
"""Label of the number of a pod's group."""
LEADER = {MEMBER_LABEL: "0"}
"""Label of the pod of a group that answers."""
NIM_SERVICE = TargetKind(
    "NIMService", "apps.nvidia.com", "v1alpha1", "nimservices", patched=(SPEC_REPLICAS,), is_one_unset=True
)
PODS_BY_OWNER = (DEPLOYMENT, STATEFUL_SET)
"""Kinds whose pods are found by who controls them; those of the others by their labels."""
MINIMUM: FieldPath = ("spec", "predictor", "minReplicas")
MAXIMUM: FieldPath = ("spec", "predictor", "maxReplicas")
INFERENCE_SERVICE = TargetKind(
    "InferenceService", "serving.kserve.io", "v1beta1", "inferenceservices", MINIMUM, (MINIMUM, MAXIMUM),
    is_one_unset=True, pods_after="-predictor",
)  # fmt: skip
SCALING_ADAPTER = TargetKind(
    "DynamoGraphDeploymentScalingAdapter", "nvidia.com", "v1alpha1", "dynamographdeploymentscalingadapters",
    controllers=frozenset({"DynamoGraphDeployment"}),
)  # fmt: skip

NAMED: Mapping[str, TargetKind] = MappingProxyType(
    {each.kind: each for each in (STATEFUL_SET, LEADER_WORKER_SET, NIM_SERVICE, INFERENCE_SERVICE, SCALING_ADAPTER)}
)
"""Kinds that an administrator allows by name, beside Deployment, which always is."""
