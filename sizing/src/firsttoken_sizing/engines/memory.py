"""Memory fit: what of a GPU is left for the KV cache once the weights are there, and how many requests that holds.

Arithmetic only: whether too little is left is for the caller to say (`kv_cache_tokens` 0: the model does not fit;
`max_concurrency` 0: not even one request of the declared lengths does). See `Memory` in docs/design/sizing.md.
What one batch of known size takes is in `peak_memory`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_sizing.catalog.gpus import Gpu
from firsttoken_sizing.catalog.models import KV_BYTES_PER_ELEMENT, Attention, Model
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines import DEFAULT, Engine
from firsttoken_sizing.errors import InvalidInput

_GIB = 2**30
_BITS = 8


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of one GPU of a replica in GiB, and what fits into it."""

    total_gib: float
    weights_gib: float
    other_gib: float
    kv_cache_gib: float
    kv_cache_tokens: int
    """Tokens of KV cache that a whole replica holds."""
    max_concurrency: int
    """Requests of the declared lengths that fit at once if each reserves its whole input + output.

    Of all groups of attention, each of which holds whole requests.
    """
    measured_concurrency: int | None = None
    """Most requests that were measured running at once at these lengths; None where it was not measured.

    It may be more than `max_concurrency`: engines take memory for tokens as they are made, and the reserves of the
    memory formula are careful ones.
    """
    kv_cache_bits: int = 16
    """Bits of each number in the KV cache."""
    groups: int = 1
    """Groups of attention, which divide the tokens evenly: a request lives wholly in one."""

    @property
    def kv_cache_tokens_per_group(self) -> int:
        """Tokens of KV cache that one group of attention holds: the longest that a request can be."""
        return self.kv_cache_tokens // self.groups

    @property
    def kv_width(self) -> float:
        """Width of the numbers in the KV cache over the 16 bits that a model's bytes are counted with."""
        return self.kv_cache_bits / (_BITS * KV_BYTES_PER_ELEMENT)


def replica_memory(
    model: Model,
    gpu: Gpu,
    *,
    precision: str,
    tensor_parallel: int = 1,
    pipeline_parallel: int = 1,
    attention_data_parallel: int = 1,
    input_tokens: float,
    output_tokens: float,
    engine: Engine = DEFAULT,
    weight_share: float = 1.0,
    declared: DeclaredSettings = AS_INSTALLED,
) -> Memory:
    """Memory of one GPU of a replica in GiB, and what the replica's KV cache holds.

    What a GPU has for the cache beside its weights/(TP*PP) is the engine's `MemoryRule`; a sequence reserves input +
    output tokens, as wide as the engine keeps them, at the declared lengths, because windowed layers stop growing.
    `declared` are settings in place of those that the engine has as it is installed.
    Pipeline stages hold their own layers. With attention data parallelism each group has all weights but the routed
    experts, and the KV cache of its own requests. `weight_share` is what a sparse model keeps of its weights.
    Raises `InvalidInput` for parallelism below 1 or for lengths that are not positive.
    """
    _check(tensor_parallel, pipeline_parallel, attention_data_parallel, input_tokens, output_tokens)
    weights, experts = model.weight_bytes(precision), model.routed_expert_bytes(precision)
    held = weights + (weights - experts) * (attention_data_parallel - 1)
    weights_gib = weight_share * held / (tensor_parallel * pipeline_parallel) / _GIB
    rule = engine.spec.memory
    if declared.memory_share is not None:
        rule = rule.with_share(declared.memory_share)
    kv_cache_gib = max(0.0, rule.cache_gib(gpu, weights_gib))
    request_tokens = input_tokens + output_tokens
    fullest_stage = min(1.0, math.ceil(model.attention_layers / pipeline_parallel) / model.attention_layers)
    share = largest_kv_share(model, tensor_parallel, attention_data_parallel) * fullest_stage
    bits = declared.kv_cache_bits or engine.spec.kv_cache_bits(model, precision)
    request_bytes_per_gpu = model.kv_bytes(request_tokens) * share * bits / (_BITS * KV_BYTES_PER_ELEMENT)
    groups = attention_data_parallel
    requests_per_group = kv_cache_gib * _GIB / request_bytes_per_gpu / groups
    return Memory(
        total_gib=gpu.memory_gib,
        weights_gib=weights_gib,
        other_gib=rule.other_gib(gpu),
        kv_cache_gib=kv_cache_gib,
        kv_cache_tokens=groups * math.floor(requests_per_group * request_tokens),
        max_concurrency=groups * math.floor(requests_per_group),
        kv_cache_bits=bits,
        groups=groups,
    )


def largest_kv_share(model: Model, tensor_parallel: int, attention_data_parallel: int = 1) -> float:
    """Share of a token's KV cache on the fullest GPU of a tensor-parallel group: whole heads, or all that MLA has.

    With attention data parallelism that of a mean token, as requests are spread over the groups evenly.
    """
    if model.attention is Attention.MLA:
        return 1.0 / attention_data_parallel
    ways = tensor_parallel // attention_data_parallel
    return math.ceil(model.kv_heads / ways) / model.kv_heads / attention_data_parallel


def _check(
    tensor_parallel: int,
    pipeline_parallel: int,
    attention_data_parallel: int,
    input_tokens: float,
    output_tokens: float,
) -> None:
    for field, ways in (
        ("hardware.tensorParallel", tensor_parallel),
        ("hardware.pipelineParallel", pipeline_parallel),
        ("hardware.attentionDataParallel", attention_data_parallel),
    ):
        if ways < 1:
            raise InvalidInput(field, f"{ways} is below 1", "use 1 or more")
    if tensor_parallel % attention_data_parallel:
        problem = f"{attention_data_parallel} groups do not share {tensor_parallel} GPUs evenly"
        raise InvalidInput("hardware.attentionDataParallel", problem, "use hardware.tensorParallel or a divisor of it")
    for field, tokens in (("traffic.inputTokens", input_tokens), ("traffic.outputTokens", output_tokens)):
        if not (math.isfinite(tokens) and tokens > 0):
            raise InvalidInput(field, f"{tokens} is not a positive number of tokens", "use 1 or more")
