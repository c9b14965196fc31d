"""vLLM V1, also as NIM for LLMs 2.x and 3.x run it."""

from __future__ import annotations

import math
from dataclasses import replace

from firsttoken_sizing.engines.clients import VariedClients
from firsttoken_sizing.engines.scheduler import KvAdmission, Scheduler
from firsttoken_sizing.engines.spec import (
    CURRENT,
    SIXTEEN_BITS,
    EngineSettings,
    EngineSpec,
    Release,
    Setup,
    ShareOfGpu,
    sixteen_bits,
)
from firsttoken_sizing.workload import Batching

RELEASE_0_15 = "0.15"
_USABLE_FRACTION = 0.90
"""Default of `gpu_memory_utilization`."""


def _settings(setup: Setup) -> EngineSettings:
    """Names of `EngineArgs`."""
    groups = setup.key.attention_data_parallel
    spread: EngineSettings = {"data_parallel_size": groups, "enable_expert_parallel": True}
    return {
        "tensor_parallel_size": setup.key.attention_ways,
        "pipeline_parallel_size": setup.key.pipeline_parallel,
        **(spread if groups > 1 else {}),
        "max_num_seqs": math.ceil(setup.max_batch / groups),
        "max_num_batched_tokens": setup.scheduler.tokens_per_step // groups,
        "enable_chunked_prefill": setup.scheduler.chunked_prefill,
        "gpu_memory_utilization": setup.declared.memory_share or _USABLE_FRACTION,
        "kv_cache_dtype": "auto" if setup.kv_cache_bits == SIXTEEN_BITS else "fp8",
        "enable_prefix_caching": setup.prefix_caching,
    }


_CURRENT = Release(
    CURRENT,
    "engines of 2025 and 2026",
    # 8192 for the server on a GPU of 70 GiB or more, 2048 on a smaller one.
    scheduler=Scheduler(tokens_per_step=8192, chunked_prefill=True, steps_ahead=1),
    # Chosen of 0.04 to 0.4 by the TTFT of aic_silicon_agg.csv (`performance.closed_loop_varied`).
    varied_clients=VariedClients(front_end_seconds=0.08),
    max_batch=256,
    offline_max_batch=1024,
    source="vLLM V1: chunked prefill on, max_num_batched_tokens 8192; max_num_seqs 256, on GPUs of 70 GiB or more 1024"
    " in newer releases, of which 256 is the careful end where a caller waits; async scheduling one step ahead (pull"
    " request 19970), the default since 0.14",
)

SPEC = EngineSpec(
    name="vLLM",
    aliases=("vllm",),
    releases=(_CURRENT, replace(_CURRENT, name=RELEASE_0_15, about="0.15.1 on H100, drawn to the current release")),
    batchings=frozenset({Batching.IN_FLIGHT, Batching.CHUNKED_PREFILL}),
    kv_admission=KvAdmission.PAGED,
    memory=ShareOfGpu(_USABLE_FRACTION),
    # `kv_cache_dtype` auto.
    kv_cache_bits=sixteen_bits,
    settings=_settings,
)
