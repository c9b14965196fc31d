"""Conversion of custom resources to the values that sizing and scaling compute with.

The one place where words become tokens, a form of the peak becomes a rate, and a default that depends on the pool's
location is decided. Nothing here reads a cluster, a file or a clock.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import lru_cache

from firsttoken_operator.api.benchmark_profile import BenchmarkProfile
from firsttoken_operator.api.engine_settings import declared_settings
from firsttoken_operator.api.gpu_pool import GPUPool, Location, PricingSpec
from firsttoken_operator.api.inference_deployment import InferenceDeployment, InferenceDeploymentSpec, Scaling
from firsttoken_operator.api.profiles import profile
from firsttoken_operator.api.quantities import decimal, number
from firsttoken_operator.api.runtime import RELEASED_ROLLOUT
from firsttoken_operator.api.sla import LatencyLimit, ServiceLevel
from firsttoken_operator.api.traffic import TokenQuantile, Traffic
from firsttoken_operator.decide import usual_scale_down
from firsttoken_operator.domain.rollout import RolloutTerms
from firsttoken_operator.domain.snapshot import ScalingPolicy
from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.catalog.architecture import model_from_config
from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.places import Place
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.step.select import is_of_engine
from firsttoken_sizing.traffic import peak_by_factor, peak_by_percentile, tokens_from_words
from firsttoken_sizing.workload import (
    Arrivals,
    Hardware,
    Limit,
    OfflineJob,
    Percentile,
    Pricing,
    Sla,
    SpeculativeDecoding,
    Workload,
)


def sizing_request(
    deployment: InferenceDeployment,
    pools: Mapping[str, GPUPool],
    benchmarks: Iterable[BenchmarkProfile],
    *,
    arrivals: Arrivals | None = None,
    percentile: Percentile | None = None,
    has_pods: bool = True,
) -> SizingRequest:
    """The sizing question that a deployment asks.

    `pools` are all that are known, by name; only the deployment's own is used (servers and prices), and one that is not
    there leaves prices unknown. `arrivals` and `percentile` (of every limit) override the resource. `has_pods`: False
    of a question without pods, whose target is only a name. A configuration that status has pinned stays the only
    candidate as long as the spec still allows it. Raises `InvalidInput` (and
    `UnknownGPU`, `UnknownModel`) where the sizing could not start.
    """
    spec = deployment.spec
    pool = pools.get(spec.capacity.pool) if spec.capacity.pool else None
    hardware = Hardware(
        gpus=spec.hardware.gpus,
        tensor_parallel=spec.hardware.tensor_parallel,
        pipeline_parallel=spec.hardware.pipeline_parallel,
        attention_data_parallel=spec.hardware.attention_data_parallel,
        gpu_order=spec.hardware.gpu_order,
    )
    pricing: dict[str, Pricing] = {}
    if pool is not None:
        own = place(pool)
        hardware = replace(hardware, gpus_per_server=pool.spec.gpus_per_server)
        if own.pricing is not None:
            pricing[own.gpu] = own.pricing
    config, draft = spec.model.architecture, spec.sizing.speculative_decoding
    speculation = (
        None if draft is None else SpeculativeDecoding(draft.draft_tokens, draft.acceptance_percent, draft.method)
    )
    profiles = _preferred(tuple(profile(b) for b in benchmarks), spec.sizing.benchmarks)
    return SizingRequest(
        model=spec.model.name,
        # What the resource describes itself wins over an entry of the catalog with that name.
        architecture=None
        if config is None
        else model_from_config(spec.model.name, config.model_dump(exclude_none=True)),
        workload=workload(spec.traffic),
        sla=_sla(spec.sla, percentile),
        hardware=hardware,
        precision=spec.model.precision.value if spec.model.precision else None,
        allowed_precisions=tuple(precision.value for precision in spec.model.allowed_precisions),
        arrivals=arrivals or spec.sizing.arrivals,
        engine=_engine(spec, profiles),
        engine_release=spec.sizing.engine_release,
        batchings=spec.sizing.batching,
        sparsity=spec.model.sparsity,
        speculative_decoding=speculation,
        declared_settings=declared_settings(spec.sizing.engine_settings),
        profiles=profiles,
        pricing=pricing,
        pinned=_pinned(deployment),
        is_as_installed=has_pods and is_as_installed(spec),
    )


def is_as_installed(spec: InferenceDeploymentSpec) -> bool:
    """Tell whether the pods are told nothing of what was sized: those of a target, and servers that take no settings.

    They run what is declared of them, and else what their engine does by itself.
    """
    return spec.runtime is None or not spec.runtime.release.container.is_told


def place(pool: GPUPool) -> Place:
    """A pool as a place to size in. Raises `UnknownGPU` for a GPU that the catalog lacks."""
    spec = pool.spec
    return Place(
        name=pool.metadata.name,
        gpu=resolve_gpu(spec.gpu, field=f"GPUPool/{pool.metadata.name} spec.gpu").name,
        pricing=None if spec.pricing is None else _pricing(spec.pricing),
        gpus_per_server=spec.gpus_per_server,
        most_gpus=spec.declared_gpus,
        location=spec.location.value,
    )


def workload(traffic: Traffic) -> Workload:
    """Declared traffic in tokens and requests a second, with its form of the peak resolved."""
    average, job = number(traffic.average_requests_per_second), traffic.offline
    return Workload(
        input_tokens=_tokens(traffic.input_tokens, traffic.input_words),
        output_tokens=_tokens(traffic.output_tokens, traffic.output_words),
        input_tokens_p99=traffic.input_tokens_p99,
        output_tokens_p99=traffic.output_tokens_p99,
        input_token_quantiles=_quantiles(traffic.input_token_quantiles),
        output_token_quantiles=_quantiles(traffic.output_token_quantiles),
        cached_input_percent=traffic.cached_input_percent,
        prefixes_in_use=traffic.prefixes_in_use,
        requests_per_prefix=number(traffic.requests_per_prefix),
        average_requests_per_second=average,
        peak_requests_per_second=_peak(traffic, average),
        concurrent_requests=traffic.concurrent_requests,
        offline=None if job is None else OfflineJob(job.requests, float(decimal(job.deadline_hours))),
        routing=traffic.routing,
    )


def scaling_policy(deployment: InferenceDeployment, pool: GPUPool | None, *, time_scale: float = 1.0) -> ScalingPolicy:
    """`spec.scaling` with its defaults resolved; every duration is divided by `time_scale` (compressed demos).

    `pool`: the one that it names; None: it names none, or that is not known.
    """
    scaling: Scaling = deployment.spec.scaling
    on_prem = None if pool is None else pool.spec.location is Location.ON_PREM
    return ScalingPolicy(
        mode=scaling.mode,
        min_replicas=scaling.min_replicas,
        max_replicas=scaling.max_replicas,
        burst_headroom_percent=scaling.burst_headroom_percent,
        scale_down=scaling.scale_down or usual_scale_down(deployment.spec.capacity.pool, on_prem),
        stabilization_seconds=scaling.scale_down_stabilization_seconds / time_scale,
        scale_down_step_percent=scaling.scale_down_step_percent,
        backlog_drain_seconds=scaling.backlog_drain_seconds / time_scale,
        metrics_loss_grace_seconds=scaling.metrics_loss_grace_seconds / time_scale,
    )


def rollout_terms(deployment: InferenceDeployment) -> RolloutTerms:
    """Terms on which its pods may be replaced; those of a target that it does not render are not its own."""
    runtime, annotations = deployment.spec.runtime, deployment.metadata.annotations
    return RolloutTerms(runtime.rollout_policy, annotations.get(RELEASED_ROLLOUT, "")) if runtime else RolloutTerms()


def _tokens(tokens: int | None, words: int | None) -> float:
    # The rules of `Traffic` leave exactly one of the two.
    return tokens if tokens is not None else tokens_from_words(words or 0)


def _quantiles(declared: Iterable[TokenQuantile]) -> tuple[tuple[float, float], ...]:
    """Pairs of a share (0..1) and tokens, rising."""
    return tuple(sorted((q.percentile / 100, float(q.tokens)) for q in declared))


def _engine(spec: InferenceDeploymentSpec, profiles: Iterable[Profile]) -> Engine:
    """The declared engine, else the one that the runtime is, else the one that this model was measured on.

    Without any of these, and where measurements are of several engines, the usual one.
    """
    if spec.sizing.engine is not None:
        return spec.sizing.engine
    if spec.runtime is not None:
        return spec.runtime.release.engines[0]
    model = canonical_model(spec.model.name)
    named = [p for p in profiles if p.engine and canonical_model(p.key.model) == model]
    measured_on = {engine for p in named for engine in Engine if is_of_engine(p, engine)}
    return measured_on.pop() if len(measured_on) == 1 else DEFAULT


@lru_cache(maxsize=1024)
def canonical_model(name: str) -> str:
    """The catalog's name of a model; one that the catalog lacks only equals itself."""
    try:
        return resolve_model(name).name
    except InvalidInput:
        return name


