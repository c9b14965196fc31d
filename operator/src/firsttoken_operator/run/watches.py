"""Watches of the operator: one table, read by the kopf wiring, the cache check and the test of the RBAC rules."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from firsttoken_operator.act.kubernetes import KubernetesCluster
from firsttoken_operator.api.base import GROUP, VERSION
from firsttoken_operator.domain import TargetKind
from firsttoken_operator.observe.refusals import FIELDS, REFUSED_BY_EVENT


@dataclass(frozen=True, slots=True)
class Watched:
    """One kind of object. `field_selector` leaves out on the server what is not read here, `metadata_only` the rest."""

    kind: str
    group: str
    version: str
    plural: str
    namespaced: bool = True
    field_selector: str = ""
    metadata_only: bool = False
    may_be_absent: bool = False
    """True of a kind that an administrator allows beside Deployments, and of what only explains: it may not be
    installed, or only later, or not be readable. Then there is nothing of it, and all others go on."""

    @property
    def is_ours(self) -> bool:
        """True where it is a custom resource of ours, which kopf watches; the others have a reflector."""
        return self.group == GROUP

    @property
    def api_version(self) -> str:
        """Version as manifests name it."""
        return f"{self.group}/{self.version}" if self.group else self.version

    def path(self, namespace: str = "") -> str:
        """URL path of the collection, in one namespace or in all."""
        root = f"/apis/{self.api_version}" if self.group else f"/api/{self.version}"
        scope = f"/namespaces/{namespace}" if namespace and self.namespaced else ""
        return f"{root}{scope}/{self.plural}"


WATCHED = (
    Watched("InferenceDeployment", GROUP, VERSION, "inferencedeployments"),
    Watched("GPUPool", GROUP, VERSION, "gpupools", namespaced=False),
    Watched("BenchmarkProfile", GROUP, VERSION, "benchmarkprofiles", namespaced=False),
    Watched("Deployment", "apps", "v1", "deployments"),
    Watched("ReplicaSet", "apps", "v1", "replicasets", metadata_only=True),
    Watched("Pod", "", "v1", "pods", field_selector="status.phase!=Succeeded,status.phase!=Failed"),
    Watched("Node", "", "v1", "nodes", namespaced=False),
    Watched("Namespace", "", "v1", "namespaces", namespaced=False, metadata_only=True),
    Watched("HorizontalPodAutoscaler", "autoscaling", "v2", "horizontalpodautoscalers"),
)
FAILED_CREATES = Watched(
    "Event", "", "v1", "events", field_selector=",".join(f"{name}={value}" for name, value in FIELDS.items()),
    may_be_absent=True,
)  # fmt: skip
"""Events of pods that were refused, watched where kinds are scaled that do not say it themselves."""
DEVICES = (
    Watched("ResourceSlice", "resource.k8s.io", "v1", "resourceslices", namespaced=False),
    Watched("ResourceClaim", "resource.k8s.io", "v1", "resourceclaims"),
    Watched("ResourceClaimTemplate", "resource.k8s.io", "v1", "resourceclaimtemplates"),
)
"""Kinds of what is claimed, watched where GPUs are. None may be absent: GPUs not seen to be held are no free ones."""
OPTIONAL = (FAILED_CREATES, *DEVICES)
"""All that is watched in some configurations only, but for kinds that are scaled."""
OURS = tuple(each for each in WATCHED if each.is_ours)


def watched_with(kinds: Iterable[TargetKind], *, claims: bool = False) -> tuple[Watched, ...]:
    """Everything that is watched where these kinds are scaled beside Deployments. `claims`: GPUs are claimed."""
    kinds = tuple(kinds)
    others = (Watched(kind.kind, kind.group, kind.version, kind.plural, may_be_absent=True) for kind in kinds)
    tells = (FAILED_CREATES,) if any(kind in REFUSED_BY_EVENT for kind in kinds) else ()
    return (*WATCHED, *others, *tells, *(DEVICES if claims else ()))


async def missing_definitions(cluster: KubernetesCluster) -> list[Watched]:
    """Ask for the kinds of ours that the server does not know. Raises `ClusterError`."""
    return [each for each in OURS if not await cluster.serves(each.api_version, each.kind)]
