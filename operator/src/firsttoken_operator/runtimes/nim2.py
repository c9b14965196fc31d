"""NVIDIA NIM for LLMs 2.x and 3.x: vLLM or SGLang behind a proxy, told what was sized as flags of the engine.

`NIM_PASSTHROUGH_ARGS` goes before every variable and every tag of the profile (docs.nvidia.com, NIM for LLMs 2.0,
advanced configuration). The profile still chooses the checkpoint, and with it the precision.

Over several servers vLLM's executors are actors of Ray: the image's `nim-serve-ray` makes the cluster on the leader and
joins it on the workers, as NVIDIA's NIM Operator starts it (`internal/controller/platform/standalone/nimservice.go`).
"""

from __future__ import annotations

import shlex
from dataclasses import replace

from firsttoken_operator.runtimes import nim1, sglang, vllm
from firsttoken_operator.runtimes.settings import Given, Options, Speculation
from firsttoken_operator.runtimes.spec import LEADER_ADDRESS, ServedReplica, ServerRelease, Start
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput

_SINCE = (2, 0)
_PASSTHROUGH = "NIM_PASSTHROUGH_ARGS"
_RAY, _RAY_PORT = "nim-serve-ray", 6379
_MAKES, _JOINS, _PORT = "--head", "--head-address", "--port"
_TENSOR, _PIPELINE, _LENGTH = "tensor_parallel_size", "pipeline_parallel_size", "max_model_len"


def _start(served: ServedReplica) -> Start:
    if served.servers > 1:
        _check_group(served)
    flags = sglang.sized_flags(served) if served.engine is Engine.SGLANG else vllm.sized_flags(served)
    told = shlex.join((*flags, *served.flags))
    environment = {**nim1.environment(served), _PASSTHROUGH: told}
    if served.servers == 1:
        return Start(environment=environment)
    joins = (_JOINS, f"{LEADER_ADDRESS}:{_RAY_PORT}")
    makes = (_MAKES, _PORT, str(_RAY_PORT))
    # NB: a process of Ray cannot load the formatter of these logs, and does not start (docs.nvidia.com, NIM for LLMs
    # 3.0, multi-node deployment).
    environment[nim1.JSON_LOGS] = "0"
    return Start(arguments=(_RAY, *(joins if served.is_worker else makes)), environment=environment)


def _check_group(served: ServedReplica) -> None:
    """Raise `InvalidInput` for what is not started over several servers."""
    if served.engine is not Engine.VLLM:
        fix = "set VLLM, or run SGLang as runtime.type: SGLang"
        raise InvalidInput("sizing.engine", "NIM is started over several servers with vLLM inside only", fix)
    vllm.refuse_attention_groups("NIM", served)


def _read_drafts(given: Given) -> Speculation:
    of_vllm = vllm.read_drafts(given) if "speculative_config" in given else Speculation()
    return of_vllm if of_vllm.speculates else sglang.read_drafts(given)


def _either(of_vllm: tuple[str, ...], of_sglang: tuple[str, ...]) -> tuple[str, ...]:
    return tuple(dict.fromkeys((*of_vllm, *of_sglang)))


_OPTIONS = Options(
    # NB: its profile sets what no option does, and with 1.x nearly all; the image tells which engine it runs.
    starts=(("nim-serve",),),
    tensor_parallel=_either(vllm.OPTIONS.tensor_parallel, sglang.OPTIONS.tensor_parallel),
    pipeline_parallel=_either(vllm.OPTIONS.pipeline_parallel, sglang.OPTIONS.pipeline_parallel),
    data_parallel=_either(vllm.OPTIONS.data_parallel, sglang.OPTIONS.data_parallel),
    longest_tokens=_either(vllm.OPTIONS.longest_tokens, sglang.OPTIONS.longest_tokens),
    max_batch=_either(vllm.OPTIONS.max_batch, sglang.OPTIONS.max_batch),
    tokens_per_step=_either(vllm.OPTIONS.tokens_per_step, sglang.OPTIONS.tokens_per_step),
    kv_cache_bits=_either(vllm.OPTIONS.kv_cache_bits, sglang.OPTIONS.kv_cache_bits),
    memory_share=_either(vllm.OPTIONS.memory_share, sglang.OPTIONS.memory_share),
    drafts=_read_drafts,
    variables={nim1.TENSOR_VARIABLE: _TENSOR, nim1.PIPELINE_VARIABLE: _PIPELINE, "NIM_MAX_MODEL_LEN": _LENGTH},
    passed=_PASSTHROUGH,
)
CONTAINER = replace(
    nim1.CONTAINER,
    owned=(*nim1.CONTAINER.owned, _PASSTHROUGH),
    flags=(_MAKES, _JOINS, _PORT),
    settable=vllm.CONTAINER.settable,
    retired=vllm.CONTAINER.retired,
    start=_start,
    is_told=True,
    options=_OPTIONS,
    spans_since=_SINCE,
)
RELEASE = ServerRelease(_SINCE, (Engine.VLLM, Engine.SGLANG), CONTAINER)
