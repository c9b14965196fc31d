"""The engines as they are installed: how each packs a step and how many sequences it runs, unless told otherwise.

Facts of documentation and source, one place for all. How fast an engine is stands in `calibration`, how much memory it
keeps for the cache in `catalog.memory`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from firsttoken_sizing.step.scheduler import PREFILL_TOKENS_PER_STEP, Scheduler
from firsttoken_sizing.workload import Engine


@dataclass(frozen=True, slots=True)
class EngineDefaults:
    """What an engine does without settings."""

    scheduler: Scheduler
    max_batch: int
    """Sequences that run at once where memory allows."""
    source: str


ENGINES: Mapping[Engine, EngineDefaults] = MappingProxyType(
    {
        Engine.TENSORRT_LLM: EngineDefaults(
            # NB: not the max_num_tokens of 8192 that trtllm-serve has had since 2024: the engines of NIM, which the
            # shipped fits come from, admitted four times that (see step/scheduler.py).
            Scheduler(tokens_per_step=PREFILL_TOKENS_PER_STEP, chunked_prefill=False),
            max_batch=256,
            source="NIM for LLMs, measured (nim_dli.csv); enable_chunked_prefill is off in TensorRT-LLM",
        ),
        Engine.VLLM: EngineDefaults(
            # 8192 for the server on a GPU of 70 GiB or more, 2048 on a smaller one or an older release.
            Scheduler(tokens_per_step=8192, chunked_prefill=True, steps_ahead=1),
            max_batch=256,
            source="vLLM V1: chunked prefill on, max_num_batched_tokens 8192; max_num_seqs 256, on GPUs of 70 GiB or"
            " more 1024 in newer releases, of which 256 is the careful end; async scheduling one step ahead (pull"
            " request 19970), the default since 0.14",
        ),
        Engine.SGLANG: EngineDefaults(
            Scheduler(tokens_per_step=8192, chunked_prefill=True, steps_ahead=1),
            max_batch=256,
            source="SGLang 0.5: chunked_prefill_size 8192 on GPUs of 80 GB; CUDA graphs up to a batch of 256;"
            " the overlap scheduler prepares a step while the one before it runs",
        ),
    }
)
"""Every engine. A declared batch limit or chunk goes before these."""


def scheduler_of(engine: Engine) -> Scheduler:
    """How an engine packs work into a step unless it is configured otherwise."""
    return ENGINES[engine].scheduler


def max_batch_of(engine: Engine) -> int:
    """Most sequences that an engine runs at once unless it is configured otherwise (memory may allow fewer)."""
    return ENGINES[engine].max_batch
