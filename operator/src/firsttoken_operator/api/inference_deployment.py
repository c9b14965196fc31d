"""The custom resource `InferenceDeployment`: a model, its traffic, its SLA, and how it may be scaled."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from firsttoken_operator.api.base import API_VERSION, ApiModel, Int, Metadata, Rule, described
from firsttoken_operator.api.quantities import Architecture, GpuName, LongName, ModelName, Name
from firsttoken_operator.api.runtime import Runtime
from firsttoken_operator.api.sizing_spec import SizingSpec
from firsttoken_operator.api.sla import ServiceLevel
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.api.traffic import Traffic
from firsttoken_operator.domain.snapshot import ScaleDown, ScalingMode
from firsttoken_sizing.workload import SlaMode, Sparsity

KIND: Final = "InferenceDeployment"
SERVICE_NAME_PATTERN = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
MAX_REPLICAS = 100_000

# NB: at least one tick (15 s); a window of 0 would switch a safeguard off.
Window = Annotated[Int, Field(ge=15, le=86_400)]


class Precision(StrEnum):
    """Number format of the weights."""

    FP16 = "FP16"
    BF16 = "BF16"
    FP8 = "FP8"
    INT8 = "INT8"
    INT4 = "INT4"
    NVFP4 = "NVFP4"
    MXFP4 = "MXFP4"


class Model(ApiModel):
    """Which model, in which format."""

    RULES = (
        Rule(
            cel="self.name == oldSelf.name",
            problem="model.name is immutable",
            fix="create a new InferenceDeployment for another model",
            holds=None,
            field="name",
        ),
        Rule(
            cel=(
                "!has(self.allowedPrecisions) || "
                "self.allowedPrecisions.all(p, self.allowedPrecisions.exists_one(q, q == p))"
            ),
            problem="allowedPrecisions lists a precision twice",
            fix="remove the duplicate",
            holds=lambda m: len(set(m.allowed_precisions)) == len(m.allowed_precisions),
            field="allowedPrecisions",
        ),
        Rule(
            cel=(
                "!has(self.precision) || !has(self.allowedPrecisions) || self.allowedPrecisions.size() == 0 || "
                "self.precision in self.allowedPrecisions"
            ),
            problem="precision is not in allowedPrecisions",
            fix="add it there, or set only one of the two fields",
            holds=lambda m: m.precision is None or not m.allowed_precisions or m.precision in m.allowed_precisions,
            field="precision",
        ),
    )

    name: Annotated[
        ModelName,
        described("Catalog key such as meta-llama/Meta-Llama-3-8B-Instruct; its aliases resolve. Immutable."),
    ]
    precision: Annotated[
        Precision | None,
        described(
            "Number format of the weights.",
            absent="chosen among the published formats, never below 8 bits unless allowedPrecisions lists it",
        ),
    ] = None
    allowed_precisions: Annotated[
        tuple[Precision, ...],
        Field(max_length=len(Precision)),
        described(
            "Formats to choose from. Below 8 bits a model answers differently: such a format is chosen only if it is "
            "listed here.",
            absent="every published format of 8 bits or more",
        ),
    ] = ()
    sparsity: Annotated[
        Sparsity | None,
        described(
            "TwoOfFour: a checkpoint that keeps two of every four weights, on GPUs whose tensor cores skip the others.",
            absent="dense",
        ),
    ] = None
    architecture: Annotated[
        Architecture | None,
        described(
            "The numbers of the model's config.json under their own names (hidden_size, num_hidden_layers...), for a "
            "model outside the catalog.",
            absent="the catalog has them",
        ),
    ] = None


class HardwareSpec(ApiModel):
    """Which GPUs, and how many to a replica."""

    RULES = (
        Rule(
            cel="self.gpus.all(g, self.gpus.exists_one(h, h == g))",
            problem="gpus lists a GPU twice",
            fix="remove the duplicate",
            holds=lambda h: len(set(h.gpus)) == len(h.gpus),
            field="gpus",
        ),
    )

    gpus: Annotated[
        tuple[GpuName, ...],
        Field(min_length=1, max_length=8),
        described("Catalog keys such as H100-SXM-80GB. Of several the cheapest feasible one wins, ties in this order."),
    ]
    tensor_parallel: Annotated[
        Int | None,
        Field(ge=1, le=64),
        described("GPUs that share every layer of one replica.", unit="GPUs", absent="chosen by the sizing"),
    ] = None
    pipeline_parallel: Annotated[
        Int | None,
        Field(ge=1, le=64),
        described("Stages of layers that one replica is cut into.", unit="stages", absent="chosen by the sizing"),
    ] = None


class Scaling(ApiModel):
    """How far and how fast replicas may change."""

    RULES = (
        Rule(
            cel="!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            problem="minReplicas is above maxReplicas",
            fix="lower minReplicas or raise maxReplicas",
            holds=lambda s: s.max_replicas is None or s.min_replicas <= s.max_replicas,
            field="minReplicas",
        ),
    )

    mode: Annotated[
        ScalingMode,
        described("Active: scales. Advisory: computes and reports, scales nothing. Paused: does neither."),
    ] = ScalingMode.ACTIVE
    min_replicas: Annotated[
        Int,
        Field(ge=0, le=MAX_REPLICAS),
        described(
            "Never fewer. 0: scales to zero when no request has come for scaling.scaleDownStabilizationSeconds and a "
            "signal can wake it up (a gateway counter named by the administrator, or a window of traffic.schedule).",
            unit="replicas",
        ),
    ] = 1
    max_replicas: Annotated[
        Int | None,
        Field(ge=1, le=MAX_REPLICAS),
        described("Never more.", unit="replicas", absent="burst headroom and pool are the only bounds"),
    ] = None
    burst_headroom_percent: Annotated[
        Int,
        Field(ge=0, le=1000),
        described(
            "How far above the replicas sized for the declared peak live traffic may push.", unit="percent of replicas"
        ),
    ] = 25
    scale_down: Annotated[
        ScaleDown | None,
        described("When GPUs are given back.", absent="Always in the cloud and without a pool, WhenPoolShort on-prem"),
    ] = None
    scale_down_stabilization_seconds: Annotated[
        Window,
        described(
            "How long every signal has to allow fewer replicas before one is removed; at least as long as a "
            "start takes, up to 30 minutes.",
            unit="seconds",
        ),
    ] = 300
    scale_down_step_percent: Annotated[
        Int,
        Field(ge=1, le=100),
        described("Largest share of the replicas removed at once; at least one replica.", unit="percent of replicas"),
    ] = 25
    backlog_drain_seconds: Annotated[
        Window, described("How fast a queue that has formed is to be worked off.", unit="seconds")
    ] = 60
    metrics_loss_grace_seconds: Annotated[
        Window,
        described(
            "How long metrics may be missing before replicas are raised to those for the declared peak; they are "
            "never lowered.",
            unit="seconds",
        ),
    ] = 900


class Capacity(ApiModel):
    """Whose GPUs, and with which claim on them."""

    pool: Annotated[LongName | None, described("Name of the GPUPool.", absent="no budget, treated as cloud")] = None
    priority: Annotated[
        Int,
        Field(ge=-1_000_000, le=1_000_000),
        described("Who is served first when the pool is short; higher wins.", unit="rank"),
    ] = 0


class TargetRef(ApiModel):
    """An existing workload that firsttoken scales and otherwise leaves alone."""

    RULES = (
        Rule(
            cel="self.apiVersion == 'apps/v1' && self.kind == 'Deployment'",
            problem="this version scales Deployments of apps/v1 only",
            fix="point targetRef at a Deployment (apiVersion: apps/v1, kind: Deployment)",
            holds=lambda t: t.api_version == "apps/v1" and t.kind == "Deployment",
            field="kind",
        ),
        Rule(
            cel="self == oldSelf",
            problem="targetRef is immutable",
            fix="create a new InferenceDeployment for another target",
            holds=None,
        ),
    )

    api_version: Annotated[
        str,
        Field(max_length=317, pattern=r"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?v[a-z0-9]+$"),
        described("API version of the target."),
    ] = "apps/v1"
    kind: Annotated[str, Field(max_length=63, pattern=r"^[A-Z][A-Za-z0-9]*$"), described("Kind of the target.")] = (
        "Deployment"
    )
    name: Annotated[LongName, described("Name of the target in the same namespace.")]


class MetricsSpec(ApiModel):
    """Where live metrics come from."""

    source: Annotated[
        Name,
        described("Name of a Prometheus that the cluster admin configured in the chart; never a URL or a query."),
    ] = "default"


class InferenceDeploymentSpec(ApiModel):
    """What a team declares."""

    RULES = (
        Rule(
            cel="has(self.runtime) != has(self.targetRef)",
            problem="exactly one of runtime and targetRef is needed",
            fix="set runtime to have firsttoken run the engine, or targetRef to scale a Deployment that exists",
            holds=lambda spec: (spec.runtime is None) != (spec.target_ref is None),
            field="targetRef",
        ),
        Rule(
            cel="has(self.runtime) == has(oldSelf.runtime)",
            problem="runtime and targetRef cannot be exchanged for each other",
            fix="create a new InferenceDeployment",
            holds=None,
        ),
        Rule(
            cel="!has(self.traffic.offline) || self.sla.mode == 'Offline'",
            problem="traffic.offline is a job that no caller waits for, and sla.mode is not Offline",
            fix="set sla.mode: Offline, or declare a peak instead of traffic.offline",
            holds=lambda spec: spec.traffic.offline is None or spec.sla.mode is SlaMode.OFFLINE,
            field="traffic.offline",
        ),
    )

    model: Annotated[Model, described("The model that is served.")]
    traffic: Annotated[Traffic, described("What the callers send.")]
    sla: Annotated[ServiceLevel, described("The latency that is promised.")]
    hardware: Annotated[HardwareSpec, described("The GPUs that may be used.")]
    sizing: Annotated[SizingSpec, described("How the sizing reads its measurements.")] = SizingSpec()
    scaling: Annotated[Scaling, described("How far and how fast replicas may change.")] = Scaling()
    capacity: Annotated[Capacity, described("Whose GPUs, and with which claim on them.")] = Capacity()
    runtime: Annotated[
        Runtime | None, described("The engine that firsttoken runs.", absent="targetRef names what is scaled")
    ] = None
    target_ref: Annotated[
        TargetRef | None,
        described("A Deployment that exists and is scaled.", absent="runtime says what is rendered"),
    ] = None
    metrics: Annotated[MetricsSpec, described("Where live metrics come from.")] = MetricsSpec()


class InferenceDeployment(ApiModel):
    """A model with traffic and an SLA; firsttoken keeps the fewest GPUs that meet it."""

    RULES = (
        Rule(
            cel=f"self.metadata.name.matches('{SERVICE_NAME_PATTERN}')",
            problem="metadata.name becomes the name of a Service and the value of a label",
            fix="use at most 63 lower-case letters, digits and dashes, beginning with a letter",
            holds=lambda infd: re.match(SERVICE_NAME_PATTERN, infd.metadata.name) is not None,
            field="metadata.name",
        ),
    )

    api_version: Literal["firsttoken.dev/v1alpha1"] = API_VERSION
    kind: Literal["InferenceDeployment"] = KIND
    metadata: Metadata
    spec: Annotated[InferenceDeploymentSpec, described("What the team declares.")]
    status: Annotated[InferenceDeploymentStatus, described("What the operator observed and decided.")] = (
        InferenceDeploymentStatus()
    )

    @property
    def key(self) -> str:
        """`namespace/name`, as logs and memory name it."""
        return f"{self.metadata.namespace}/{self.metadata.name}"
