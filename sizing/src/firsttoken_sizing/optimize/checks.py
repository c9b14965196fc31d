"""Checks of single fields: what a team may declare. Each names the field as the user wrote it, and the fix.

Only what can be judged without a catalog or a performance model: an SLA that no size meets is an answer, not an error.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from firsttoken_sizing.engines.spec import SIXTEEN_BITS
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import MIXED_UNITS_FACTOR, STATISTICS, Load, Point, Profile
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.rounding import NOISE
from firsttoken_sizing.workload import REQUESTS_PER_PREFIX, Hardware, Limit, OfflineJob, Pricing, Sla, SlaMode, Workload

_LIMITS: dict[SlaMode, tuple[str, ...]] = {
    SlaMode.STREAMING: ("sla.timeToFirstToken", "sla.interTokenLatency", "sla.endToEnd"),
    SlaMode.SEQUENTIAL: ("sla.endToEnd",),
    SlaMode.OFFLINE: (),
}
"""The limits that a mode may have; it needs one of them."""
_MOST_GPUS_OF_A_REPLICA = 1024
_RATES = (1e-6, 1e9)
"""Requests a second that are sized: beyond, a unit is wrong and costs a request would overflow."""
_MOST_REQUESTS = 1e15
_MOST_HOURS = 1e6
_MOST_MILLISECONDS = 1e12
_MOST_DRAFTS = 16
_LARGEST_PRICE = 1e15
_SHORTEST_AMORTIZATION_YEARS = 1 / 12


def check_fields(request: SizingRequest) -> None:
    """Raise `InvalidInput` for the first field that cannot be sized."""
    _check_traffic(request.workload)
    _check_sla(request.sla)
    _check_job(request.workload.offline, request.sla)
    _check_hardware(request.hardware)
    _check_settings(request)
    _check_pricing(request.pricing)
    _check_profiles(request.profiles)


def _check_traffic(workload: Workload) -> None:
    _check_length("input", workload.input_tokens, workload.input_tokens_p99, workload.input_token_quantiles)
    _check_length("output", workload.output_tokens, workload.output_tokens_p99, workload.output_token_quantiles)
    if not 0 <= workload.cached_input_percent < 100:
        raise InvalidInput(
            "traffic.cachedInputPercent", f"{workload.cached_input_percent:g} is outside 0 to 99", "use 0 to 99"
        )
    _check_prefixes(workload)
    declared = [workload.peak_requests_per_second, workload.concurrent_requests, workload.offline]
    if sum(v is not None for v in declared) != 1:
        raise InvalidInput(
            "traffic",
            "needs exactly one of peakRequestsPerSecond, concurrentRequests and offline",
            "declare one of them",
        )
    for field, value in (
        ("traffic.peakRequestsPerSecond", workload.peak_requests_per_second),
        ("traffic.averageRequestsPerSecond", workload.average_requests_per_second),
    ):
        if value is not None:
            _positive(field, value, *_RATES)
    peak, average = workload.peak_requests_per_second, workload.average_requests_per_second
    if peak is not None and average is not None and average > peak * (1 + NOISE):
        raise InvalidInput(
            "traffic.averageRequestsPerSecond", f"{average:g} is above the peak, {peak:g}", "declare the peak or less"
        )
    if workload.concurrent_requests is not None:
        _positive("traffic.concurrentRequests", workload.concurrent_requests, 1, _MOST_REQUESTS)


def _check_prefixes(workload: Workload) -> None:
    in_use, each = workload.prefixes_in_use, workload.requests_per_prefix
    if in_use is not None:
        _positive("traffic.prefixesInUse", in_use, 1, _MOST_REQUESTS)
        if not workload.cached_input_percent:
            raise InvalidInput(
                "traffic.cachedInputPercent",
                "is 0, and traffic.prefixesInUse is of prompts that begin alike",
                "declare how much of a prompt earlier ones began with, or remove prefixesInUse",
            )
    if each is not None:
        _positive("traffic.requestsPerPrefix", each, *REQUESTS_PER_PREFIX)
        if in_use is None:
            raise InvalidInput(
                "traffic.prefixesInUse", "missing beside traffic.requestsPerPrefix", "declare how many are in use"
            )


def _check_length(side: str, mean: float, p99: float | None, quantiles: tuple[tuple[float, float], ...]) -> None:
    field = f"traffic.{side}Tokens"
    _positive(field, mean)
    if mean < 1:
        raise InvalidInput(field, f"{mean:g} is below 1", "declare at least 1")
    if p99 is not None:
        _positive(f"{field}P99", p99)
        if p99 < mean:
            raise InvalidInput(f"{field}P99", f"{p99:g} is below the mean, {mean:g}", "declare the mean or more")
    last_share, last_tokens = 0.0, 0.0
    for share, tokens in quantiles:
        _positive(f"traffic.{side}TokenQuantiles", tokens)
        if not last_share < share < 1 or tokens < last_tokens:
            raise InvalidInput(
                f"traffic.{side}TokenQuantiles",
                f"{tokens:g} tokens at the share {share:g} do not rise from {last_tokens:g} at {last_share:g}",
                "list shares between 0 and 1 in rising order, with tokens that never fall",
            )
        last_share, last_tokens = share, tokens


def _check_sla(sla: Sla) -> None:
    limits: dict[str, Limit | None] = {
        "sla.timeToFirstToken": sla.time_to_first_token,
        "sla.interTokenLatency": sla.inter_token_latency,
        "sla.endToEnd": sla.end_to_end,
    }
    allowed = _LIMITS[sla.mode]
    if allowed and not any(limits[field] for field in allowed):
        which = "it" if len(allowed) == 1 else "one of " + ", ".join(allowed)
        raise InvalidInput(allowed[0], f"missing, and mode {sla.mode.value} needs {which}", "declare milliseconds")
    for field, limit in limits.items():
        if limit is None:
            continue
        if field not in allowed:
            raise InvalidInput(field, f"mode {sla.mode.value} has no such limit", "remove it, or use mode Streaming")
        _positive(f"{field}.milliseconds", limit.milliseconds, 1e-3, _MOST_MILLISECONDS)


def _check_job(job: OfflineJob | None, sla: Sla) -> None:
    if job is None:
        return
    if sla.mode is not SlaMode.OFFLINE:
        raise InvalidInput(
            "traffic.offline",
            f"is a job that no caller waits for, and sla.mode is {sla.mode.value}",
            "set sla.mode: Offline, or declare peakRequestsPerSecond instead",
        )
    _positive("traffic.offline.requests", job.requests, 1, _MOST_REQUESTS)
    _positive("traffic.offline.deadlineHours", job.deadline_hours, 1e-3, _MOST_HOURS)


def _check_hardware(hardware: Hardware) -> None:
    if not hardware.gpus:
        raise InvalidInput("hardware.gpus", "is empty", "name at least one GPU, such as H100-SXM-80GB")
    for field, ways in (
        ("hardware.tensorParallel", hardware.tensor_parallel),
        ("hardware.pipelineParallel", hardware.pipeline_parallel),
        ("hardware.attentionDataParallel", hardware.attention_data_parallel),
        ("gpusPerServer", hardware.gpus_per_server),
    ):
        if ways is None:
            continue
        if ways < 1:
            raise InvalidInput(field, f"{ways} is below 1", "use 1 or more")
        if ways > _MOST_GPUS_OF_A_REPLICA:
            raise InvalidInput(field, f"{ways} is more than any machine has", f"use {_MOST_GPUS_OF_A_REPLICA} or less")
    _check_groups(hardware, hardware.attention_data_parallel or 1)


def _check_groups(hardware: Hardware, groups: int) -> None:
    """Refuse groups of attention that no replica can have."""
    field, ways = "hardware.attentionDataParallel", hardware.tensor_parallel
    if groups > 1 and (hardware.pipeline_parallel or 1) > 1:
        raise InvalidInput(field, f"{groups} is not for pipelines", "remove hardware.pipelineParallel")
    if ways is not None and ways % groups:
        problem = f"{groups} groups do not share hardware.tensorParallel {ways} evenly"
        raise InvalidInput(field, problem, f"use {ways} or a divisor of it")
    if ways is None and (groups > hardware.gpus_per_server or groups & (groups - 1)):
        problem = f"{groups} groups of equal size are not offered in a server of {hardware.gpus_per_server}"
        raise InvalidInput(field, problem, "use 2, 4 or 8, or set hardware.tensorParallel as well")


def _check_settings(request: SizingRequest) -> None:
    declared, field = request.declared_settings, "sizing.engineSettings"
    for name, count in (("maxBatchSize", declared.max_batch), ("maxBatchedTokens", declared.tokens_per_step)):
        if count is not None:
            _positive(f"{field}.{name}", count, 1, _MOST_REQUESTS)
    if declared.memory_share is not None and not 0 < declared.memory_share < 1:
        raise InvalidInput(f"{field}.gpuMemoryPercent", "is outside 1 to 99", "use 1 to 99, such as 90")
    if (drafts := request.speculative_decoding) is not None:
        if not 1 <= drafts.draft_tokens <= _MOST_DRAFTS:
            problem = f"{drafts.draft_tokens:g} is outside 1 to {_MOST_DRAFTS}"
            raise InvalidInput("sizing.speculativeDecoding.draftTokens", problem, f"use 1 to {_MOST_DRAFTS}")
        if not 0 <= drafts.acceptance_percent <= 100:
            problem = f"{drafts.acceptance_percent:g} is outside 0 to 100"
            raise InvalidInput("sizing.speculativeDecoding.acceptancePercent", problem, "use 0 to 100")
    if declared.kv_cache_bits not in (None, SIXTEEN_BITS // 2, SIXTEEN_BITS):
        raise InvalidInput(f"{field}.kvCacheType", f"{declared.kv_cache_bits} bits are no format", "use FP8")


def _check_pricing(pricing: Mapping[str, Pricing]) -> None:
    for gpu, price in pricing.items():
        for name, value in (
            ("gpuHour", price.gpu_hour),
            ("reservedGPUHour", price.reserved_gpu_hour),
            ("spotGPUHour", price.spot_gpu_hour),
            ("serverPrice", price.server_price),
            ("amortizationYears", price.amortization_years),
            ("hostingPerYear", price.hosting_per_year),
            ("licensePerGPUYear", price.license_per_gpu_year),
            ("inputPerMillionTokens", price.input_per_million_tokens),
            ("outputPerMillionTokens", price.output_per_million_tokens),
        ):
            if value is not None and not 0 <= value <= _LARGEST_PRICE:
                raise InvalidInput(
                    f"pricing.{name} of {gpu}", f"{value} is no such amount", f"use 0 to {_LARGEST_PRICE:g}"
                )
        if price.amortization_years and price.amortization_years < _SHORTEST_AMORTIZATION_YEARS:
            raise InvalidInput(
                f"pricing.amortizationYears of {gpu}", f"{price.amortization_years:g} is below a month", "declare years"
            )


def _check_profiles(profiles: Iterable[Profile]) -> None:
    for profile in profiles:
        _positive(f"benchmark {profile.name}: inputTokens", profile.input_tokens)
        _positive(f"benchmark {profile.name}: outputTokens", profile.output_tokens)
        for point in profile.points:
            every = (point.ttft, point.itl, point.end_to_end)
            latencies = [getattr(latency, statistic) for latency in every for statistic in STATISTICS]
            loads = (point.requests_per_second, point.concurrency, point.offered_requests_per_second)
            for values, problem in ((latencies, "a latency of {} milliseconds"), (loads, "a point at a load of {}")):
                for value in values:
                    if value is not None and not (math.isfinite(value) and value >= 0):
                        raise InvalidInput(
                            f"benchmark {profile.name}",
                            f"has {problem.format(value)}",
                            "remove the point, or import the result file with `firsttoken import`",
                        )
            _check_units(profile, point)


def _check_units(profile: Profile, point: Point) -> None:
    """Little's law tells seconds and nanoseconds from milliseconds: no benchmark is off by so much otherwise."""
    ratio = point.completed(profile.output_tokens).little_ratio
    if profile.load is Load.CLOSED_LOOP and ratio and not 1 / MIXED_UNITS_FACTOR < ratio < MIXED_UNITS_FACTOR:
        raise InvalidInput(
            f"benchmark {profile.name}",
            f"throughput x latency / concurrency is {ratio:.2g} at concurrency {point.concurrency:g}, and Little's law"
            " says 1",
            "check the units: latencies are milliseconds",
        )


def _positive(field: str, value: float, low: float = 0.0, high: float = math.inf) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(field, f"{value} is not a positive number", "declare a number above 0")
    if not low <= value <= high:
        raise InvalidInput(field, f"{value:g} is outside {low:g} to {high:g}", "check the unit of the number")
