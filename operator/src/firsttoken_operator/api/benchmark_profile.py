"""The custom resource `BenchmarkProfile`: measured points of one configuration, whichever tool measured them."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Final, Literal

from pydantic import Field

from firsttoken_operator.api.base import API_VERSION, ApiModel, Int, Metadata, Number, Rule, described, optional
from firsttoken_operator.api.engine_settings import EngineSettingsSpec
from firsttoken_operator.api.inference_deployment import Precision
from firsttoken_operator.api.quantities import GpuName, ModelName, ShortText
from firsttoken_sizing.profile import Load

KIND: Final = "BenchmarkProfile"
MAX_POINTS = 200
MAX_VALUE = 1_000_000_000

_PERCENTILES = ("p50", "p90", "p95", "p99")

Measured = Annotated[Number, Field(ge=0, le=MAX_VALUE)]
MeasuredAboveZero = Annotated[Number, Field(gt=0, le=MAX_VALUE)]
LengthInTokens = Annotated[Number, Field(gt=0, le=10_000_000)]


def _rises(latency: LatencyMilliseconds) -> bool:
    known = [value for value in (latency.p50, latency.p90, latency.p95, latency.p99) if value is not None]
    return all(low <= high for low, high in pairwise(known))


_PAIRS = tuple((low, high) for i, low in enumerate(_PERCENTILES) for high in _PERCENTILES[i + 1 :])


class LatencyMilliseconds(ApiModel):
    """Statistics of one latency, as far as the benchmark reported them."""

    RULES = (
        Rule(
            cel=" && ".join(f"(!has(self.{a}) || !has(self.{b}) || self.{a} <= self.{b})" for a, b in _PAIRS),
            problem="a higher percentile is below a lower one",
            fix="write p50 <= p90 <= p95 <= p99 in milliseconds",
            holds=_rises,
        ),
    )

    mean: Measured | None = optional("Mean.", unit="milliseconds", absent="not reported")
    p50: Measured | None = optional("Median.", unit="milliseconds", absent="not reported")
    p90: Measured | None = optional("90th percentile.", unit="milliseconds", absent="not reported")
    p95: Measured | None = optional("95th percentile.", unit="milliseconds", absent="not reported")
    p99: Measured | None = optional("99th percentile.", unit="milliseconds", absent="not reported")


class MeasuredPoint(ApiModel):
    """One operating point of one replica."""

    concurrency: MeasuredAboveZero | None = optional(
        "Requests kept in flight (load ClosedLoop).", unit="requests", absent="load is Poisson"
    )
    offered_requests_per_second: MeasuredAboveZero | None = optional(
        "Rate at which requests were sent (load Poisson).",
        unit="requests per second",
        absent="the same as requestsPerSecond, or load is ClosedLoop",
    )
    requests_per_second: MeasuredAboveZero = described("Rate at which requests completed.", unit="requests per second")
    ttft_milliseconds: LatencyMilliseconds = described("Time to first token.", default=LatencyMilliseconds())
    itl_milliseconds: LatencyMilliseconds = described("Inter-token latency.", default=LatencyMilliseconds())
    end_to_end_milliseconds: LatencyMilliseconds = described("Time to the last token.", default=LatencyMilliseconds())


class BenchmarkProfileSpec(ApiModel):
    """One configuration under one pair of lengths."""

    RULES = (
        Rule(
            cel="self.load != 'ClosedLoop' || self.points.all(p, has(p.concurrency))",
            problem="load ClosedLoop needs concurrency at every point",
            fix="add points[].concurrency, or set load: Poisson",
            holds=lambda s: s.load is not Load.CLOSED_LOOP or all(p.concurrency is not None for p in s.points),
            field="points",
        ),
        Rule(
            cel="self.load != 'ClosedLoop' || self.points.all(p, !has(p.offeredRequestsPerSecond))",
            problem="load ClosedLoop offers no rate",
            fix="remove points[].offeredRequestsPerSecond, or set load: Poisson",
            holds=lambda s: (
                s.load is not Load.CLOSED_LOOP or all(p.offered_requests_per_second is None for p in s.points)
            ),
            field="points",
        ),
        Rule(
            cel="self.load != 'Poisson' || self.points.all(p, !has(p.concurrency))",
            problem="load Poisson keeps no fixed concurrency",
            fix="remove points[].concurrency, or set load: ClosedLoop",
            holds=lambda s: s.load is not Load.POISSON or all(p.concurrency is None for p in s.points),
            field="points",
        ),
    )

    model: ModelName = described("Catalog key of the model, or an alias.")
    gpu: GpuName = described("Catalog key of the GPU, or an alias.")
    precision: Precision = described("Number format of the weights.")
    tensor_parallel: Int = described("GPUs that share every layer of the replica.", default=1, unit="GPUs", ge=1, le=64)
    pipeline_parallel: Int = described("Stages of layers of the replica.", default=1, unit="stages", ge=1, le=64)
    attention_data_parallel: Int = described(
        "Groups of its GPUs that each did the attention of their own requests.", default=1, unit="groups", ge=1, le=64
    )
    engine: ShortText = described("Engine that was measured, such as TensorRT-LLM.", default="")
    engine_version: ShortText = described("Its version.", default="")
    input_tokens: LengthInTokens = described("Mean input length.", unit="tokens")
    output_tokens: LengthInTokens = described("Mean output length.", unit="tokens")
    engine_settings: EngineSettingsSpec | None = optional(
        "Settings that the engine was measured with. A deployment that is sized with others does not stand on the"
        " points.",
        absent="as the engine is installed",
    )
    load: Load = described("ClosedLoop: a fixed number of requests in flight. Poisson: independent arrivals at a rate.")
    points: tuple[MeasuredPoint, ...] = described("The measured points.", min_length=1, max_length=MAX_POINTS)
    source: str = described("Where the figures come from, so that they can be traced.", default="", max_length=512)


class BenchmarkProfile(ApiModel):
    """Measured points of one configuration, cluster-wide."""

    api_version: Literal["firsttoken.dev/v1alpha1"] = API_VERSION
    kind: Literal["BenchmarkProfile"] = KIND
    metadata: Metadata
    spec: BenchmarkProfileSpec = described("The configuration and its points.")
