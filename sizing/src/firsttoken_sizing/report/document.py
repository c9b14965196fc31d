"""A sizing as the JSON document that `firsttoken size -o json` prints. The names are a public contract (api.md)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from firsttoken_sizing.engines.memory import Memory
from firsttoken_sizing.optimize.places import PlacedSizing
from firsttoken_sizing.profile import STATISTICS, ConfigurationKey, Latency
from firsttoken_sizing.report.prediction import predictions
from firsttoken_sizing.request import Alternative, Cost, Job, SeparatePools, Sizing, WorkerPool

_DIGITS = 6
_OF_A_SIZE = (
    "replicas",
    "replicasLow",
    "replicasHigh",
    "gpus",
    "servers",
    "requestsPerSecondPerReplica",
    "requestsPerSecondPerGPU",
    "requestsPerSecondPerServer",
    "concurrencyPerReplica",
    "cachedInputPercent",
    "basis",
    "errorBandPercent",
    "bands",
    "utilizationCapPercent",
)
"""Fields that only a feasible sizing has."""
_BANDS = {"ttft": "ttft", "itl": "itl", "end_to_end": "endToEnd"}


def sizing_json(sizing: Sizing, other_arrivals: Sizing | str | None = None) -> dict[str, Any]:
    """The document of one sizing. Rates are requests a second, latencies milliseconds, memory GiB.

    `other_arrivals` is the same question under the other kind of arrivals, or why there is none. What is not known is
    null, never 0. An infeasible sizing has no size, rate, basis or error band: these are null, and the configuration is
    the one that came nearest (null where none was looked at).
    """
    key = sizing.configuration
    per_replica = sizing.requests_per_second_per_replica
    document = {
        "feasible": sizing.feasible,
        "reason": sizing.reason,
        "cause": sizing.cause.value if sizing.cause else None,
        "arrivals": sizing.arrivals.value,
        "replicas": sizing.replicas,
        "replicasLow": sizing.replicas_low,
        "replicasHigh": sizing.replicas_high,
        "replicasForAverage": sizing.replicas_for_average,
        "gpus": sizing.gpus,
        "servers": sizing.servers,
        "gpusPerReplica": key.gpus_per_replica if key else None,
        **configuration_json(key),
        "peakRequestsPerSecond": rounded(sizing.peak_requests_per_second or None),
        "engine": sizing.request.engine.value,
        "batching": sizing.batching.value if sizing.batching else None,
        "requestsPerSecondPerReplica": rounded(per_replica),
        "requestsPerSecondPerGPU": rounded(per_replica / key.gpus_per_replica) if key else None,
        "requestsPerSecondPerServer": rounded(sizing.requests_per_second_per_server),
        "concurrencyPerReplica": rounded(sizing.concurrency_per_replica),
        "cachedInputPercent": rounded(sizing.cached_input_percent),
        "ttftMilliseconds": latency_json(sizing.ttft),
        "itlMilliseconds": latency_json(sizing.itl),
        "endToEndMilliseconds": latency_json(sizing.end_to_end),
        "bindingConstraint": sizing.binding_constraint,
        "basis": sizing.basis.value if sizing.basis else None,
        "errorBandPercent": rounded(sizing.error_band_percent),
        "bands": _bands(sizing),
        "utilizationCapPercent": rounded(sizing.utilization_cap_percent),
        "otherReading": other_arrivals if isinstance(other_arrivals, str) else _under_other_arrivals(other_arrivals),
        "predictions": predictions_json(sizing),
        "memory": _memory(sizing.memory),
        "engineSettings": dict(sizing.engine_settings),
        "cost": cost_json(sizing.cost),
        "job": _job(sizing.job),
        "warnings": list(sizing.warnings),
        "disaggregated": _separate(sizing.separate_pools, sizing.peak_requests_per_second),
        "alternatives": [_alternative(a) for a in sizing.alternatives],
    }
    return _sized(sizing, document)


def places_json(placed: Iterable[PlacedSizing]) -> list[dict[str, Any]]:
    """The answers of several places: an object each; null under what a place without a size does not have."""
    return [_place_json(one) for one in placed]


def latency_json(latency: Latency) -> dict[str, float | None]:
    """Every statistic by name; null where it is not known."""
    return {s: rounded(getattr(latency, s)) for s in STATISTICS}


def predictions_json(sizing: Sizing) -> list[dict[str, Any]]:
    """Predictions at the declared peak with one replica fewer, as sized, and one more."""
    return [
        {
            "replicas": p.replicas,
            "requestsPerSecondPerReplica": rounded(p.operating.requests_per_second),
            "ttftMilliseconds": latency_json(p.operating.ttft),
            "itlMilliseconds": latency_json(p.operating.itl),
            "endToEndMilliseconds": latency_json(p.operating.end_to_end),
            "insideSLA": p.inside_sla,
            "insideCapacity": p.inside_capacity,
            "loadPercent": rounded(p.load_percent),
            "saturated": p.saturated,
        }
        for p in predictions(sizing)
    ]


def _sized(sizing: Sizing, document: dict[str, Any]) -> dict[str, Any]:
    """The document without figures of a size that does not exist."""
    return document if sizing.feasible else document | {name: None for name in _OF_A_SIZE if name in document}


def rounded(value: float | None) -> float | None:
    """A number as documents show it; null stays null."""
    return None if value is None else round(value, _DIGITS)


def _under_other_arrivals(sizing: Sizing | None) -> dict[str, Any] | None:
    if sizing is None:
        return None
    document = {
        "arrivals": sizing.arrivals.value,
        "feasible": sizing.feasible,
        "replicas": sizing.replicas,
        "replicasLow": sizing.replicas_low,
        "replicasHigh": sizing.replicas_high,
        "requestsPerSecondPerReplica": rounded(sizing.requests_per_second_per_replica),
        "basis": sizing.basis.value if sizing.basis else None,
        "errorBandPercent": rounded(sizing.error_band_percent),
        "bindingConstraint": sizing.binding_constraint,
    }
    return _sized(sizing, document)


def _bands(sizing: Sizing) -> dict[str, list[float | None]]:
    """Factors on the answer, low and high, between which nine of ten measurements lie."""
    bands = {"requestsPerSecond": sizing.band, **{_BANDS[name]: band for name, band in sizing.latency_bands.items()}}
    return {name: [rounded(band.low), rounded(band.high)] for name, band in bands.items() if band}


def _memory(memory: Memory | None) -> dict[str, float | None] | None:
    if memory is None:
        return None
    return {
        "totalGiB": round(memory.total_gib, 2),
        "weightsGiB": round(memory.weights_gib, 2),
        "otherGiB": round(memory.other_gib, 2),
        "kvCacheGiB": round(memory.kv_cache_gib, 2),
        "kvCacheTokens": memory.kv_cache_tokens,
        "kvCacheBits": memory.kv_cache_bits,
        "maxConcurrency": memory.max_concurrency,
        "measuredConcurrency": memory.measured_concurrency,
    }


def cost_json(cost: Cost | None) -> dict[str, Any] | None:
    """Cost under the names of the contract; null where no price is known."""
    if cost is None:
        return None
    return {
        "currency": cost.currency,
        "perHour": rounded(cost.per_hour),
        "perYear": rounded(cost.per_year),
        "perYearAutoscaled": rounded(cost.per_year_autoscaled),
        "gpuHoursPerDay": rounded(cost.gpu_hours_per_day),
        "gpuHoursPerDayAutoscaled": rounded(cost.gpu_hours_per_day_autoscaled),
        "perThousandRequestsAtPeak": rounded(cost.per_thousand_requests_at_peak),
        "perThousandRequestsAtPeakFractional": rounded(cost.per_thousand_requests_at_peak_fractional),
        "perThousandRequestsAtAverage": rounded(cost.per_thousand_requests_at_average),
        "perThousandRequestsAutoscaled": rounded(cost.per_thousand_requests_autoscaled),
        "perMillionTokensAtPeak": rounded(cost.per_million_tokens_at_peak),
        "perMillionTokensAtAverage": rounded(cost.per_million_tokens_at_average),
        "apiPerThousandRequests": rounded(cost.api_per_thousand_requests),
        "apiPerMillionTokens": rounded(cost.api_per_million_tokens),
        "apiPerYearAtAverage": rounded(cost.api_per_year_at_average),
        "breakEvenRequestsPerSecond": rounded(cost.break_even_requests_per_second),
        "breakEvenPercentOfPeak": rounded(cost.break_even_percent_of_peak),
        "assumptions": list(cost.assumptions),
    }


def _job(job: Job | None) -> dict[str, float | None] | None:
    if job is None:
        return None
    return {
        "requests": job.requests,
        "deadlineHours": job.deadline_hours,
        "finishHours": rounded(job.finish_hours),
        "gpuHours": rounded(job.gpu_hours),
        "cost": rounded(job.cost),
        "costPerThousandRequests": rounded(job.cost_per_thousand_requests),
    }


def _place_json(one: PlacedSizing) -> dict[str, Any]:
    place, sizing = one.place, one.sizing
    size = sizing if sizing.feasible else None
    return {
        "pool": place.name,
        "location": place.location or None,
        "feasible": sizing.feasible,
        "reason": sizing.reason,
        **configuration_json(sizing.configuration),
        "replicas": size and size.replicas,
        "gpus": size and size.gpus,
        "servers": size and size.servers,
        "requestsPerSecondPerReplica": rounded(size.requests_per_second_per_replica) if size else None,
        "mostGPUs": place.most_gpus,
        "enough": one.enough,
        "cost": cost_json(sizing.cost),
    }


def _alternative(alternative: Alternative) -> dict[str, Any]:
    return {
        **configuration_json(alternative.configuration),
        "feasible": alternative.feasible,
        "gpus": alternative.gpus,
        "reason": alternative.reason,
        "batching": alternative.batching.value if alternative.batching else None,
        "prefillGPUs": alternative.pools.prefill.gpus if alternative.pools else None,
    }


def _separate(pools: SeparatePools | None, rate: float) -> dict[str, Any] | None:
    """Prefill and decode apart, at the declared peak; null where that saves no GPU, or was not looked for."""
    if pools is None:
        return None
    return {
        "gpus": pools.gpus,
        "prefill": _pool(pools.prefill, rate),
        "decode": _pool(pools.decode, rate),
        "decodeWorkersPerPrefillWorker": rounded(pools.decode.workers / pools.prefill.workers),
        "kvTransferMilliseconds": rounded(pools.transfer_milliseconds),
        "ttftMilliseconds": latency_json(pools.ttft),
        "itlMilliseconds": latency_json(pools.itl),
        "endToEndMilliseconds": latency_json(pools.end_to_end),
    }


def _pool(pool: WorkerPool, rate: float) -> dict[str, Any]:
    key = pool.configuration
    return {
        "workers": pool.workers,
        "tensorParallel": key.tensor_parallel,
        "pipelineParallel": key.pipeline_parallel,
        "gpus": pool.gpus,
        "requestsPerSecondPerWorker": rounded(rate / pool.workers),
    }


def configuration_json(key: ConfigurationKey | None) -> dict[str, Any]:
    """Configuration of a replica, under the names of the contract; null under each where there is none."""
    return {
        "model": key and key.model,
        "gpu": key and key.gpu,
        "precision": key and key.precision,
        "tensorParallel": key and key.tensor_parallel,
        "pipelineParallel": key and key.pipeline_parallel,
        "attentionDataParallel": key and key.attention_data_parallel,
    }
