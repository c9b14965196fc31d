"""What the request's engine does with a candidate: its way of batching, its packing rule, its own options for both.

What the engines do as they are installed is in `step.engines`; here only the choice.
"""

from __future__ import annotations

from dataclasses import replace

from firsttoken_sizing.catalog.memory import USABLE_FRACTION
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.evaluation import Evaluation
from firsttoken_sizing.step.engines import scheduler_of
from firsttoken_sizing.step.scheduler import Scheduler
from firsttoken_sizing.workload import Batching, Engine

Settings = dict[str, str | int | float]
_UNQUANTIZED_BITS = 16


def batchings_of(engine: Engine, declared: tuple[Batching, ...]) -> tuple[Batching, ...]:
    """The declared ways of batching, else the one that the engine has as it is installed.

    Raises `InvalidInput` for one that the engine does not have.
    """
    if Batching.STATIC in declared and engine is not Engine.TENSORRT_LLM:
        raise InvalidInput(
            "sizing.batching", f"{engine.value} has no static batching", "remove Static, or set sizing.engine"
        )
    return declared or (default_batching(engine),)


def default_batching(engine: Engine) -> Batching:
    """How an engine batches as it is installed."""
    return Batching.CHUNKED_PREFILL if scheduler_of(engine).chunked_prefill else Batching.IN_FLIGHT


def scheduler_for(engine: Engine, batching: Batching) -> Scheduler:
    """The packing rule of an engine that is set to a way of batching."""
    return replace(scheduler_of(engine), chunked_prefill=batching is Batching.CHUNKED_PREFILL)


def engine_settings(engine: Engine, evaluation: Evaluation, *, prefix_caching: bool) -> Settings:
    """The engine settings that the answer assumes, under the option names of that engine.

    Beside them `engine` and `batching` in our own words. Units are the engine's: tokens, sequences, a share of memory.
    """
    own = {Engine.TENSORRT_LLM: _tensorrt_llm, Engine.VLLM: _vllm, Engine.SGLANG: _sglang}[engine]
    return {"engine": engine.value, "batching": evaluation.candidate.batching.value, **own(evaluation, prefix_caching)}


def _tensorrt_llm(evaluation: Evaluation, prefix_caching: bool) -> Settings:
    """Names of the LLM API (`LlmArgs` and its `kv_cache_config`, `quant_config` and `scheduler_config`)."""
    static: Settings = {"capacity_scheduler_policy": "STATIC_BATCH"}
    narrow: Settings = {"kv_cache_quant_algo": evaluation.key.precision}
    return {
        "tensor_parallel_size": evaluation.key.tensor_parallel,
        "pipeline_parallel_size": evaluation.key.pipeline_parallel,
        "max_batch_size": evaluation.step.max_batch,
        "max_num_tokens": evaluation.scheduler.tokens_per_step,
        "enable_chunked_prefill": evaluation.scheduler.chunked_prefill,
        "free_gpu_memory_fraction": USABLE_FRACTION,
        "enable_block_reuse": prefix_caching,
        **(narrow if evaluation.memory.kv_cache_bits < _UNQUANTIZED_BITS else {}),
        **(static if evaluation.candidate.batching is Batching.STATIC else {}),
    }


def _vllm(evaluation: Evaluation, prefix_caching: bool) -> Settings:
    """Names of `EngineArgs`."""
    return {
        "tensor_parallel_size": evaluation.key.tensor_parallel,
        "pipeline_parallel_size": evaluation.key.pipeline_parallel,
        "max_num_seqs": evaluation.step.max_batch,
        "max_num_batched_tokens": evaluation.scheduler.tokens_per_step,
        "enable_chunked_prefill": evaluation.scheduler.chunked_prefill,
        "gpu_memory_utilization": USABLE_FRACTION,
        "kv_cache_dtype": "auto",
        "enable_prefix_caching": prefix_caching,
    }


def _sglang(evaluation: Evaluation, prefix_caching: bool) -> Settings:
    """Names of `ServerArgs`. A chunk of -1 is how SGLang turns chunked prefill off."""
    memory = evaluation.memory
    return {
        "tp_size": evaluation.key.tensor_parallel,
        "pp_size": evaluation.key.pipeline_parallel,
        "max_running_requests": evaluation.step.max_batch,
        "chunked_prefill_size": evaluation.scheduler.tokens_per_step if evaluation.scheduler.chunked_prefill else -1,
        "max_prefill_tokens": evaluation.scheduler.tokens_per_step,
        "mem_fraction_static": round((memory.weights_gib + memory.kv_cache_gib) / memory.total_gib, 3),
        "kv_cache_dtype": "auto",
        "disable_radix_cache": not prefix_caching,
    }
