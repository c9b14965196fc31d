"""trtllm-serve, TensorRT-LLM's own server: options as 1.2 has them, and a file for those that are no options.

It listens on the host's own name unless told otherwise. What is under way when it is asked to stop is not documented,
so it is asked late.
"""

from __future__ import annotations

import json

from firsttoken_operator.runtimes import hugging_face
from firsttoken_operator.runtimes.settings import Options
from firsttoken_operator.runtimes.spec import (
    CONFIGURATION_PATH,
    ContainerSpec,
    RuntimeSpec,
    ServedReplica,
    ServerRelease,
    Start,
)
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.workload import DraftMethod

_COMMAND = ("trtllm-serve",)
_HOST, _PORT, _TENSOR, _PIPELINE = "--host", "--port", "--tp_size", "--pp_size"
_LENGTH, _BATCH, _STEP = "--max_seq_len", "--max_batch_size", "--max_num_tokens"
_MEMORY, _OPTIONS = "--kv_cache_free_gpu_memory_fraction", "--extra_llm_api_options"
_FILE = "llm.json"
_LONGEST_N_GRAM = 4
_EIGHT_BITS = ("FP8", "NVFP4")
"""Values of `kv_cache_quant_algo` with which the cache is in FP8."""


def llm_options(served: ServedReplica) -> dict[str, object]:
    """Arguments of `LLM` that say how requests are packed and kept."""
    told = served.settings
    cache: dict[str, object] = {
        "dtype": "fp8" if told.get("kv_cache_quant_algo") in _EIGHT_BITS else "auto",
        "free_gpu_memory_fraction": told["free_gpu_memory_fraction"],
    }
    if told["enable_block_reuse"]:
        cache["enable_block_reuse"] = True
    options: dict[str, object] = {
        "kv_cache_config": cache,
        "enable_chunked_prefill": bool(told["enable_chunked_prefill"]),
    }
    if told.get("enable_attention_dp"):
        options["enable_attention_dp"] = True
        options["moe_expert_parallel_size"] = told["moe_expert_parallel_size"]
    if policy := told.get("capacity_scheduler_policy"):
        options["scheduler_config"] = {"capacity_scheduler_policy": policy}
    if served.drafts and served.draft_method is DraftMethod.MTP:
        options["speculative_config"] = {"decoding_type": "MTP", "num_nextn_predict_layers": served.drafts}
    elif served.drafts:
        options["speculative_config"] = {
            "decoding_type": "NGram",
            "max_draft_len": served.drafts,
            "max_matching_ngram_size": _LONGEST_N_GRAM,
        }
    return options


def checked_source(served: ServedReplica) -> str:
    """The checkpoint, which the engine converts from no other precision."""
    served.weights.conversion("TensorRT-LLM", {})
    return served.weights.source


def _start(served: ServedReplica) -> Start:
    told = served.settings
    flags = [
        checked_source(served),
        f"{_HOST}=0.0.0.0",
        f"{_PORT}={served.port}",
        f"{_TENSOR}={served.key.tensor_parallel}",
        f"{_PIPELINE}={served.key.pipeline_parallel}",
        f"{_LENGTH}={served.longest_tokens}",
        f"{_BATCH}={told['max_batch_size']}",
        f"{_STEP}={told['max_num_tokens']}",
        f"{_MEMORY}={told['free_gpu_memory_fraction']}",
        f"{_OPTIONS}={CONFIGURATION_PATH}/{_FILE}",
    ]
    # Without it there is no histogram of first tokens.
    options = llm_options(served) | {"return_perf_metrics": True}
    files = {_FILE: json.dumps(options, sort_keys=True)}
    return Start(_COMMAND, (*flags, *served.flags), dict(hugging_face.ENVIRONMENT), files=files)


OPTIONS = Options(
    starts=(_COMMAND,),
    engine=Engine.TENSORRT_LLM,
    # Those of releases since 1.2 are the names of the LLM API.
    tensor_parallel=("tp_size", "tensor_parallel_size"),
    pipeline_parallel=("pp_size", "pipeline_parallel_size"),
    longest_tokens=("max_seq_len",),
    max_batch=("max_batch_size",),
    tokens_per_step=("max_num_tokens",),
    memory_share=("kv_cache_free_gpu_memory_fraction", "free_gpu_memory_fraction"),
    files=("extra_llm_api_options", "config"),
)
CONTAINER = ContainerSpec(
    name="trtllm-serve",
    user=hugging_face.USER,
    cache_path=hugging_face.CACHE_PATH,
    ready_path="/health",
    live_path="/health",
    port=8000,
    metrics_path="/prometheus/metrics",
    secret_variable=hugging_face.TOKEN,
    setting_prefixes=("TRTLLM", "TLLM", "NCCL"),
    owned=tuple(hugging_face.ENVIRONMENT),
    defaults={},
    start=_start,
    command=_COMMAND,
    options=OPTIONS,
    flags=(_HOST, _PORT, _TENSOR, _PIPELINE, _LENGTH, _BATCH, _STEP, _MEMORY, _OPTIONS),
    settable=("--reasoning_parser", "--tool_parser", "--log_level", "--num_postprocess_workers"),
)
SPEC = RuntimeSpec("TRTLLMServe", (ServerRelease((1, 0), (Engine.TENSORRT_LLM,), CONTAINER),))
