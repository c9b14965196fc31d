"""TensorRT-LLM, also as NIM for LLMs 1.x and as Triton's backend run it."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import TYPE_CHECKING

from firsttoken_sizing.catalog.models import Attention
from firsttoken_sizing.catalog.precision import bytes_per_parameter
from firsttoken_sizing.engines.clients import VariedClients
from firsttoken_sizing.engines.scheduler import PREFILL_TOKENS_PER_STEP, KvAdmission, Scheduler
from firsttoken_sizing.engines.spec import (
    CURRENT,
    SIXTEEN_BITS,
    EngineSettings,
    EngineSpec,
    PeakConstants,
    Release,
    Setup,
    ShareOfGpu,
)
from firsttoken_sizing.workload import Batching

if TYPE_CHECKING:
    from firsttoken_sizing.catalog import Model

RELEASE_2024 = "2024"
_USABLE_FRACTION = 0.90
"""Default of `free_gpu_memory_fraction`."""


PEAK_MEMORY = PeakConstants(
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


def _kv_cache_bits(model: Model, precision: str) -> int:
    """16, or 8 with weights in FP8, INT8 or NVFP4.

    Checkpoints that NVIDIA quantizes to them carry a scale for an 8-bit cache (`kv_cache_quant_algo`), which the
    engine follows. NIM does: Llama-3-8B in FP8 runs about 111 requests of 7000/1000 tokens at once on one H100 before
    they queue, where 118 fit in 8 bits and 59 in 16. Models with MLA come in 8 bits from their makers, without such a
    scale. Llama-3.1-70B in NVFP4 on B200 decodes faster than a 16-bit cache can be read (aic_silicon_agg.csv, 922/7373:
    with 8 bits the points are met within 0.5 %, with 16 within 1.9). Of other weights in 4 bits nothing was measured
    that tells clearly: 16, the careful end.
    """
    has_scale = (bytes_per_parameter(precision) == 1 or precision == "NVFP4") and model.attention is not Attention.MLA
    return SIXTEEN_BITS // 2 if has_scale else SIXTEEN_BITS


def _settings(setup: Setup) -> EngineSettings:
    """Names of the LLM API (`LlmArgs` and its `kv_cache_config`, `quant_config` and `scheduler_config`)."""
    static: EngineSettings = {"capacity_scheduler_policy": "STATIC_BATCH"}
    declared = setup.declared.kv_cache_bits is not None
    narrow: EngineSettings = {"kv_cache_quant_algo": "FP8" if declared else setup.key.precision}
    groups = setup.key.attention_data_parallel
    spread: EngineSettings = {"enable_attention_dp": True, "moe_expert_parallel_size": setup.key.tensor_parallel}
    return {
        "tensor_parallel_size": setup.key.tensor_parallel,
        "pipeline_parallel_size": setup.key.pipeline_parallel,
        **(spread if groups > 1 else {}),
        "max_batch_size": math.ceil(setup.max_batch / groups),
        "max_num_tokens": setup.scheduler.tokens_per_step // groups,
        "enable_chunked_prefill": setup.scheduler.chunked_prefill,
        "free_gpu_memory_fraction": setup.declared.memory_share or _USABLE_FRACTION,
        "enable_block_reuse": setup.prefix_caching,
        **(narrow if setup.kv_cache_bits < SIXTEEN_BITS else {}),
        **(static if setup.batching is Batching.STATIC else {}),
    }


_CURRENT = Release(
    CURRENT,
    "engines of 2025 and 2026",
    # NB: not the max_num_tokens of 8192 that trtllm-serve has had since 2024: the engines of NIM, which the shipped
    # fits come from, admitted four times that (see scheduler.py).
    scheduler=Scheduler(tokens_per_step=PREFILL_TOKENS_PER_STEP, chunked_prefill=False),
    # Chosen of 0.04 to 0.4 by the TTFT of aic_silicon_agg.csv (`performance.closed_loop_varied`).
    varied_clients=VariedClients(front_end_seconds=0.12),
    max_batch=256,
    # Of each rank; that of `BuildConfig` and `LlmArgs`, which trtllm-bench takes, too.
    offline_max_batch=2048,
    source="NIM for LLMs, measured (nim_dli.csv); enable_chunked_prefill is off in TensorRT-LLM; max_batch_size 2048,"
    " and batches of 1536 in the sweep of 0.9.0",
)
_OF_2024 = replace(
    _CURRENT,
    name=RELEASE_2024,
    about="0.9 and 0.10, as NIM shipped it in mid-2024 (the DLI course)",
    is_collected=False,
    varied_clients=None,
    is_old=True,
)

SPEC = EngineSpec(
    name="TensorRT-LLM",
    aliases=("nim", "trt", "tensorrt", "triton"),
    labels=("NIM_TRT-LLM",),
    releases=(_CURRENT, _OF_2024),
    batchings=frozenset(Batching),
    # GUARANTEED_NO_EVICT, the default of `capacity_scheduler_policy`.
    kv_admission=KvAdmission.RESERVED,
    memory=ShareOfGpu(_USABLE_FRACTION),
    kv_cache_bits=_kv_cache_bits,
    settings=_settings,
    attention_data_parallel_of_all=True,
    peak_memory=PEAK_MEMORY,
)
