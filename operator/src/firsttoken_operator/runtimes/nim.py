"""NVIDIA NIM for LLMs 1.x."""

from __future__ import annotations

from firsttoken_operator.runtimes.spec import ContainerSpec, RuntimeSpec
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import ConfigurationKey

_CACHE_VARIABLE, _CACHE_PATH = "NIM_CACHE_PATH", "/model-store"
_PORT_VARIABLE = "NIM_SERVER_PORT"
_TENSOR_VARIABLE, _PIPELINE_VARIABLE = "NIM_TENSOR_PARALLEL_SIZE", "NIM_PIPELINE_PARALLEL_SIZE"


def _environment(port: int, key: ConfigurationKey) -> dict[str, str]:
    values = {
        _CACHE_VARIABLE: _CACHE_PATH,
        _PORT_VARIABLE: str(port),
        # The engine picks its profile from the GPUs it sees: without this it may run another one than was sized.
        _TENSOR_VARIABLE: str(key.tensor_parallel),
    }
    if key.pipeline_parallel > 1:
        values[_PIPELINE_VARIABLE] = str(key.pipeline_parallel)
    return values


CONTAINER = ContainerSpec(
    name="nim",
    user=1000,
    cache_path=_CACHE_PATH,
    ready_path="/v1/health/ready",
    live_path="/v1/health/live",
    port=8000,
    metrics_path="/v1/metrics",
    secret_variable="NGC_API_KEY",
    setting_pattern=r"^NIM_[A-Z0-9_]+$",
    owned=(_CACHE_VARIABLE, _PORT_VARIABLE, _TENSOR_VARIABLE, _PIPELINE_VARIABLE),
    defaults={"NIM_JSONL_LOGGING": "1", "NIM_LOG_LEVEL": "INFO"},
    environment=_environment,
)
SPEC = RuntimeSpec("NIM", Engine.TENSORRT_LLM, CONTAINER)
