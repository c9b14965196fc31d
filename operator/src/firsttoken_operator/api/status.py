"""Status that the operator writes: the answers that a platform engineer looks for on the object itself.

Every field is optional: unknown is absent, never 0. Nothing here is read back as truth, except the pinned configuration
and the restart-safe facts, which may only make the operator more careful. Rates and shares are decimal strings
(`quantities.decimal_string`), latencies whole milliseconds.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from firsttoken_operator.api.base import ApiModel, Int, described, optional
from firsttoken_operator.api.conditions import Conditions
from firsttoken_operator.api.quantities import (
    MAX_INTEGER,
    GpuName,
    LongName,
    Message,
    Rate,
    ReasonWord,
    ShortText,
    Timestamp,
)
from firsttoken_operator.api.scorecard import ScorecardStatus
from firsttoken_sizing.request import Basis
from firsttoken_sizing.workload import Percentile

Count = Annotated[Int, Field(ge=0, le=MAX_INTEGER)]


class Configuration(ApiModel):
    """Configuration of one replica."""

    gpu: GpuName = described("Canonical GPU name.")
    precision: ShortText = described("Number format of the weights.")
    tensor_parallel: Count = described("GPUs that share every layer.", default=1, unit="GPUs")
    pipeline_parallel: Count = described("Stages of layers.", default=1, unit="stages")
    attention_data_parallel: Count = described(
        "Groups of GPUs that each do the attention of their own requests.", default=1, unit="groups"
    )


class SizingStatus(ApiModel):
    """Answer of the sizing model for the declared traffic."""

    configuration: Configuration | None = optional(
        "What a replica is; fixed at the first deployment.", absent="nothing was sized yet"
    )
    recommended: Configuration | None = optional(
        "What would be chosen today and takes fewer GPUs (or costs less) than what is fixed; taken when the user "
        "sets it.",
        absent="there is none",
    )
    replicas_for_declared_peak: Count | None = optional("Fewest replicas for the declared peak.", unit="replicas")
    replicas_low: Count | None = optional(
        "Replicas for the declared peak if one carries the most that its error band says.", unit="replicas"
    )
    replicas_high: Count | None = optional(
        "Replicas for the declared peak if one carries the least that its error band says.", unit="replicas"
    )
    replicas_for_declared_average: Count | None = optional(
        "Fewest replicas for the declared average.", unit="replicas", absent="no average is declared"
    )
    gpus_per_replica: Count | None = optional("GPUs of one replica.", unit="GPUs")
    gpus: Count | None = optional("GPUs at the declared peak.", unit="GPUs")
    servers: Count | None = optional("Servers at the declared peak.", unit="servers")
    requests_per_second_per_replica: Rate | None = optional(
        "Largest rate of one replica inside the SLA.", unit="requests per second"
    )
    utilization_cap_percent: Count | None = optional("That rate as a share of the largest stable one.", unit="percent")
    binding_constraint: ShortText | None = optional("The limit that decides the size.")
    basis: Basis | None = optional("How far the answer stands on measurements.")
    error_band_percent: Count | None = optional("How far the real capacity may lie from the answer.", unit="percent")


class TrafficFigures(ApiModel):
    """One view of the traffic."""

    requests_per_second: Rate | None = optional("Request rate.", unit="requests per second")
    average_requests_per_second: Rate | None = optional("Average request rate.", unit="requests per second")
    peak_requests_per_second: Rate | None = optional("Peak request rate.", unit="requests per second")
    input_tokens: Count | None = optional("Mean input length.", unit="tokens")
    output_tokens: Count | None = optional("Mean output length.", unit="tokens")


class TrafficForecast(ApiModel):
    """Traffic expected to arrive before a new pod would be ready."""

    requests_per_second: Rate = described("Largest rate expected, rounded to two digits.", unit="requests per second")
    method: ReasonWord | None = optional(
        "How it was made: Persistence, Trend, Season or SeasonTrend.", absent="not told"
    )


class TrafficStatus(ApiModel):
    """Declared, live and expected traffic side by side."""

    declared: TrafficFigures | None = optional("What spec.traffic declares, resolved.")
    live: TrafficFigures | None = optional(
        "What arrives now, rounded to two digits; lengths where they are measured.",
        absent="unknown (see condition MetricsHealthy)",
    )
    forecast: TrafficForecast | None = optional(
        "What is expected to arrive before a new pod would be ready.", absent="there is no forecast"
    )
    drift: Message | None = optional(
        "Live traffic in percent of the declared one: rate against peak and average, mean lengths.",
        absent="nothing that is declared is measured",
    )


class MetricsProblem(ApiModel):
    """Something that the metrics do not tell, and the change that mends it."""

    reason: ReasonWord = described("Why, in one word of the runbook.")
    message: Message = described("What is not told, and the change of the server or its scraping that mends it.")


class MetricsStatus(ApiModel):
    """Metrics that the pods publish."""

    family: ShortText | None = optional(
        "Kind of metrics that the pods publish, looked for at every tick; with the numbers of pods where they differ.",
        absent="no pod has published any yet",
    )
    problems: tuple[MetricsProblem, ...] = described(
        "What cannot be told by them.", default=(), absent="nothing is missing", max_length=10
    )


class PredictedLatency(ApiModel):
    """One predicted latency at the statistic that its limit is about."""

    milliseconds: Count = described("Predicted latency.", unit="milliseconds")
    percentile: Percentile = described("Its statistic.")


class PredictionAt(ApiModel):
    """Prediction of the sizing model for one number of replicas under the live load."""

    replicas: Count = described("Number of replicas.", unit="replicas")
    time_to_first_token: PredictedLatency | None = optional("Time to first token.")
    inter_token_latency: PredictedLatency | None = optional("Inter-token latency.")
    end_to_end: PredictedLatency | None = optional("Time to the last token.")
    kv_cache_percent: Count | None = optional("Use of the KV cache.", unit="percent")
    saturated: bool | None = optional("Requests arrive faster than they can be served: the latencies are lower bounds.")


class PredictionStatus(ApiModel):
    """Predictions around the decided size."""

    n_minus_1: PredictionAt | None = optional("At one replica fewer.")
    n: PredictionAt | None = optional("At the decided number of replicas.")
    n_plus_1: PredictionAt | None = optional("At one replica more.")


class CapacityStatus(ApiModel):
    """GPUs that the pool gave and withheld."""

    pool: LongName | None = optional("Name of the GPUPool.")
    by_default: bool | None = optional(
        "It names no pool, and this is the default one of its tenant.", absent="it names its pool, or is in none"
    )
    charged_gpus: Count | None = optional("GPUs of ready, starting and terminating pods.", unit="GPUs")
    unmet_replicas: Count | None = optional("Replicas that a cap withheld.", unit="replicas")
    unmet_gpus: Count | None = optional("GPUs of those replicas.", unit="GPUs")


class TimingStatus(ApiModel):
    """Times of replicas: how long they take to become ready, and when they last changed."""

    time_to_ready_p50_seconds: Count | None = optional("Median time from scheduled to Ready.", unit="seconds")
    time_to_ready_p90_seconds: Count | None = optional(
        "90th percentile of the time from scheduled to Ready.", unit="seconds"
    )
    next_start_seconds: Count | None = optional(
        "Time that the next pod is expected to take: what decisions count with. It has no pull of the image where that "
        "is on every node.",
        unit="seconds",
        absent="no pod was seen to start",
    )
    last_scale_time: Timestamp | None = optional("When replicas were last changed.", unit="RFC 3339 time")
    metrics_lost_time: Timestamp | None = optional(
        "Since when no metrics could be used; it ends when they are whole again.",
        unit="RFC 3339 time",
        absent="metrics are not lost",
    )


class CalibrationStatus(ApiModel):
    """Calibration of the sizing model by live traffic."""

    state: ReasonWord | None = optional("AsSized, Learned or Pegged.")
    service_factor_percent: Count | None = optional("Real capacity as a share of the sized one.", unit="percent")
    speed_percent: Count | None = optional(
        "The part of it that is the speed of a replica against the modeled one.", unit="percent"
    )
    late_budget_spent_percent: Count | None = optional(
        "Late first tokens of about the last day against those aimed at; above 100 fewer replicas are given back "
        "and more are kept free.",
        unit="percent",
        absent="there is no limit on the time to first token",
    )
    samples: Count | None = optional(
        "Measurements that the share stands on.", unit="measurements", absent="none was usable yet"
    )


class DecisionRecord(ApiModel):
    """One change of replicas, with what explains it."""

    time: Timestamp = described("When it was decided.", unit="RFC 3339 time")
    # `from` is a Python keyword, and the pair reads best with the same suffix.
    from_replicas: Annotated[Count, Field(alias="from")] = described("Replicas before.", unit="replicas")
    to_replicas: Annotated[Count, Field(alias="to")] = described("Replicas after.", unit="replicas")
    reason: ReasonWord = described("Why.")
    limited_by: ReasonWord | None = optional("What kept it from going further.", absent="nothing did")
    message: Message = described(
        "The same in one sentence: arrival rate, predicted latency at N-1 and N, limit.", default=""
    )


class InferenceDeploymentStatus(ApiModel):
    """Observations and decisions of the operator."""

    observed_generation: Count | None = optional("The metadata.generation that this status answers.", unit="generation")
    replicas: Count | None = optional("Replicas that the target asks for.", unit="replicas")
    ready_replicas: Count | None = optional("Replicas that serve.", unit="replicas")
    desired_replicas: Count | None = optional("Replicas that firsttoken wants.", unit="replicas")
    replica_limit: Count | None = optional("The upper bound in force.", unit="replicas")
    last_decision_reason: ReasonWord | None = optional(
        "Reason of the last decision, also where it changed nothing.", absent="nothing was decided yet"
    )
    sizing: SizingStatus | None = optional("What the sizing model says.")
    traffic: TrafficStatus | None = optional("Declared and live traffic.")
    metrics: MetricsStatus | None = optional("What the pods publish.")
    prediction: PredictionStatus | None = optional("Predictions around the decided size.")
    capacity: CapacityStatus | None = optional("What the pool gave and withheld.")
    timing: TimingStatus | None = optional("How long replicas take to become ready.")
    calibration: CalibrationStatus | None = optional("Calibration of the sizing model by live traffic.")
    scorecard: ScorecardStatus | None = optional(
        "Attainment and GPU-hours of the last seven days, written once an hour.", absent="nothing was counted yet"
    )
    decisions: tuple[DecisionRecord, ...] = described(
        "The last ten changes of replicas, newest first.", default=(), absent="nothing was changed yet", max_length=10
    )
    conditions: Conditions = ()


class PoolShare(ApiModel):
    """One deployment's part of a pool."""

    namespace: LongName = described("Namespace of the InferenceDeployment.")
    name: LongName = described("Name of the InferenceDeployment.")
    charged_gpus: Count | None = optional("GPUs that its pods hold.", unit="GPUs")
    unmet_gpus: Count | None = optional("GPUs that it asked for in vain.", unit="GPUs")


