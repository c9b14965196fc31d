"""SGLang's own server: flags as 0.5.23 has them.

`/health` makes the engine answer, which takes a second at least and up to twenty under load, and says 503 from the
moment that the server is asked to stop; from then on it ends its answers itself, without a limit of its own.
"""

from __future__ import annotations

from firsttoken_operator.runtimes import hugging_face
from firsttoken_operator.runtimes.buckets import with_limit
from firsttoken_operator.runtimes.settings import Given, Options, Speculation, whole
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
from firsttoken_sizing.workload import DraftMethod

_SINCE = (0, 4)
_BOUNDS_SECONDS = (
    *(0.1, 0.2, 0.4, 0.6, 0.8, 1.0, 2.0, 4.0, 6.0, 8.0, 10.0, 20.0, 40.0, 60.0, 80.0, 100.0, 200.0, 400.0),
)
"""Bounds of the TTFT histogram, as installed."""
_TYPES = {"FP16": "float16", "BF16": "bfloat16"}
_CONVERSIONS = {"FP8": "fp8"}
_COMMAND = ("python3", "-m", "sglang.launch_server")
_MODEL, _MODEL_NAME, _HOST, _PORT = "--model-path", "--served-model-name", "--host", "--port"
_TENSOR, _PIPELINE, _LENGTH, _BATCH = "--tp-size", "--pp-size", "--context-length", "--max-running-requests"
_GROUPS, _OWN_ATTENTION, _EXPERTS = "--dp-size", "--enable-dp-attention", "--ep-size"
_CHUNK, _STEP, _MEMORY = "--chunked-prefill-size", "--max-prefill-tokens", "--mem-fraction-static"
_KV_TYPE, _TYPE, _QUANTIZATION = "--kv-cache-dtype", "--dtype", "--quantization"
_METRICS, _BUCKETS = "--enable-metrics", "--bucket-time-to-first-token"
_SERVERS, _NUMBER, _LEADER, _LEADER_PORT = "--nnodes", "--node-rank", "--dist-init-addr", 20000
_DRAFTS, _DRAFT_TOKENS = "--speculative-algorithm", "--speculative-num-draft-tokens"
_DRAFT_STEPS, _GUESSES = "--speculative-num-steps", "--speculative-eagle-topk"


def sized_flags(served: ServedReplica) -> list[str]:
    """The flags that the engine needs to be the one that was sized."""
    told = served.settings
    flags = [f"{_TENSOR}={served.key.tensor_parallel}"]
    if served.key.pipeline_parallel > 1:
        flags.append(f"{_PIPELINE}={served.key.pipeline_parallel}")
    if served.key.attention_data_parallel > 1:
        flags += [f"{_GROUPS}={told['dp_size']}", _OWN_ATTENTION, f"{_EXPERTS}={told['ep_size']}"]
    drafts: tuple[str, ...] = ()
    if served.drafts and served.draft_method is DraftMethod.MTP:
        # Layers of the checkpoint are a draft model like any other to it; one guess a step, and the token before them.
        drafts = (f"{_DRAFTS}=EAGLE", f"{_DRAFT_STEPS}={served.drafts}", f"{_GUESSES}=1")
        drafts += (f"{_DRAFT_TOKENS}={served.drafts + 1}",)
    elif served.drafts:
        drafts = (f"{_DRAFTS}=NGRAM", f"{_DRAFT_TOKENS}={served.drafts}")
    return [
        *flags,
        f"{_LENGTH}={served.longest_tokens}",
        f"{_BATCH}={told['max_running_requests']}",
        f"{_CHUNK}={told['chunked_prefill_size']}",
        f"{_STEP}={told['max_prefill_tokens']}",
        f"{_MEMORY}={told['mem_fraction_static']}",
        f"{_KV_TYPE}={told['kv_cache_dtype']}",
        _METRICS,
        *drafts,
    ]


