"""NVIDIA NIM for LLMs 1.x: told by variables, it picks its profile, and with that the precision, by its GPUs."""

from __future__ import annotations

from firsttoken_operator.runtimes.spec import ContainerSpec, ServedReplica, ServerRelease, Start
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput

_CACHE_VARIABLE, _CACHE_PATH = "NIM_CACHE_PATH", "/model-store"
_PORT_VARIABLE = "NIM_SERVER_PORT"
JSON_LOGS = "NIM_JSONL_LOGGING"
TENSOR_VARIABLE, PIPELINE_VARIABLE = "NIM_TENSOR_PARALLEL_SIZE", "NIM_PIPELINE_PARALLEL_SIZE"


def environment(served: ServedReplica) -> dict[str, str]:
    """The variables that every NIM is told."""
    values = {
        _CACHE_VARIABLE: _CACHE_PATH,
        _PORT_VARIABLE: str(served.port),
        # The engine picks its profile from the GPUs it sees: without this it may run another one than was sized.
        TENSOR_VARIABLE: str(served.key.tensor_parallel),
    }
    if served.key.pipeline_parallel > 1:
        values[PIPELINE_VARIABLE] = str(served.key.pipeline_parallel)
    return values


def _start(served: ServedReplica) -> Start:
    if not served.is_as_installed:
        raise InvalidInput(
            "sizing.engineSettings",
            "NIM 1.x takes no settings of its engine: its profile has them",
            "remove it, or run NIM 2.x or another runtime.type",
        )
    if served.key.attention_data_parallel > 1:
        problem = "NIM 1.x has no attention data parallelism that could be set: its profile decides"
        raise InvalidInput("hardware.attentionDataParallel", problem, "set 1, or run another runtime.type")
    # NB: how it ends is not documented.
    return Start(environment=environment(served), drains=True)


CONTAINER = ContainerSpec(
    name="nim",
    user=1000,
    cache_path=_CACHE_PATH,
    ready_path="/v1/health/ready",
    live_path="/v1/health/live",
    port=8000,
    metrics_path="/v1/metrics",
    secret_variable="NGC_API_KEY",
    setting_prefixes=("NIM",),
    owned=(_CACHE_VARIABLE, _PORT_VARIABLE, TENSOR_VARIABLE, PIPELINE_VARIABLE),
    defaults={JSON_LOGS: "1", "NIM_LOG_LEVEL": "INFO"},
    start=_start,
    is_told=False,
)
RELEASE = ServerRelease((1, 0), (Engine.TENSORRT_LLM, Engine.VLLM, Engine.SGLANG), CONTAINER)