class TenantShare(ApiModel):
    """One tenant's part of a pool."""

    name: LongName = described("Name of the tenant.")
    charged_gpus: Count | None = optional("GPUs that pods of its namespaces hold.", unit="GPUs")
    quota_gpus: Count | None = optional("Most that they may hold.", unit="GPUs", absent="the whole pool")
    unmet_gpus: Count | None = optional("GPUs that its deployments asked for in vain.", unit="GPUs")


class PoolShortage(ApiModel):
    """A time for which the declared peaks need more GPUs than the pool has."""

    start: Timestamp = described("When it begins.", unit="RFC 3339 time")
    end: Timestamp = described("When it ends, at the latest seven days from now.", unit="RFC 3339 time")
    need_gpus: Count = described("Most GPUs that are needed then.", unit="GPUs")
    short_gpus: Count = described("GPUs of those that the pool lacks.", unit="GPUs")


class ExcludedNodes(ApiModel):
    """Nodes of a pool whose GPUs no pod of it could get."""

    cause: ReasonWord = described(
        "NotReported, Unlabelled, OtherGPU, Partitioned, Shared, NotReady, Cordoned, Tainted, or OtherPool."
    )
    nodes: Count = described("Nodes.", unit="nodes")
    gpus: Count = described("GPUs that they report.", unit="GPUs")


