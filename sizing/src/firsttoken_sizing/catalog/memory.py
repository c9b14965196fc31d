"""Memory fit: what of a GPU is left for the KV cache once the weights are there, and how many requests that holds.

Arithmetic only: whether too little is left is for the caller to say (`kv_cache_tokens` 0: the model does not fit;
`max_concurrency` 0: not even one request of the declared lengths does). See `Memory` in docs/design/sizing.md.
What one batch of known size takes is in `peak_memory`.
"""

from __future__ import annotations

import math

from firsttoken_sizing.catalog.gpus import Gpu
from firsttoken_sizing.catalog.models import KV_BYTES_PER_ELEMENT, Attention, Model
from firsttoken_sizing.catalog.precision import bytes_per_parameter
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.request import Memory
from firsttoken_sizing.workload import Engine

USABLE_FRACTION = 0.90
"""Share of a GPU that the engine may use (default of vLLM `--gpu-memory-utilization` and of TensorRT-LLM)."""
OTHER_GIB = 3.5
"""CUDA context, communication buffers and the rest that is neither weights nor cache, for each GPU. The reserve of
NVIDIA aiconfigurator 0.11 (`systems/*.yaml`), the careful end of the 1.5 to 3.5 that were seen."""
ACTIVATIONS_GIB = 2.0
"""Reserve for activations, for each GPU: within the 1 to 4 that engines profile at a budget of 8,192 tokens a step."""
_SGLANG_CHUNKS = ((35.0, 2048), (60.0, 4096), (160.0, 8192), (math.inf, 16384))
"""Largest GPU (GiB) and the prompt tokens of a step that SGLang chooses for it."""
_SGLANG_GIB_PER_CHUNK_TOKEN, _SGLANG_GRAPHS_GIB = 1.5 / 1024, 1.0
"""What SGLang leaves outside of weights and cache where `--mem-fraction-static` is not given (`ServerArgs` of 0.5)."""
_GIB = 2**30
_BITS = 8


def kv_cache_bits(model: Model, precision: str, engine: Engine) -> int:
    """Bits of one number of the KV cache unless the engine is told otherwise: 16, or 8 in TensorRT-LLM.

    Checkpoints that NVIDIA quantizes to 8 bits for TensorRT-LLM carry a scale for an 8-bit cache
    (`kv_cache_quant_algo`), which the engine follows. NIM does: Llama-3-8B in FP8 runs about 111 requests of 7000/1000
    tokens at once on one H100 before they queue, where 118 fit in 8 bits and 59 in 16. Models with MLA come in 8 bits
    from their makers, without such a scale. Of weights in 4 bits nothing was measured that tells clearly: 16, the
    careful end. vLLM and SGLang keep 16 bits (`kv_cache_dtype` auto).
    """
    narrow = engine is Engine.TENSORRT_LLM and model.attention is not Attention.MLA
    return _BITS if narrow and bytes_per_parameter(precision) == 1 else 2 * _BITS


def replica_memory(
    model: Model,
    gpu: Gpu,
    *,
    precision: str,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    input_tokens: float,
    output_tokens: float,
    engine: Engine = Engine.TENSORRT_LLM,
    weight_share: float = 1.0,
) -> Memory:
    """Memory of one GPU of a replica in GiB, and what the replica's KV cache holds.

    `KV = f * (total - other) - weights/(TP*PP) - activations`, a sequence reserves input + output tokens. The rule is
    the same for TensorRT-LLM and vLLM: their settings mean different things (a share of the memory that is free, of all
    memory), but where queues begin in measurements differs no more between the two than between two models. SGLang
    reserves an amount instead of a share. KV heads are spread over the GPUs and replicated where there are more GPUs
    than heads; an MLA cache has no heads and is whole on every GPU of a tensor-parallel group. Pipeline stages hold
    their own layers. Tokens are as wide as the engine keeps them (`kv_cache_bits`), and counted for sequences of the
    declared lengths, because windowed layers stop growing. `weight_share` is what a sparse model keeps of its weights.
    Raises `InvalidInput` for parallelism below 1 or for lengths that are not positive.
    """
    _check(tensor_parallel, pipeline_parallel, input_tokens, output_tokens)
    weights_gib = weight_share * model.weight_bytes(precision) / (tensor_parallel * pipeline_parallel) / _GIB
    if engine is Engine.SGLANG:
        other_gib = _sglang_reserve_gib(gpu)
        free_gib = gpu.memory_gib - other_gib - weights_gib
    else:
        other_gib = OTHER_GIB + ACTIVATIONS_GIB
        free_gib = USABLE_FRACTION * (gpu.memory_gib - OTHER_GIB) - weights_gib - ACTIVATIONS_GIB
    kv_cache_gib = max(0.0, free_gib)
    request_tokens = input_tokens + output_tokens
    share = largest_kv_share(model, tensor_parallel) * _largest_stage_share(model, pipeline_parallel)
    bits = kv_cache_bits(model, precision, engine)
    request_bytes_per_gpu = model.kv_bytes(request_tokens) * share * bits / (_BITS * KV_BYTES_PER_ELEMENT)
    requests = kv_cache_gib * _GIB / request_bytes_per_gpu
    return Memory(
        total_gib=gpu.memory_gib,
        weights_gib=weights_gib,
        other_gib=other_gib,
        kv_cache_gib=kv_cache_gib,
        kv_cache_tokens=math.floor(requests * request_tokens),
        max_concurrency=math.floor(requests),
        kv_cache_bits=bits,
    )


def _sglang_reserve_gib(gpu: Gpu) -> float:
    chunk = next(tokens for largest, tokens in _SGLANG_CHUNKS if gpu.memory_gib < largest)
    return _SGLANG_GIB_PER_CHUNK_TOKEN * chunk + _SGLANG_GRAPHS_GIB


def largest_kv_share(model: Model, tensor_parallel: int) -> float:
    """Share of a token's KV cache on the fullest GPU of a tensor-parallel group."""
    if model.attention is Attention.MLA:
        return 1.0
    return math.ceil(model.kv_heads / tensor_parallel) / model.kv_heads


def _largest_stage_share(model: Model, pipeline_parallel: int) -> float:
    """Share of the attention layers in the fullest pipeline stage."""
    return min(1.0, math.ceil(model.attention_layers / pipeline_parallel) / model.attention_layers)


def _check(tensor_parallel: int, pipeline_parallel: int, input_tokens: float, output_tokens: float) -> None:
    for field, ways in (
        ("hardware.tensorParallel", tensor_parallel),
        ("hardware.pipelineParallel", pipeline_parallel),
    ):
        if ways < 1:
            raise InvalidInput(field, f"{ways} is below 1", "use 1 or more")
    for field, tokens in (("traffic.inputTokens", input_tokens), ("traffic.outputTokens", output_tokens)):
        if not (math.isfinite(tokens) and tokens > 0):
            raise InvalidInput(field, f"{tokens} is not a positive number of tokens", "use 1 or more")
