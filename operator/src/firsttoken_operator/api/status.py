"""What the operator writes back: the answers that a platform engineer looks for on the object itself.

Every field is optional: unknown is absent, never 0. Nothing here is read back as truth, except the pinned configuration
and the restart-safe facts, which may only make the operator more careful. Rates and shares are decimal strings
(`quantities.decimal_string`), latencies whole milliseconds.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from firsttoken_operator.api.base import ApiModel, Int, described
from firsttoken_operator.api.conditions import Conditions
from firsttoken_operator.api.quantities import (
    MAX_INTEGER,
    GpuName,
    LongName,
    Message,
    Rate,
    ShortText,
    Timestamp,
)
from firsttoken_operator.api.scorecard import ScorecardStatus
from firsttoken_sizing.request import Basis
from firsttoken_sizing.workload import Percentile

Count = Annotated[Int, Field(ge=0, le=MAX_INTEGER)]
ReasonWord = Annotated[str, Field(max_length=64, pattern=r"^[A-Z][A-Za-z0-9]*$")]


class Configuration(ApiModel):
    """What one replica is."""

    gpu: Annotated[GpuName, described("Canonical GPU name.")]
    precision: Annotated[ShortText, described("Number format of the weights.")]
    tensor_parallel: Annotated[Count, described("GPUs that share every layer.", unit="GPUs")] = 1
    pipeline_parallel: Annotated[Count, described("Stages of layers.", unit="stages")] = 1


class SizingStatus(ApiModel):
    """What the sizing model says about the declared traffic."""

    configuration: Annotated[
        Configuration | None,
        described("What a replica is; fixed at the first deployment.", absent="nothing was sized yet"),
    ] = None
    recommended: Annotated[
        Configuration | None,
        described(
            "What would be chosen today and takes fewer GPUs (or costs less) than what is fixed; taken when the user "
            "sets it.",
            absent="there is none",
        ),
    ] = None
    replicas_for_declared_peak: Annotated[
        Count | None, described("Fewest replicas for the declared peak.", unit="replicas")
    ] = None
    replicas_for_declared_average: Annotated[
        Count | None,
        described("Fewest replicas for the declared average.", unit="replicas", absent="no average is declared"),
    ] = None
    gpus_per_replica: Annotated[Count | None, described("GPUs of one replica.", unit="GPUs")] = None
    gpus: Annotated[Count | None, described("GPUs at the declared peak.", unit="GPUs")] = None
    servers: Annotated[Count | None, described("Servers at the declared peak.", unit="servers")] = None
    requests_per_second_per_replica: Annotated[
        Rate | None, described("Largest rate of one replica inside the SLA.", unit="requests per second")
    ] = None
    utilization_cap_percent: Annotated[
        Count | None,
        described("That rate as a share of the largest stable one.", unit="percent"),
    ] = None
    binding_constraint: Annotated[ShortText | None, described("The limit that decides the size.")] = None
    basis: Annotated[Basis | None, described("How far the answer stands on measurements.")] = None
    error_band_percent: Annotated[
        Count | None, described("How far the real capacity may lie from the answer.", unit="percent")
    ] = None


class TrafficFigures(ApiModel):
    """One view of the traffic."""

    requests_per_second: Annotated[Rate | None, described("Request rate.", unit="requests per second")] = None
    average_requests_per_second: Annotated[
        Rate | None, described("Average request rate.", unit="requests per second")
    ] = None
    peak_requests_per_second: Annotated[Rate | None, described("Peak request rate.", unit="requests per second")] = None
    input_tokens: Annotated[Count | None, described("Mean input length.", unit="tokens")] = None
    output_tokens: Annotated[Count | None, described("Mean output length.", unit="tokens")] = None


class TrafficForecast(ApiModel):
    """What is expected to arrive before a new pod would be ready."""

    requests_per_second: Annotated[
        Rate, described("Largest rate expected, rounded to two digits.", unit="requests per second")
    ]
    method: Annotated[
        ReasonWord | None, described("How it was made: Persistence, Trend, Season or SeasonTrend.", absent="not told")
    ] = None


class TrafficStatus(ApiModel):
    """Declared, live and expected traffic side by side."""

    declared: Annotated[TrafficFigures | None, described("What spec.traffic declares, resolved.")] = None
    live: Annotated[
        TrafficFigures | None,
        described(
            "What arrives now, rounded to two digits; lengths where they are measured.",
            absent="unknown (see condition MetricsHealthy)",
        ),
    ] = None
    forecast: Annotated[
        TrafficForecast | None,
        described("What is expected to arrive before a new pod would be ready.", absent="there is no forecast"),
    ] = None
    drift: Annotated[
        Message | None,
        described(
            "Live traffic in percent of the declared one: rate against peak and average, mean lengths.",
            absent="nothing that is declared is measured",
        ),
    ] = None


class PredictedLatency(ApiModel):
    """One predicted latency at the statistic that its limit is about."""

    milliseconds: Annotated[Count, described("Predicted latency.", unit="milliseconds")]
    percentile: Annotated[Percentile, described("Its statistic.")]


class PredictionAt(ApiModel):
    """What the sizing model predicts at one number of replicas under the live load."""

    replicas: Annotated[Count, described("Number of replicas.", unit="replicas")]
    time_to_first_token: Annotated[PredictedLatency | None, described("Time to first token.")] = None
    inter_token_latency: Annotated[PredictedLatency | None, described("Inter-token latency.")] = None
    end_to_end: Annotated[PredictedLatency | None, described("Time to the last token.")] = None
    kv_cache_percent: Annotated[Count | None, described("Use of the KV cache.", unit="percent")] = None
    saturated: Annotated[
        bool | None, described("Requests arrive faster than they can be served: the latencies are lower bounds.")
    ] = None


class PredictionStatus(ApiModel):
    """Predictions around the decided size."""

    n_minus_1: Annotated[PredictionAt | None, described("At one replica fewer.")] = None
    n: Annotated[PredictionAt | None, described("At the decided number of replicas.")] = None
    n_plus_1: Annotated[PredictionAt | None, described("At one replica more.")] = None


class CapacityStatus(ApiModel):
    """What the pool gave and withheld."""

    pool: Annotated[LongName | None, described("Name of the GPUPool.")] = None
    charged_gpus: Annotated[Count | None, described("GPUs of ready, starting and terminating pods.", unit="GPUs")] = (
        None
    )
    unmet_replicas: Annotated[Count | None, described("Replicas that a cap withheld.", unit="replicas")] = None
    unmet_gpus: Annotated[Count | None, described("GPUs of those replicas.", unit="GPUs")] = None


class TimingStatus(ApiModel):
    """How long replicas take to become ready, and when they last changed."""

    time_to_ready_p50_seconds: Annotated[
        Count | None, described("Median time from scheduled to Ready.", unit="seconds")
    ] = None
    time_to_ready_p90_seconds: Annotated[
        Count | None, described("90th percentile of the time from scheduled to Ready.", unit="seconds")
    ] = None
    last_scale_time: Annotated[
        Timestamp | None, described("When replicas were last changed.", unit="RFC 3339 time")
    ] = None


class CalibrationStatus(ApiModel):
    """Calibration of the sizing model by live traffic."""

    state: Annotated[ReasonWord | None, described("AsSized, Learned or Pegged.")] = None
    service_factor_percent: Annotated[
        Count | None, described("Real capacity as a share of the sized one.", unit="percent")
    ] = None
    speed_percent: Annotated[
        Count | None,
        described("The part of it that is the speed of a replica against the modeled one.", unit="percent"),
    ] = None
    late_budget_spent_percent: Annotated[
        Count | None,
        described(
            "Late first tokens of about the last day against those aimed at; above 100 fewer replicas are given back "
            "and more are kept free.",
            unit="percent",
            absent="there is no limit on the time to first token",
        ),
    ] = None
    samples: Annotated[
        Count | None,
        described("Measurements that the share stands on.", unit="measurements", absent="none was usable yet"),
    ] = None


class DecisionRecord(ApiModel):
    """One change of replicas, with what explains it."""

    time: Annotated[Timestamp, described("When it was decided.", unit="RFC 3339 time")]
    # `from` is a Python keyword, and the pair reads best with the same suffix.
    from_replicas: Annotated[Count, Field(alias="from"), described("Replicas before.", unit="replicas")]
    to_replicas: Annotated[Count, Field(alias="to"), described("Replicas after.", unit="replicas")]
    reason: Annotated[ReasonWord, described("Why.")]
    limited_by: Annotated[ReasonWord | None, described("What kept it from going further.", absent="nothing did")] = None
    message: Annotated[
        Message, described("The same in one sentence: arrival rate, predicted latency at N-1 and N, limit.")
    ] = ""


class InferenceDeploymentStatus(ApiModel):
    """What the operator observed and decided."""

    observed_generation: Annotated[
        Count | None, described("The metadata.generation that this status answers.", unit="generation")
    ] = None
    replicas: Annotated[Count | None, described("Replicas that the target asks for.", unit="replicas")] = None
    ready_replicas: Annotated[Count | None, described("Replicas that serve.", unit="replicas")] = None
    desired_replicas: Annotated[Count | None, described("Replicas that firsttoken wants.", unit="replicas")] = None
    replica_limit: Annotated[Count | None, described("The upper bound in force.", unit="replicas")] = None
    last_decision_reason: Annotated[
        ReasonWord | None,
        described("Reason of the last decision, also where it changed nothing.", absent="nothing was decided yet"),
    ] = None
    sizing: Annotated[SizingStatus | None, described("What the sizing model says.")] = None
    traffic: Annotated[TrafficStatus | None, described("Declared and live traffic.")] = None
    prediction: Annotated[PredictionStatus | None, described("Predictions around the decided size.")] = None
    capacity: Annotated[CapacityStatus | None, described("What the pool gave and withheld.")] = None
    timing: Annotated[TimingStatus | None, described("How long replicas take to become ready.")] = None
    calibration: Annotated[CalibrationStatus | None, described("Calibration of the sizing model by live traffic.")] = (
        None
    )
    scorecard: Annotated[
        ScorecardStatus | None,
        described(
            "Attainment and GPU-hours of the last seven days, written once an hour.", absent="nothing was counted yet"
        ),
    ] = None
    decisions: Annotated[
        tuple[DecisionRecord, ...],
        Field(max_length=10),
        described("The last ten changes of replicas, newest first.", absent="nothing was changed yet"),
    ] = ()
    conditions: Conditions = ()


class PoolShare(ApiModel):
    """One deployment's part of a pool."""

    namespace: Annotated[LongName, described("Namespace of the InferenceDeployment.")]
    name: Annotated[LongName, described("Name of the InferenceDeployment.")]
    charged_gpus: Annotated[Count | None, described("GPUs that its pods hold.", unit="GPUs")] = None
    unmet_gpus: Annotated[Count | None, described("GPUs that it asked for in vain.", unit="GPUs")] = None


class GPUPoolStatus(ApiModel):
    """Who holds the GPUs of a pool."""

    observed_generation: Annotated[
        Count | None, described("The metadata.generation that this status answers.", unit="generation")
    ] = None
    inventory_gpus: Annotated[
        Count | None,
        described("GPUs of matching nodes.", unit="GPUs", absent="unknown, which freezes growth"),
    ] = None
    charged_gpus: Annotated[
        Count | None, described("GPUs of ready, starting, terminating and surge pods.", unit="GPUs")
    ] = None
    free_gpus: Annotated[Count | None, described("GPUs of the budget that no deployment holds.", unit="GPUs")] = None
    unmet_gpus: Annotated[Count | None, described("GPUs that were asked for in vain.", unit="GPUs")] = None
    deployments: Annotated[
        tuple[PoolShare, ...],
        Field(
            max_length=1000,
            json_schema_extra={
                "x-kubernetes-list-type": "map",
                "x-kubernetes-list-map-keys": ["namespace", "name"],
            },
        ),
        described("Who holds how many."),
    ] = ()
    conditions: Conditions = ()