def _peak(traffic: Traffic, average: float | None) -> float | None:
    """The declared peak in requests a second; None where it is declared as requests in flight."""
    if traffic.peak_requests_per_second is not None:
        return number(traffic.peak_requests_per_second)
    factor = number(traffic.peak_to_average)
    if factor is not None and average is not None:
        return peak_by_factor(average, factor)
    if traffic.peak_percentile is not None and average is not None:
        peak = peak_by_percentile(average, traffic.peak_percentile)
        if peak < average or peak <= 0:
            raise InvalidInput(
                "spec.traffic.peakPercentile",
                f"P{traffic.peak_percentile} of a Poisson average of {average:g} requests per second is {peak:g}, "
                "which is below the average",
                "raise it, or declare peakRequestsPerSecond",
            )
        return peak
    return None


def _sla(level: ServiceLevel, percentile: Percentile | None) -> Sla:
    return Sla(
        mode=level.mode,
        time_to_first_token=limit_of(level.time_to_first_token, percentile),
        inter_token_latency=limit_of(level.inter_token_latency, percentile),
        end_to_end=limit_of(level.end_to_end, percentile),
    )


def limit_of(declared: LatencyLimit | None, percentile: Percentile | None = None) -> Limit | None:
    """A declared limit; `percentile` overrides its own. None: no limit."""
    return None if declared is None else Limit(declared.milliseconds, percentile or declared.percentile)


