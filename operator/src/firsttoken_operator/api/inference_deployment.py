"""The custom resource `InferenceDeployment`: a model, its traffic, its SLA, and how it may be scaled."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import Annotated, Final, Literal

from pydantic import Field

from firsttoken_operator.api import forms
from firsttoken_operator.api.architecture import Architecture
from firsttoken_operator.api.base import API_VERSION, ApiModel, Int, Metadata, Rule, described, optional
from firsttoken_operator.api.quantities import GpuName, LongName, ModelName, Name, ShortText
from firsttoken_operator.api.runtime import Runtime
from firsttoken_operator.api.sizing_spec import SizingSpec
from firsttoken_operator.api.sla import ServiceLevel
from firsttoken_operator.api.status import InferenceDeploymentStatus
from firsttoken_operator.api.traffic import Traffic
from firsttoken_operator.domain.snapshot import ScaleDown, ScalingMode
from firsttoken_sizing.workload import GpuOrder, SlaMode, Sparsity

KIND: Final = "InferenceDeployment"
SERVICE_NAME_PATTERN = r"^[a-z]([-a-z0-9]{0,61}[a-z0-9])?$"
MAX_REPLICAS = 100_000

# NB: at least one tick (15 s); a window of 0 would switch a safeguard off.
WindowSeconds = Annotated[Int, Field(ge=15, le=86_400)]


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
    """Model to serve, and its format."""

    RULES = (
        Rule(
            cel="self.name == oldSelf.name",
            problem="model.name is immutable",
            fix="create a new InferenceDeployment for another model",
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

    name: ModelName = described(
        "Catalog key such as meta-llama/Meta-Llama-3-8B-Instruct; its aliases resolve. Immutable."
    )
    precision: Precision | None = optional(
        "Number format of the weights.",
        absent="chosen among the published formats, never below 8 bits unless allowedPrecisions lists it",
    )
    allowed_precisions: tuple[Precision, ...] = described(
        "Formats to choose from. Below 8 bits a model answers differently: such a format is chosen only if it is "
        "listed here.",
        default=(),
        absent="every published format of 8 bits or more",
        max_length=len(Precision),
    )
    sparsity: Sparsity | None = optional(
        "TwoOfFour: a checkpoint that keeps two of every four weights, on GPUs whose tensor cores skip the others.",
        absent="dense",
    )
    architecture: Architecture | None = optional(
        "The numbers of the model's config.json under their own names (hidden_size, num_hidden_layers...), for a "
        "model outside the catalog; of a multimodal model those of its language part.",
        absent="the catalog has them",
    )


class HardwareSpec(ApiModel):
    """GPUs of a replica: which, and how many."""

    RULES = (
        Rule(
            cel="self.gpus.all(g, self.gpus.exists_one(h, h == g))",
            problem="gpus lists a GPU twice",
            fix="remove the duplicate",
            holds=lambda h: len(set(h.gpus)) == len(h.gpus),
            field="gpus",
        ),
    )

    gpus: tuple[GpuName, ...] = described(
        "Catalog keys such as H100-SXM-80GB. Of several the cheapest feasible one wins, ties in this order.",
        min_length=1,
        max_length=8,
    )
    gpu_order: GpuOrder = described(
        "Price: the cheapest feasible GPU type wins. Listed: the first of gpus that is feasible, whatever it costs.",
        default=GpuOrder.PRICE,
    )
    tensor_parallel: Int | None = optional(
        "GPUs that share every layer of one replica.", unit="GPUs", absent="chosen by the sizing", ge=1, le=64
    )
    pipeline_parallel: Int | None = optional(
        "Stages of layers that one replica is cut into.", unit="stages", absent="chosen by the sizing", ge=1, le=64
    )
    attention_data_parallel: Int | None = optional(
        "Groups of the GPUs of one replica, each of which does the attention of its own requests, while experts are"
        " spread over all of them; with TensorRT-LLM 1 or tensorParallel.",
        unit="groups",
        absent="1 with targetRef, tensorParallel or NIM 1.x, else chosen by the sizing",
        ge=1,
        le=64,
    )


class Scaling(ApiModel):
    """Bounds and speed of changes to the replicas."""

    RULES = (
        Rule(
            cel="!has(self.maxReplicas) || self.minReplicas <= self.maxReplicas",
            problem="minReplicas is above maxReplicas",
            fix="lower minReplicas or raise maxReplicas",
            holds=lambda s: s.max_replicas is None or s.min_replicas <= s.max_replicas,
            field="minReplicas",
        ),
    )

    mode: ScalingMode = described(
        "Active: scales. Advisory: computes and reports, scales nothing. Paused: does neither.",
        default=ScalingMode.ACTIVE,
    )
    min_replicas: Int = described(
        "Never fewer. 0: scales to zero when no request has come for scaling.scaleDownStabilizationSeconds and a "
        "signal can wake it up (a gateway counter named by the administrator, or a window of traffic.schedule).",
        default=1,
        unit="replicas",
        ge=0,
        le=MAX_REPLICAS,
    )
    max_replicas: Int | None = optional(
        "Never more.", unit="replicas", absent="burst headroom and pool are the only bounds", ge=1, le=MAX_REPLICAS
    )
    burst_headroom_percent: Int = described(
        "How far above the replicas sized for the declared peak live traffic may push.",
        default=25,
        unit="percent of replicas",
        ge=0,
        le=1000,
    )
    scale_down: ScaleDown | None = optional(
        "When GPUs are given back.", absent="Always in the cloud and without a pool, WhenPoolShort on-prem"
    )
    scale_down_stabilization_seconds: WindowSeconds = described(
        "How long every signal has to allow fewer replicas before one is removed; at least as long as a "
        "start takes, up to 30 minutes.",
        default=300,
        unit="seconds",
    )
    scale_down_step_percent: Int = described(
        "Largest share of the replicas removed at once; at least one replica.",
        default=25,
        unit="percent of replicas",
        ge=1,
        le=100,
    )
    backlog_drain_seconds: WindowSeconds = described(
        "How fast a queue that has formed is to be worked off.", default=60, unit="seconds"
    )
    metrics_loss_grace_seconds: WindowSeconds = described(
        "How long metrics may be missing before replicas are raised to those for the declared peak; they are "
        "never lowered.",
        default=900,
        unit="seconds",
    )


class Capacity(ApiModel):
    """Pool of the GPUs, and the claim on it."""

    pool: LongName | None = optional("Name of the GPUPool.", absent="no budget, treated as cloud")
    priority: Int = described(
        "Who is served first when the pool is short; higher wins.", default=0, unit="rank", ge=-1_000_000, le=1_000_000
    )


class TargetRef(ApiModel):
    """An existing workload that firsttoken scales and otherwise leaves alone.

    Deployments always; of other kinds the cluster's administrator says which (`scale.kinds` of the chart).
    """

    RULES = (
        Rule(
            cel="self == oldSelf",
            problem="targetRef is immutable",
            fix="create a new InferenceDeployment for another target",
        ),
    )

    api_version: str = described(
        "API version of the target.",
        default="apps/v1",
        max_length=317,
        pattern=forms.API_VERSION,
    )
    kind: str = described("Kind of the target.", default="Deployment", max_length=63, pattern=forms.CAMEL_CASE_WORD)
    name: LongName = described("Name of the target in the same namespace.")


class MetricsSpec(ApiModel):
    """Source of live metrics."""

    source: Name = described(
        "Name of a Prometheus that the cluster admin configured in the chart; never a URL or a query.",
        default="default",
    )
    model_name: ShortText | None = optional(
        "Model of a Triton server that clients call, as its series label it.",
        absent="the model with most requests is read; where several have some, nothing is given back",
    )


class InferenceDeploymentSpec(ApiModel):
    """Declaration of a team."""

    RULES = (
        Rule(
            cel="has(self.runtime) != has(self.targetRef)",
            problem="exactly one of runtime and targetRef is needed",
            fix="set runtime to have firsttoken run the engine, or targetRef to scale a workload that exists",
            holds=lambda spec: (spec.runtime is None) != (spec.target_ref is None),
            field="targetRef",
        ),
        Rule(
            cel="has(self.runtime) == has(oldSelf.runtime)",
            problem="runtime and targetRef cannot be exchanged for each other",
            fix="create a new InferenceDeployment",
        ),
        Rule(
            cel="!has(self.traffic.offline) || self.sla.mode == 'Offline'",
            problem="traffic.offline is a job that no caller waits for, and sla.mode is not Offline",
            fix="set sla.mode: Offline, or declare a peak instead of traffic.offline",
            holds=lambda spec: spec.traffic.offline is None or spec.sla.mode is SlaMode.OFFLINE,
            field="traffic.offline",
        ),
    )

    model: Model = described("The model that is served.")
    traffic: Traffic = described("What the callers send.")
    sla: ServiceLevel = described("The latency that is promised.")
    hardware: HardwareSpec = described("The GPUs that may be used.")
    sizing: SizingSpec = described("How the sizing reads its measurements.", default=SizingSpec())
    scaling: Scaling = described("How far and how fast replicas may change.", default=Scaling())
    capacity: Capacity = described("Whose GPUs, and with which claim on them.", default=Capacity())
    runtime: Runtime | None = optional("The engine that firsttoken runs.", absent="targetRef names what is scaled")
    target_ref: TargetRef | None = optional(
        "A workload that exists and is scaled.", absent="runtime says what is rendered"
    )
    metrics: MetricsSpec = described("Where live metrics come from.", default=MetricsSpec())


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
    spec: InferenceDeploymentSpec = described("What the team declares.")
    status: InferenceDeploymentStatus = described(
        "What the operator observed and decided.", default=InferenceDeploymentStatus()
    )

    @property
    def key(self) -> str:
        """`namespace/name`, as logs and memory name it."""
        return f"{self.metadata.namespace}/{self.metadata.name}"