class ProvisioningStatus(ApiModel):
    """Times that nodes took to come for pods that waited for them, from a pod being made to its having its node."""

    p50_seconds: Count | None = optional("Median.", unit="seconds")
    p90_seconds: Count | None = optional("90th percentile.", unit="seconds")
    pods: Count | None = optional("Pods that this was learned from.", unit="pods")


class GPUPoolStatus(ApiModel):
    """Holders of the GPUs of a pool."""

    observed_generation: Count | None = optional("The metadata.generation that this status answers.", unit="generation")
    inventory_gpus: Count | None = optional(
        "GPUs of matching nodes.", unit="GPUs", absent="unknown, which freezes growth"
    )
    charged_gpus: Count | None = optional("GPUs of ready, starting, terminating and surge pods.", unit="GPUs")
    free_gpus: Count | None = optional("GPUs of the budget that no deployment holds.", unit="GPUs")
    unmet_gpus: Count | None = optional("GPUs that were asked for in vain.", unit="GPUs")
    deployments: tuple[PoolShare, ...] = described(
        "Who holds how many.",
        default=(),
        max_length=1000,
        map_keys=["namespace", "name"],
    )
    tenants: tuple[TenantShare, ...] = described(
        "Tenants and what they hold.", absent="the pool declares none", default=(), max_length=64, map_keys=["name"]
    )
    excluded_nodes: tuple[ExcludedNodes, ...] = described(
        "Nodes that are not in inventoryGPUs, by cause.", default=(), max_length=16, map_keys=["cause"]
    )
    warm_gpus: Count | None = optional("GPUs that are kept ready now.", unit="GPUs", absent="spec.warmGPUs is not set")
    provisioning: ProvisioningStatus | None = optional(
        "How long a node takes to come for a pod.", absent="no pod was seen to wait for one that came"
    )
    shortages: tuple[PoolShortage, ...] = described(
        "When the declared peaks and the windows of all deployments need more GPUs than there are, in the next seven "
        "days.",
        absent="never",
        default=(),
        max_length=64,
    )
    conditions: Conditions = ()