def _pricing(spec: PricingSpec) -> Pricing:
    return Pricing(
        gpu_hour=number(spec.gpu_hour),
        reserved_gpu_hour=number(spec.reserved_gpu_hour),
        spot_gpu_hour=number(spec.spot_gpu_hour),
        server_price=number(spec.server_price),
        amortization_years=spec.amortization_years,
        hosting_per_year=number(spec.hosting_per_year) or 0.0,
        license_per_gpu_year=number(spec.license_per_gpu_year) or 0.0,
        currency=spec.currency,
        input_per_million_tokens=number(spec.input_per_million_tokens),
        output_per_million_tokens=number(spec.output_per_million_tokens),
    )


def _preferred(profiles: tuple[Profile, ...], names: tuple[str, ...]) -> tuple[Profile, ...]:
    """Drop the profiles that a named one stands in for: those of the same configuration. All, where none is named."""
    if not names:
        return profiles
    known = {p.name for p in profiles}
    missing = [name for name in names if name not in known]
    if missing:
        raise InvalidInput(
            "spec.sizing.benchmarks",
            f"there is no BenchmarkProfile {', '.join(missing)}",
            "create it, or remove the name to use every profile that matches",
        )
    chosen = tuple(p for p in profiles if p.name in names)
    covered = {_canonical(p.key) for p in chosen}
    return chosen + tuple(p for p in profiles if p.name not in names and _canonical(p.key) not in covered)


def _canonical(key: ConfigurationKey) -> ConfigurationKey:
    """The key with catalog names; a name that the catalog lacks only equals itself."""
    try:
        return replace(key, model=resolve_model(key.model).name, gpu=resolve_gpu(key.gpu).name)
    except InvalidInput:
        return key


def _pinned(deployment: InferenceDeployment) -> ConfigurationKey | None:
    """The configuration that status fixed at the first deployment, unless the user has chosen another since."""
    sizing = deployment.status.sizing
    if sizing is None or sizing.configuration is None:
        return None
    spec: InferenceDeploymentSpec = deployment.spec
    fixed = sizing.configuration
    groups = spec.hardware.attention_data_parallel or (1 if is_as_installed(spec) else None)
    allowed = (
        resolve_gpu(fixed.gpu).name in {resolve_gpu(gpu).name for gpu in spec.hardware.gpus}
        and spec.hardware.tensor_parallel in (None, fixed.tensor_parallel)
        and spec.hardware.pipeline_parallel in (None, fixed.pipeline_parallel)
        and groups in (None, fixed.attention_data_parallel)
        and (spec.model.precision is None or spec.model.precision == fixed.precision)
        and (not spec.model.allowed_precisions or fixed.precision in spec.model.allowed_precisions)
    )
    if not allowed:
        return None
    return ConfigurationKey(
        spec.model.name if spec.model.architecture else resolve_model(spec.model.name).name,
        resolve_gpu(fixed.gpu).name,
        fixed.precision,
        fixed.tensor_parallel,
        fixed.pipeline_parallel,
        fixed.attention_data_parallel,
    )
