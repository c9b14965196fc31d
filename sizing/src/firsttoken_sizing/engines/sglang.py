"""SGLang 0.5."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING

from firsttoken_sizing.engines.clients import VariedClients
from firsttoken_sizing.engines.scheduler import KvAdmission, Scheduler
from firsttoken_sizing.engines.spec import (
    CURRENT,
    SIXTEEN_BITS,
    EngineSettings,
    EngineSpec,
    Release,
    Setup,
    sixteen_bits,
)
from firsttoken_sizing.workload import Batching

if TYPE_CHECKING:
    from firsttoken_sizing.catalog import Gpu

_CHUNKS = ((35.0, 2048), (60.0, 4096), (160.0, 8192), (math.inf, 16384))
"""Largest GPU (GiB) and the prompt tokens of a step that the engine chooses for it."""
_GIB_PER_CHUNK_TOKEN, _GRAPHS_GIB = 1.5 / 1024, 1.0


@dataclass(frozen=True, slots=True)
class _ReserveForChunk:
    """An amount that grows with the chunk is kept, not a share: where `mem_fraction_static` is not given."""

    def other_gib(self, gpu: Gpu) -> float:
        """Activations of one chunk, and CUDA graphs (`ServerArgs` of 0.5)."""
        chunk = next(tokens for largest, tokens in _CHUNKS if gpu.memory_gib < largest)
        return _GIB_PER_CHUNK_TOKEN * chunk + _GRAPHS_GIB

    def cache_gib(self, gpu: Gpu, weights_gib: float) -> float:
        """All the rest."""
        return gpu.memory_gib - self.other_gib(gpu) - weights_gib

    def with_share(self, share: float) -> _StaticShare:
        """The share that `mem_fraction_static` names."""
        return _StaticShare(share)


@dataclass(frozen=True, slots=True)
class _StaticShare:
    """Weights and KV cache take this share of a GPU together."""

    share: float

    def other_gib(self, gpu: Gpu) -> float:
        """All that they do not take."""
        return (1 - self.share) * gpu.memory_gib

    def cache_gib(self, gpu: Gpu, weights_gib: float) -> float:
        """The share without the weights."""
        return self.share * gpu.memory_gib - weights_gib

    def with_share(self, share: float) -> _StaticShare:
        """Another one."""
        return _StaticShare(share)


def _settings(setup: Setup) -> EngineSettings:
    """Names of `ServerArgs`. A chunk of -1 turns chunked prefill off."""
    groups = setup.key.attention_data_parallel
    spread: EngineSettings = {"dp_size": groups, "enable_dp_attention": True, "ep_size": setup.key.tensor_parallel}
    return {
        "tp_size": setup.key.tensor_parallel,
        "pp_size": setup.key.pipeline_parallel,
        **(spread if groups > 1 else {}),
        "max_running_requests": setup.max_batch,
        "chunked_prefill_size": setup.scheduler.tokens_per_step if setup.scheduler.chunked_prefill else -1,
        "max_prefill_tokens": setup.scheduler.tokens_per_step,
        "mem_fraction_static": setup.declared.memory_share or round(setup.memory_share, 3),
        "kv_cache_dtype": "auto" if setup.kv_cache_bits == SIXTEEN_BITS else "fp8_e4m3",
        "disable_radix_cache": not setup.prefix_caching,
    }


SPEC = EngineSpec(
    name="SGLang",
    aliases=("sglang",),
    releases=(
        Release(
            CURRENT,
            "engines of 2025 and 2026",
            scheduler=Scheduler(tokens_per_step=8192, chunked_prefill=True, steps_ahead=1),
            # NB: InferenceX runs it with --scheduler-recv-interval 10, and 30 from 16 clients on; the engine's default
            # is every step. Both numbers chosen by the TTFT of aic_silicon_agg.csv.
            varied_clients=VariedClients(front_end_seconds=0.1, steps_unseen=16),
            max_batch=256,
            offline_max_batch=4096,
            source="SGLang 0.5: chunked_prefill_size 8192 on GPUs of 80 GB; CUDA graphs up to a batch of 256; the"
            " overlap scheduler prepares a step while the one before it runs; max_running_requests from memory, at most"
            " 4096",
        ),
    ),
    batchings=frozenset({Batching.IN_FLIGHT, Batching.CHUNKED_PREFILL}),
    kv_admission=KvAdmission.PAGED,
    memory=_ReserveForChunk(),
    # `kv_cache_dtype` auto.
    kv_cache_bits=sixteen_bits,
    settings=_settings,
    # `max_prefill_tokens` counts prompts alone.
    step_holds_batch=False,
    # It divides `max_running_requests` and `chunked_prefill_size` among the groups.
    limits_each_rank=False,
)
