"""Peak memory of a GPU that runs one static batch: what must fit where nothing is reserved ahead.

The reserves of `memory` are what an engine sets aside before it serves; this is what a batch of known size takes, built
up from its parts: weights, the KV cache of every token, the activations of the prompts, the logits, the CUDA context
and the communication buffers. Weights and cache are arithmetic; the rest has ten constants, fitted to TensorRT-LLM
0.9.0 (`benchmarks/evaluation/memory.py`). It says nothing of speed, and nothing of the page cache of the operating
system, which a GH200 keeps in the memory of its GPU: 0 to 20 GB in that data.
"""

from __future__ import annotations

import math
from dataclasses import astuple, dataclass

from firsttoken_sizing.catalog.gpus import Gpu
from firsttoken_sizing.catalog.models import KV_BYTES_PER_ELEMENT, Model
from firsttoken_sizing.catalog.precision import bytes_per_parameter
from firsttoken_sizing.engines import tensorrt_llm
from firsttoken_sizing.engines.memory import largest_kv_share
from firsttoken_sizing.errors import InvalidInput

_GIB = 2**30
_HALF = 2
"""Bytes of a number in 16 bits: activations and embeddings stay at that in quantized engines."""
_RECENT = frozenset({"hopper", "blackwell"})
"""Architectures whose libraries take the larger share of memory (measured on Hopper; newer ones are taken for it)."""


@dataclass(frozen=True, slots=True)
class PeakConstants:
    """Fitted constants. Gibibytes, or counts of 16-bit numbers kept alive for each token or vocabulary entry."""

    context_gib: float
    """CUDA context and libraries."""
    recent_context_gib: float
    """The same, on top, for Hopper and newer."""
    hidden_vectors: float
    """Vectors of the hidden size for each prompt token."""
    hidden_vectors_8_bit: float
    """The same, on top, where activations are quantized as well."""
    feed_forward_vectors: float
    """Vectors of the feed-forward width (both halves of a gated one), divided by TP."""
    attention_vectors: float
    """Vectors of the width of queries, keys and values, divided by TP."""
    logits_per_vocabulary_entry: float
    """Numbers for each entry of the vocabulary and sequence: logits and the workspace of sampling."""
    peer_gib: float
    """Communication buffers for each other GPU of the tensor-parallel group."""
    first_peer_gib: float
    """Memory that tensor parallelism takes however many GPUs."""
    linked_peer_gib: float
    """On top of `peer_gib` for each other GPU behind NVLink, on Hopper and newer."""


PEAK = PeakConstants(
    context_gib=0.5515,
    recent_context_gib=0.5595,
    hidden_vectors=4.039,
    hidden_vectors_8_bit=0.7705,
    feed_forward_vectors=1.516,
    attention_vectors=0.4001,
    logits_per_vocabulary_entry=14.3,
    peer_gib=0.3461,
    first_peer_gib=0.9453,
    linked_peer_gib=0.4874,
)
"""Fitted to the 58 configurations of NVIDIA's TensorRT-LLM 0.9.0 sweep (course DLI S-FX-18, trt_llm_0_9_0_dli.csv) by
`benchmarks/evaluation/memory.py`. Left out one at a time, the median error of the peak is 0.8 %, the mean 2.7 % (nearly
all of it on GH200)."""


def peak_memory_gib(
    model: Model,
    gpu: Gpu,
    *,
    precision: str,
    tensor_parallel: int = 1,
    batch: int,
    input_tokens: float,
    output_tokens: float,
    constants: PeakConstants = PEAK,
) -> float:
    """Largest memory in use on one GPU, in GiB, while `batch` equal requests run from prompt to last token.

    The KV cache is as wide as TensorRT-LLM keeps it (`tensorrt_llm`), and all prompts are computed at once.
    Raises `InvalidInput` for a batch, lengths or parallelism below 1.
    """
    for field, value in (
        ("batch", batch),
        ("hardware.tensorParallel", tensor_parallel),
        ("traffic.inputTokens", input_tokens),
        ("traffic.outputTokens", output_tokens),
    ):
        if not (math.isfinite(value) and value >= 1):
            raise InvalidInput(field, f"{value} is below 1", "use 1 or more")
    known = held_gib(model, precision, tensor_parallel, batch, input_tokens + output_tokens)
    amounts = fitted_amounts(model, gpu, precision, tensor_parallel, batch, input_tokens)
    values: tuple[float, ...] = astuple(constants)
    return known + sum(constant * amount for constant, amount in zip(values, amounts, strict=True))


def held_gib(model: Model, precision: str, tensor_parallel: int, batch: int, request_tokens: float) -> float:
    """Weights and KV cache of one GPU in GiB: the part without fitted constants.

    Every GPU holds the whole table of input embeddings, and its share of the rest.
    """
    embeddings = model.vocabulary_size * model.hidden_size * _HALF
    weights = max(0.0, model.weight_bytes(precision) - embeddings) / tensor_parallel + embeddings
    kv_width = tensorrt_llm.SPEC.kv_cache_bits(model, precision) / (8 * KV_BYTES_PER_ELEMENT)
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
