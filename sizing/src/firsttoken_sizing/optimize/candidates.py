"""Candidates: GPU x precision x tensor and pipeline parallelism x batching, in the order of preference.

Every declared part has one choice. Nothing is left out here because it is bad; that is for the search. Pipelines are
offered where they can save GPUs (docs/design/sizing.md): over NVLink tensor parallelism takes the same memory and is
faster.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER, Attention, Gpu, Model, resolve_precision
from firsttoken_sizing.engines.support import Support, nearest, support
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.evaluation import Candidate
from firsttoken_sizing.profile import ConfigurationKey, Profile
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.step import speed_key
from firsttoken_sizing.workload import Batching

_TENSOR_PARALLEL_CHOICES = (1, 2, 4, 8)
_PIPELINES_IN_A_SERVER = (2, 4)
_PIPELINES_OVER_SERVERS = (2, 4, 8)
_EIGHT_BITS = 1.0


def candidates(
    request: SizingRequest,
    model: Model,
    gpus: Iterable[Gpu],
    profiles: Iterable[Profile],
    batchings: Iterable[Batching],
    calibrated: Iterable[str] = (),
) -> Iterator[Candidate]:
    """Everything that fits into one server, or is declared, and that the engine runs.

    `calibrated`: precisions of this architecture that have a shipped fit, and so can be allowed, published or not.
    Raises `InvalidInput` where no precision is allowed, and where the engine runs none of them on any of the GPUs.
    """
    profiles, gpus, batchings = tuple(profiles), tuple(gpus), tuple(batchings)
    precisions = _precisions(request, model, profiles, calibrated)
    runnable = {gpu.name: [p for p in precisions if _runs(request, model, gpu, p, profiles)] for gpu in gpus}
    if not any(runnable.values()):
        engine, gpu = request.engine, gpus[0]
        raise InvalidInput(
            "model.precision" if request.precision is not None else "hardware.gpus",
            f"{engine.value} does not run {' or '.join(precisions)} on {' or '.join(runnable)}",
            nearest(engine, gpu, precisions[0]),
        )
    is_empty = True
    for gpu in gpus:
        for precision in _of_hardware(request, gpu, runnable[gpu.name]):
            for tensor_parallel, pipeline_parallel in _ways(request, model, gpu, profiles):
                key = ConfigurationKey(model.name, gpu.name, precision, tensor_parallel, pipeline_parallel)
                for batching in batchings:
                    for groups in _groups(request, model, key, batching, profiles):
                        is_empty = False
                        yield Candidate(replace(key, attention_data_parallel=groups), batching)
    if is_empty:
        raise _without_layout(request, model, batchings)


def _without_layout(request: SizingRequest, model: Model, batchings: Iterable[Batching]) -> InvalidInput:
    """Say why no replica has the declared groups of attention; any other layout has candidates."""
    groups, hardware = request.hardware.attention_data_parallel, request.hardware
    if all(batching is Batching.STATIC for batching in batchings):
        problem, way_out = "static batches have no groups of attention", "remove it, or allow another sizing.batching"
    else:
        problem = f"{request.engine.value} has no {groups} groups for {model.name} on {hardware.gpus_per_server} GPUs"
        way_out = "remove it, or set hardware.tensorParallel to a multiple of it"
    return InvalidInput("hardware.attentionDataParallel", problem, way_out)


def _groups(
    request: SizingRequest, model: Model, key: ConfigurationKey, batching: Batching, profiles: Iterable[Profile]
) -> list[int]:
    """Groups of GPUs with an attention of their own: one, or as many as GPUs where experts are spread over them.

    Where nothing is declared the second is offered inside a server, to replicas that can be told of it and whose
    parallelism is open as a whole: a declared tensor parallelism alone is that of the attention too.
    Raises `InvalidInput` for a declared number that the engine, or the GPUs, cannot have.
    """
    declared, ways, field = (
        request.hardware.attention_data_parallel,
        key.tensor_parallel,
        "hardware.attentionDataParallel",
    )
    possible = ways > 1 and key.pipeline_parallel == 1 and batching is not Batching.STATIC
    if declared is None and request.is_as_installed:
        return [1]
    if declared is None:
        is_open = request.hardware.tensor_parallel is None and ways <= request.hardware.gpus_per_server
        measured = {p.key.attention_data_parallel for p in profiles if replace(p.key, attention_data_parallel=1) == key}
        return sorted({1, ways, *measured} if possible and model.experts and is_open else {1, *measured})
    if declared > 1 and not model.experts:
        raise InvalidInput(
            field, f"{model.name} has no experts to spread", "remove it: replicas are its data parallelism"
        )
    if declared > 1 and request.engine.spec.attention_data_parallel_of_all and declared != ways:
        if request.hardware.tensor_parallel is None:
            return []
        raise InvalidInput(
            field,
            f"{request.engine.value} has one group for each of {ways} GPUs, and not {declared}",
            f"use {ways}, or 1",
        )
    return [declared] if declared == 1 or (possible and ways % declared == 0) else []


def over_servers(request: SizingRequest, model: Model, too_large: Iterable[Candidate]) -> Iterator[Candidate]:
    """Pipelines of whole servers, for the GPUs and precisions of candidates whose memory does not do; fewest first."""
    hardware = request.hardware
    if hardware.pipeline_parallel is not None or (hardware.attention_data_parallel or 1) > 1:
        return
    tensor_parallel = hardware.tensor_parallel or max(
        n for n in _TENSOR_PARALLEL_CHOICES if n <= hardware.gpus_per_server and _splits(model, n)
    )
    offered = dict.fromkeys((c.key.model, c.key.gpu, c.key.precision, c.batching) for c in too_large)
    for stages in _PIPELINES_OVER_SERVERS:
        if tensor_parallel * stages <= hardware.gpus_per_server:
            continue
        for name, gpu, precision, batching in offered:
            yield Candidate(ConfigurationKey(name, gpu, precision, tensor_parallel, stages), batching)


def _runs(request: SizingRequest, model: Model, gpu: Gpu, precision: str, profiles: Iterable[Profile]) -> bool:
    """Tell whether the engine runs weights of this precision on the GPU: by its table, or because it was measured."""
    ours = model.name, gpu.name, precision
    measured = any((p.key.model, p.key.gpu, p.key.precision) == ours for p in profiles)
    return measured or support(request.engine, gpu, precision) is not Support.NONE


def _splits(model: Model, tensor_parallel: int) -> bool:
    """Tell whether so many GPUs can share the heads: engines give each the same number, or a copy of one KV head."""
    kv_heads = model.kv_heads
    shares_kv = model.attention is Attention.MLA or 0 in (kv_heads % tensor_parallel, tensor_parallel % kv_heads)
    return model.attention_heads % tensor_parallel == 0 and shares_kv


def _ways(request: SizingRequest, model: Model, gpu: Gpu, profiles: Iterable[Profile]) -> list[tuple[int, int]]:
    """Pairs of tensor and pipeline parallelism: without a pipeline first."""
    hardware = request.hardware
    measured = {(p.key.tensor_parallel, p.key.pipeline_parallel) for p in profiles if p.key.model == model.name}
    if (declared := hardware.tensor_parallel) is not None:
        if not _splits(model, declared) and declared not in {t for t, _ in measured}:
            raise InvalidInput(
                "hardware.tensorParallel",
                f"{declared} GPUs cannot share the {model.attention_heads} attention heads ({model.kv_heads} KV heads)"
                f" of {model.name} evenly",
                f"use {' or '.join(str(n) for n in _TENSOR_PARALLEL_CHOICES if _splits(model, n))}",
            )
        tensor = {declared}
    else:
        choices = (n for n in _TENSOR_PARALLEL_CHOICES if n <= hardware.gpus_per_server and _splits(model, n))
        tensor = {*choices, *(t for t, _ in measured)}
    if hardware.pipeline_parallel is not None:
        return [(t, hardware.pipeline_parallel) for t in sorted(tensor)]
    pipelined = {(t, p) for t, p in measured if p > 1 and t in tensor}
    if not gpu.has_server_wide_link:
        pipelined |= {(t, p) for t in tensor for p in _PIPELINES_IN_A_SERVER if t * p <= hardware.gpus_per_server}
    return [(t, 1) for t in sorted(tensor)] + sorted(pipelined, key=lambda way: (way[1], way[0]))


def _precisions(
    request: SizingRequest, model: Model, profiles: Iterable[Profile], calibrated: Iterable[str]
) -> list[str]:
    """The declared precision; else every published or measured one of at least 8 bits, and those explicitly allowed."""
    if request.precision is not None:
        return [resolve_precision(request.precision)]
    allowed = _allowed(request)
    known = known_precisions(request, model, profiles, calibrated)
    if not known:
        raise InvalidInput(
            "model.precision", f"missing, and no format of {model.name} is known", "set model.precision, such as BF16"
        )
    chosen = [p for p in known if p in allowed or (not allowed and BYTES_PER_PARAMETER[p] >= _EIGHT_BITS)]
    if not chosen:
        unlike = f"which does not include {' or '.join(sorted(allowed))}" if allowed else "which is below 8 bits"
        raise InvalidInput(
            "model.allowedPrecisions" if allowed else "model.precision",
            f"{model.name} is known in {', '.join(known)} only, {unlike}",
            f"set model.precision, for example {known[0]}",
        )
    return chosen


def known_precisions(
    request: SizingRequest, model: Model, profiles: Iterable[Profile], calibrated: Iterable[str]
) -> list[str]:
    """Every precision that can be chosen: measured by the user, published, or allowed and `calibrated`.

    Measured ones first: of two that are equally fast, such as BF16 and FP16, the first stands for both.
    """
    measured, allowed = (p.key.precision for p in profiles if p.key.model == model.name), _allowed(request)
    return list(dict.fromkeys([*measured, *model.published_precisions, *(p for p in calibrated if p in allowed)]))


def _allowed(request: SizingRequest) -> set[str]:
    return {resolve_precision(p, field="model.allowedPrecisions") for p in request.allowed_precisions}


def _of_hardware(request: SizingRequest, gpu: Gpu, precisions: list[str]) -> list[str]:
    """Precisions that the engine runs natively, once each speed; all where that leaves none, or the user named one."""
    if request.precision is not None:
        return precisions
    computed = [p for p in precisions if support(request.engine, gpu, p) is Support.NATIVE]
    by_speed: dict[str, str] = {}
    for precision in computed:
        same_speed = speed_key(ConfigurationKey("", gpu.name, precision)).precision
        by_speed.setdefault(same_speed, precision)
    return list(by_speed.values()) or precisions
