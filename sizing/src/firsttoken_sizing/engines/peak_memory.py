"""Peak memory of a GPU that runs one static batch: what must fit where nothing is reserved ahead.

The reserves of `memory` are what an engine sets aside before it serves; this is what a batch of known size takes, built
up from its parts: weights, the KV cache of every token, the activations of the prompts, the logits, the CUDA context
and the communication buffers. Weights and cache are arithmetic; the rest has ten constants in the engine's file, fitted
to TensorRT-LLM 0.9.0 (`benchmarks/evaluation/memory.py`). It says nothing of speed, and nothing of the page cache of
the operating system, which a GH200 keeps in the memory of its GPU: 0 to 20 GB in that data.
"""

from __future__ import annotations

import math
from dataclasses import astuple

from firsttoken_sizing.catalog.gpus import Gpu
from firsttoken_sizing.catalog.models import KV_BYTES_PER_ELEMENT, Model
from firsttoken_sizing.catalog.precision import bytes_per_parameter
from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.engines.memory import largest_kv_share
from firsttoken_sizing.engines.spec import PeakConstants
from firsttoken_sizing.errors import InvalidInput

_GIB = 2**30
_HALF = 2
"""Bytes of a number in 16 bits: activations and embeddings stay at that in quantized engines."""
_RECENT = frozenset({"hopper", "blackwell"})
"""Architectures whose libraries take the larger share of memory (measured on Hopper; newer ones are taken for it)."""


def peak_memory_gib(
    model: Model,
    gpu: Gpu,
    *,
    precision: str,
    tensor_parallel: int = 1,
    batch: int,
    input_tokens: float,
    output_tokens: float,
    engine: Engine = DEFAULT,
    constants: PeakConstants | None = None,
) -> float:
    """Largest memory in use on one GPU, in GiB, while `batch` equal requests run from prompt to last token.

    The KV cache is as wide as the engine keeps it, and all prompts are computed at once. Raises `InvalidInput` for a
    batch, lengths or parallelism below 1, and for an engine without constants; `constants`: others than its own.
    """
    for field, value in (
        ("batch", batch),
        ("hardware.tensorParallel", tensor_parallel),
        ("traffic.inputTokens", input_tokens),
        ("traffic.outputTokens", output_tokens),
    ):
        if not (math.isfinite(value) and value >= 1):
            raise InvalidInput(field, f"{value} is below 1", "use 1 or more")
    constants = constants or engine.spec.peak_memory
    if constants is None:
        raise InvalidInput("sizing.engine", f"the peak memory of {engine} was not measured", f"use {DEFAULT}")
    known = held_gib(model, precision, tensor_parallel, batch, input_tokens + output_tokens, engine)
    amounts = fitted_amounts(model, gpu, precision, tensor_parallel, batch, input_tokens)
    values: tuple[float, ...] = astuple(constants)
    return known + sum(constant * amount for constant, amount in zip(values, amounts, strict=True))


def held_gib(
    model: Model, precision: str, tensor_parallel: int, batch: int, request_tokens: float, engine: Engine = DEFAULT
) -> float:
    """Weights and KV cache of one GPU in GiB: the part without fitted constants.

    Every GPU holds the whole table of input embeddings, and its share of the rest.
    """
    embeddings = model.vocabulary_size * model.hidden_size * _HALF
    weights = max(0.0, model.weight_bytes(precision) - embeddings) / tensor_parallel + embeddings
    kv_width = engine.spec.kv_cache_bits(model, precision) / (8 * KV_BYTES_PER_ELEMENT)
    cache = batch * model.kv_bytes(request_tokens) * kv_width * largest_kv_share(model, tensor_parallel)
    return (weights + cache) / _GIB


def fitted_amounts(
    model: Model, gpu: Gpu, precision: str, tensor_parallel: int, batch: int, input_tokens: float
) -> tuple[float, ...]:
    """Share of each constant of `PeakConstants`, in its order, that one GPU takes."""
    recent = gpu.architecture in _RECENT
    eight_bit = bytes_per_parameter(precision) <= 1
    peers = tensor_parallel - 1
    feed_forward = (model.intermediate_size or model.moe_intermediate_size or 0) * (2 if model.gated_ffn else 1)
    attention = (model.attention_heads + 2 * model.kv_heads) * (model.head_dim or 0)
    vectors = batch * input_tokens * _HALF / _GIB
    return (
        1.0,
        float(recent),
        vectors * model.hidden_size,
        vectors * model.hidden_size * eight_bit,
        vectors * feed_forward / tensor_parallel,
        vectors * attention / tensor_parallel,
        batch * model.vocabulary_size * _HALF / _GIB,
        float(peers),
        float(peers > 0),
        float(peers * (recent and gpu.has_server_wide_link)),
    )
