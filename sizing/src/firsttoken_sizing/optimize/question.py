"""The question with every name resolved and every number checked: what the search below may take for granted."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, replace

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER, Gpu, Model, resolve_gpu, resolve_model, resolve_precision
from firsttoken_sizing.errors import InvalidInput, UnknownGPU, UnknownModel
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.workload import Arrivals, Sla, SlaMode, Workload

_TENSOR_PARALLEL_CHOICES = (1, 2, 4, 8)
_EIGHT_BITS = 1.0
_LIMITS: dict[SlaMode, tuple[str | None, tuple[str, ...]]] = {
    SlaMode.STREAMING: ("sla.timeToFirstToken", ("sla.timeToFirstToken", "sla.interTokenLatency", "sla.endToEnd")),
    SlaMode.SEQUENTIAL: ("sla.endToEnd", ("sla.endToEnd",)),
    SlaMode.OFFLINE: (None, ()),
}
"""The limit that a mode needs, and those that it may have."""


@dataclass(frozen=True, slots=True)
class Question:
    """A checked request. `candidates` are in the order of preference on a tie; `profiles` have canonical keys."""

    request: SizingRequest
    model: Model
    gpus: dict[str, Gpu]
    candidates: tuple[ConfigurationKey, ...]
    profiles: tuple[Profile, ...]
    lengths: Lengths

    @property
    def arrivals(self) -> Arrivals:
        """How the load is read: an offline job keeps the batch full, whatever is declared."""
        offline = self.request.sla.mode is SlaMode.OFFLINE
        return Arrivals.CLOSED_LOOP if offline else self.request.arrivals


def check(request: SizingRequest) -> Question:
    """Resolve and check a request. Raises `InvalidInput` (or its kinds) that names the field and the fix."""
    _check_traffic(request.workload)
    _check_sla(request.sla)
    _check_hardware(request)
    model = resolve_model(request.model)
    gpus = [resolve_gpu(name) for name in request.hardware.gpus]
    profiles = tuple(_canonical_profile(p) for p in request.profiles)
    pinned = _canonical_key(request.pinned) if request.pinned else None
    if pinned and pinned.gpu not in {g.name for g in gpus}:
        gpus.append(resolve_gpu(pinned.gpu))
    workload = request.workload
    return Question(
        request=request,
        model=model,
        gpus={g.name: g for g in gpus},
        candidates=(pinned,) if pinned else tuple(_candidates(request, model, gpus, profiles)),
        profiles=profiles,
        lengths=Lengths(
            input_tokens=workload.input_tokens,
            uncached_input_tokens=workload.input_tokens * (1 - workload.cached_input_percent / 100),
            output_tokens=workload.output_tokens,
        ),
    )


def _candidates(
    request: SizingRequest, model: Model, gpus: Iterable[Gpu], profiles: Iterable[Profile]
) -> Iterable[ConfigurationKey]:
    hardware = request.hardware
    pipeline_parallel = hardware.pipeline_parallel or 1
    measured = {p.key.tensor_parallel for p in profiles if p.key.model == model.name}
    if hardware.tensor_parallel is not None:
        ways = [hardware.tensor_parallel]
    else:
        ways = sorted({n for n in _TENSOR_PARALLEL_CHOICES if n <= hardware.gpus_per_server} | measured)
    for gpu in gpus:
        for precision in _precisions(request, model, profiles):
            for tensor_parallel in ways:
                yield ConfigurationKey(model.name, gpu.name, precision, tensor_parallel, pipeline_parallel)


def _precisions(request: SizingRequest, model: Model, profiles: Iterable[Profile]) -> list[str]:
    """The declared precision; else every published or measured one of at least 8 bits, and those explicitly allowed."""
    if request.precision is not None:
        return [resolve_precision(request.precision)]
    allowed = {resolve_precision(p, field="model.allowedPrecisions") for p in request.allowed_precisions}
    measured = (p.key.precision for p in profiles if p.key.model == model.name)
    known = list(dict.fromkeys([*model.published_precisions, *measured]))
    chosen = [p for p in known if p in allowed or (not allowed and BYTES_PER_PARAMETER[p] >= _EIGHT_BITS)]
    if not chosen:
        unlike = f"which does not include {' or '.join(sorted(allowed))}" if allowed else "which is below 8 bits"
        raise InvalidInput(
            "model.allowedPrecisions" if allowed else "model.precision",
            f"{model.name} is known in {', '.join(known)} only, {unlike}",
            f"set model.precision, for example {known[0]}",
        )
    return chosen


def _canonical_profile(profile: Profile) -> Profile:
    return replace(profile, key=_canonical_key(profile.key))


def _canonical_key(key: ConfigurationKey) -> ConfigurationKey:
    """Canonical names; a name that the catalog does not know stays as it is and so matches nothing."""
    model, gpu = key.model, key.gpu
    try:
        model = resolve_model(model).name
        gpu = resolve_gpu(gpu).name
    except (UnknownModel, UnknownGPU):
        pass
    return replace(key, model=model, gpu=gpu, precision=resolve_precision(key.precision))


def _check_traffic(workload: Workload) -> None:
    _positive("traffic.inputTokens", workload.input_tokens)
    _positive("traffic.outputTokens", workload.output_tokens)
    if workload.output_tokens < 1:
        raise InvalidInput("traffic.outputTokens", f"{workload.output_tokens:g} is below 1", "declare at least 1")
    if not 0 <= workload.cached_input_percent < 100:
        raise InvalidInput(
            "traffic.cachedInputPercent", f"{workload.cached_input_percent:g} is outside 0 to 99", "use 0 to 99"
        )
    declared = [workload.peak_requests_per_second, workload.concurrent_requests]
    if sum(v is not None for v in declared) != 1:
        raise InvalidInput(
            "traffic", "needs exactly one of peakRequestsPerSecond and concurrentRequests", "declare one of them"
        )
    for field, value in (
        ("traffic.peakRequestsPerSecond", workload.peak_requests_per_second),
        ("traffic.concurrentRequests", workload.concurrent_requests),
        ("traffic.averageRequestsPerSecond", workload.average_requests_per_second),
    ):
        if value is not None:
            _positive(field, value)


def _check_sla(sla: Sla) -> None:
    limits = {
        "sla.timeToFirstToken": sla.time_to_first_token,
        "sla.interTokenLatency": sla.inter_token_latency,
        "sla.endToEnd": sla.end_to_end,
    }
    needed, allowed = _LIMITS[sla.mode]
    for field, limit in limits.items():
        if limit is None:
            if field == needed:
                raise InvalidInput(field, f"missing, and mode {sla.mode.value} needs it", "declare milliseconds")
        elif field not in allowed:
            raise InvalidInput(field, f"mode {sla.mode.value} has no such limit", "remove it, or use mode Streaming")
        else:
            _positive(f"{field}.milliseconds", limit.milliseconds)


def _check_hardware(request: SizingRequest) -> None:
    hardware = request.hardware
    if not hardware.gpus:
        raise InvalidInput("hardware.gpus", "is empty", "name at least one GPU, such as H100-SXM-80GB")
    for field, ways in (
        ("hardware.tensorParallel", hardware.tensor_parallel),
        ("hardware.pipelineParallel", hardware.pipeline_parallel),
        ("gpusPerServer", hardware.gpus_per_server),
    ):
        if ways is not None and ways < 1:
            raise InvalidInput(field, f"{ways} is below 1", "use 1 or more")


def _positive(field: str, value: float) -> None:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(field, f"{value} is not a positive number", "declare a number above 0")