def _start(served: ServedReplica) -> Start:
    conversion = served.weights.conversion("SGLang", _CONVERSIONS)
    flags = [
        f"{_MODEL}={served.weights.source}",
        f"{_MODEL_NAME}={served.name}",
        f"{_HOST}=0.0.0.0",
        f"{_PORT}={served.port}",
        *sized_flags(served),
    ]
    if conversion:
        flags.append(f"{_QUANTIZATION}={conversion}")
    elif served.weights.precision in _TYPES:
        flags.append(f"{_TYPE}={_TYPES[served.weights.precision]}")
    if served.servers > 1:
        leader = f"{_LEADER}={LEADER_ADDRESS}:{_LEADER_PORT}"
        flags += [f"{_SERVERS}={served.servers}", f"{_NUMBER}={SERVER_NUMBER}", leader]
    bounds = with_limit(_BOUNDS_SECONDS, served.ttft_limit_seconds)
    if bounds != _BOUNDS_SECONDS:
        flags += [_BUCKETS, *(f"{bound:g}" for bound in bounds)]
    return Start(_COMMAND, (*flags, *served.flags), dict(hugging_face.ENVIRONMENT), drains=True)


def read_drafts(given: Given) -> Speculation:
    """Read the speculative decoding of a start. Only of n-grams the drafts are a number of tokens, and not a tree."""
    algorithm = given.get("speculative_algorithm", given.get("speculative_algo"))
    if algorithm is None:
        return Speculation()
    if algorithm.upper() == "NGRAM":
        tokens = whole(given.get("speculative_num_draft_tokens", ""))
        return Speculation(True, tokens, DraftMethod.N_GRAM.value)
    # NB: EAGLE is its word for MTP, and for a draft model beside the checkpoint: which of both is not told of here.
    return Speculation(True)


OPTIONS = Options(
    starts=(_COMMAND[-1:], ("sglang", "serve")),
    engine=Engine.SGLANG,
    tensor_parallel=("tp_size", "tp", "tensor_parallel_size"),
    pipeline_parallel=("pp_size", "pp", "pipeline_parallel_size"),
    data_parallel=("dp_size", "dp", "data_parallel_size"),
    longest_tokens=("context_length",),
    max_batch=("max_running_requests",),
    tokens_per_step=("chunked_prefill_size",),
    kv_cache_bits=("kv_cache_dtype",),
    memory_share=("mem_fraction_static",),
    drafts=read_drafts,
    files=("config",),
)
CONTAINER = ContainerSpec(
    name="sglang",
    user=hugging_face.USER,
    cache_path=hugging_face.CACHE_PATH,
    ready_path="/health",
    live_path="/health",
    port=8000,
    metrics_path="/metrics",
    secret_variable=hugging_face.TOKEN,
    setting_prefixes=("SGLANG", "NCCL"),
    owned=tuple(hugging_face.ENVIRONMENT),
    defaults={},
    start=_start,
    answer_seconds=25,
    command=_COMMAND,
    options=OPTIONS,
    flags=(
        *(_MODEL, _MODEL_NAME, _HOST, _PORT, _TENSOR, _PIPELINE, _LENGTH, _BATCH, _CHUNK, _STEP, _MEMORY),
        *(_KV_TYPE, _TYPE, _QUANTIZATION, _METRICS, _BUCKETS, _DRAFTS, _DRAFT_TOKENS),
        *(_DRAFT_STEPS, _GUESSES),
        *(_SERVERS, _NUMBER, _LEADER),
        *(_GROUPS, _OWN_ATTENTION, _EXPERTS),
    ),
    settable=(
        *("--tool-call-parser", "--reasoning-parser", "--attention-backend", "--load-format", "--random-seed"),
        "--enable-cache-report",
    ),
    spans_since=_SINCE,
)
SPEC = RuntimeSpec("SGLang", (ServerRelease(_SINCE, (Engine.SGLANG,), CONTAINER),))
