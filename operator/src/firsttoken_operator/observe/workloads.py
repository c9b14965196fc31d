"""Projections of what is scaled: Deployments, and every other kind that an administrator allows.

A view says where the pods are found, what one replica holds, and why its replicas may not be written, in the words of
that kind. Sources: Kubernetes 1.36; LeaderWorkerSet 0.8 (`leaderworkerset_types.go`); KServe 0.16 (`constants.go`,
`hpa_reconciler.go`, `deployment_reconciler.go`); NIM Operator f63f74d7 (`nimservice_types.go`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, NamedTuple

from firsttoken_operator.api.toleration import Toleration, TolerationOperator
from firsttoken_operator.domain import DEPLOYMENT, Ending, Owner, TargetKind
from firsttoken_operator.domain.target_kinds import (
    GROUP_LABEL,
    INFERENCE_SERVICE,
    LEADER,
    LEADER_WORKER_SET,
    MAXIMUM,
    MINIMUM,
    NIM_SERVICE,
    PODS_BY_OWNER,
    STATEFUL_SET,
    FieldPath,
    at,
)
from firsttoken_operator.observe.affinity import Affinity, affinity_of
from firsttoken_operator.observe.projections import (
    Body,
    ClaimName,
    claims_of,
    conditions_of,
    controller_of,
    count,
    epoch_seconds,
    gpu_images,
    gpus_of,
)
from firsttoken_operator.observe.selectors import Selector, parse, selector_of
from firsttoken_operator.observe.starts import ending_of, started_by
from firsttoken_operator.runtimes.settings import Started

OWN_MANAGERS = "firsttoken"
"""Prefix of the names of our own field managers."""
MOST_REFUSED_CHARACTERS = 400
"""Characters that are kept of the reason why pods are refused."""
STANDARD_MODES = ("Standard", "RawDeployment")
"""Ways of KServe to run a predictor that make a Deployment; in the others a change of replicas is a new revision."""


class Placement(NamedTuple):
    """Nodes on which a pod may run: node selector, tolerations, and what its affinity requires."""

    node_selector: Mapping[str, str]
    tolerations: tuple[Toleration, ...]
    affinity: Affinity | None


@dataclass(frozen=True, slots=True)
class WorkloadView:
    """An object that is scaled: what it wants, what it has, and who owns it."""

    uid: str
    namespace: str
    name: str
    replicas: int | None
    """None: its field is not there, so that they are not known."""
    is_updating: bool
    """True where not all of its pods are of the newest template, or its controller has not seen its newest spec."""
    gpus_per_replica: int | None
    """GPUs of its pod template; None: it has none, and its pods tell."""
    owner: Owner | None
    claims: tuple[tuple[ClaimName, int], ...] = ()
    """Claims by which the pods of a replica ask for devices beside those GPUs, and how many pods make each."""
    node_selector: Mapping[str, str] = field(default_factory=dict)
    tolerations: tuple[Toleration, ...] | None = None
    """Taints that its pods tolerate; None: it has no pod template."""
    affinity: Affinity | None = None
    """Nodes that its pods require beside the selector; None: they require none."""
    workers: Placement | None = None
    """Placement of the pods beside the one that the fields above are about; None: a replica has no others."""
    created_seconds: float | None = None
    replicas_writer: str = ""
    """Field manager that wrote `replicas` last, beside us; empty: there is none."""
    replicas_seconds: float | None = None
    """Time at which `replicas` were written last, by whomever; None: it is not known."""
    refused: str = ""
    """Refusal of the API server to make a further pod (a quota, a policy), in its words; empty: it makes them."""
    ending: Ending | None = None
    """Times of a pod that ends; None: it has no pod template."""
    resource_version: str = ""
    kind: TargetKind = DEPLOYMENT
    selector: Selector = ()
    """Labels of the pods that are its replicas; empty: its pods are found by their owners, or not known."""
    members: Selector = ()
    """Labels of all the pods that its replicas are made of; empty: each replica is one pod."""
    pod_labels: Mapping[str, str] = field(default_factory=dict)
    """Labels of the pods that it makes, kept of a Deployment that another object controls."""
    images: tuple[str, ...] = ()
    """Images of the servers in its pod template; empty: it has none."""
    barred: str = ""
    """Reason that its replicas are not ours to write, as the object says itself; empty: there is none."""
    started: Started | None = None
    """Settings that the server of its pod template is started with; None: they cannot be read."""

    @property
    def placements(self) -> tuple[Placement, ...]:
        """Placements of all the pods that a replica is made of."""
        first = Placement(self.node_selector, self.tolerations or (), self.affinity)
        return (first, self.workers) if self.workers else (first,)

    @property
    def unknown(self) -> str:
        """Part of it that cannot be read, in words; empty: all is known."""
        if self.replicas is None:
            return f"no {'.'.join(self.kind.replicas)}"
        is_told = self.kind in PODS_BY_OWNER or self.selector
        return "" if is_told else f"no selector of its pods in {'.'.join(self.kind.selector)}"


def project_workload(kind: TargetKind, body: Body) -> WorkloadView:
    """The view of an object of a kind that is scaled."""
    metadata, status = body["metadata"], body.get("status") or {}
    facts = _FACTS.get(kind.kind, _any_facts)(kind, body)
    replicas = at(body, kind.replicas)
    return WorkloadView(
        uid=metadata["uid"],
        namespace=metadata.get("namespace", ""),
        name=metadata.get("name", ""),
        replicas=count(replicas) if replicas is not None else 1 if kind.is_one_unset else None,
        is_updating=facts.pop("is_updating", None) or _is_updating(kind, metadata, status),
        gpus_per_replica=facts.pop("gpus_per_replica", None),
        owner=controller_of(body),
        created_seconds=epoch_seconds(metadata.get("creationTimestamp")),
        replicas_writer=_replicas_writer(metadata, kind.replicas),
        replicas_seconds=_replicas_seconds(metadata, kind.replicas),
        resource_version=str(metadata.get("resourceVersion", "")),
        kind=kind,
        **facts,
    )


Facts = dict[str, Any]
"""Fields of a view that its kind tells in a way of its own."""


def _deployment_facts(_: TargetKind, body: Body) -> Facts:
    """A Deployment; its controller says why it makes no further pod."""
    status, template = body.get("status") or {}, _template(body)
    labels = at(template, ("metadata", "labels")) if controller_of(body) else None
    return _template_facts(template) | {"refused": _refused(status), "pod_labels": dict(labels or {})}


def _stateful_set_facts(_: TargetKind, body: Body) -> Facts:
    """A StatefulSet, which controls its pods itself."""
    return _template_facts(_template(body))


def _leader_worker_set_facts(_: TargetKind, body: Body) -> Facts:
    """A LeaderWorkerSet: a replica is a group of one leader and `size - 1` workers, and ready when its leader is."""
    group = at(body, ("spec", "leaderWorkerTemplate")) or {}
    worker = group.get("workerTemplate") or {}
    leader = group.get("leaderTemplate") or worker
    workers = count(group.get("size", 1)) - 1
    facts, of_worker, name = _template_facts(leader), _template_facts(worker), body["metadata"].get("name", "")
    of_set = {GROUP_LABEL: name}
    progress = conditions_of(body.get("status") or {}).get("UpdateInProgress") or {}
    return facts | {
        "gpus_per_replica": facts["gpus_per_replica"] + max(0, workers) * gpus_of(worker.get("spec") or {}),
        "claims": (*facts["claims"], *((claim, max(0, workers)) for claim, _ in of_worker["claims"])),
        "selector": selector_of(of_set | LEADER),
        "members": selector_of(of_set),
        "is_updating": progress.get("status") == "True",
        "workers": Placement(*(of_worker[each] for each in ("node_selector", "tolerations", "affinity"))),
    }


def _nim_service_facts(_: TargetKind, body: Body) -> Facts:
    """A NIMService, whose Deployment has the label `app` with its name on its pods."""
    spec, name = body.get("spec") or {}, body["metadata"].get("name", "")
    barred = ""
    if at(spec, ("scale", "enabled")):
        barred = f"NIMService {name} has spec.scale.enabled and scales itself; turn that off"
    elif spec.get("multiNode"):
        barred = f"NIMService {name} runs replicas over several nodes (spec.multiNode), which are not scaled"
    return {"selector": selector_of({"app": name}), "barred": barred}


def _inference_service_facts(_: TargetKind, body: Body) -> Facts:
    """An InferenceService whose predictor is a Deployment: KServe keeps it between minimum and maximum."""
    name, annotations = body["metadata"].get("name", ""), body["metadata"].get("annotations") or {}
    mode = at(body, ("status", "deploymentMode")) or annotations.get("serving.kserve.io/deploymentMode") or ""
    least, most = at(body, MINIMUM), at(body, MAXIMUM)
    autoscaler = annotations.get("serving.kserve.io/autoscalerClass", "")
    barred = ""
    if mode not in STANDARD_MODES:
        said = f"runs as {mode}" if mode else "does not say how it runs"
        barred = f"InferenceService {name} {said}; set the annotation serving.kserve.io/deploymentMode: Standard"
    elif autoscaler == "external":
        barred = (
            f"InferenceService {name} leaves its replicas to another autoscaler (serving.kserve.io/autoscalerClass: "
            "external); set it to none"
        )
    elif at(body, ("spec", "predictor", "workerSpec")) is not None:
        barred = f"InferenceService {name} runs replicas over several nodes (workerSpec), which are not scaled"
    elif most is not None and count(most) > count(1 if least is None else least):
        barred = (
            f"InferenceService {name} scales itself between minReplicas and maxReplicas; set both to the same number"
        )
    labels = {"serving.kserve.io/inferenceservice": name, "component": "predictor"}
    return {"selector": selector_of(labels), "barred": barred}


def _any_facts(kind: TargetKind, body: Body) -> Facts:
    """Any object with a scale subresource, whose status has the selector of its pods."""
    text = at(body, kind.selector)
    return {"selector": parse(text) or () if isinstance(text, str) else ()}


_FACTS: Mapping[str, Callable[[TargetKind, Body], Facts]] = MappingProxyType(
    {
        DEPLOYMENT.kind: _deployment_facts,
        STATEFUL_SET.kind: _stateful_set_facts,
        LEADER_WORKER_SET.kind: _leader_worker_set_facts,
        NIM_SERVICE.kind: _nim_service_facts,
        INFERENCE_SERVICE.kind: _inference_service_facts,
    }
)


def _template(body: Body) -> Body:
    return at(body, ("spec", "template")) or {}


def _template_facts(template: Body) -> Facts:
    pod_spec = template.get("spec") or {}
    start = started_by(pod_spec)
    return {
        "gpus_per_replica": gpus_of(pod_spec),
        "claims": tuple((claim, 1) for claim in claims_of(pod_spec, {})),
        "images": gpu_images(pod_spec),
        "node_selector": pod_spec.get("nodeSelector") or {},
        "affinity": affinity_of(pod_spec),
        "tolerations": tuple(_toleration(each) for each in pod_spec.get("tolerations") or ()),
        "started": start,
        "ending": ending_of(pod_spec, start),
    }


def _toleration(body: Body) -> Toleration:
    """Read a toleration of pods that are not ours: what a pool may not declare (an empty key) is none that it lacks."""
    return Toleration.model_construct(
        key=str(body.get("key") or ""),
        operator=TolerationOperator(body.get("operator") or TolerationOperator.EQUAL),
        value=body.get("value"),
        effect=body.get("effect") or None,
    )


def _is_updating(kind: TargetKind, metadata: Body, status: Body) -> bool:
    """Tell whether a rollout is under way. Not every kind counts updated pods, or says what its controller has seen."""
    always = kind.group == DEPLOYMENT.group
    counts = always or "updatedReplicas" in status
    sees = always or "observedGeneration" in status
    return (counts and count(status.get("updatedReplicas")) < count(status.get("replicas"))) or (
        sees and count(status.get("observedGeneration")) < count(metadata.get("generation"))
    )


def _refused(status: Body) -> str:
    """Read what the Deployment's condition `ReplicaFailure` says, where it holds: `exceeded quota: ...`."""
    failure = conditions_of(status).get("ReplicaFailure") or {}
    if failure.get("status") != "True":
        return ""
    return str(failure.get("message") or failure.get("reason"))[:MOST_REFUSED_CHARACTERS]


def _replicas_writer(metadata: Body, replicas: FieldPath) -> str:
    found = _writes(metadata, replicas)
    others = ((written, manager) for written, manager in found if not manager.startswith(OWN_MANAGERS))
    return max(others, default=("", ""))[1]


def _replicas_seconds(metadata: Body, replicas: FieldPath) -> float | None:
    return epoch_seconds(max(_writes(metadata, replicas), default=("", ""))[0])


def _writes(metadata: Body, replicas: FieldPath) -> list[tuple[str, str]]:
    """Time and field manager of each that has written the replicas."""
    owned = tuple(f"f:{name}" for name in replicas)
    return [
        (str(entry.get("time", "")), str(entry.get("manager", "")))
        for entry in metadata.get("managedFields") or ()
        if at(entry.get("fieldsV1"), owned) is not None
    ]
