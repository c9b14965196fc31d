"""Triton with TensorRT-LLM's llmapi backend (`tritonserver:YY.MM-trtllm-python-py3`): the repository of the image.

The model takes its file from `LLM_CONFIG_PATH` and is decoupled, so that first responses are counted; their histogram
is off unless asked for, and its bounds are those of the model's `config.pbtxt` (docs/design/runtimes.md 1.2).
"""

from __future__ import annotations

import json

from firsttoken_operator.runtimes import hugging_face
from firsttoken_operator.runtimes.settings import Drain, Options
from firsttoken_operator.runtimes.spec import (
    CONFIGURATION_PATH,
    ContainerSpec,
    RuntimeSpec,
    ServedReplica,
    ServerRelease,
    Start,
)
from firsttoken_operator.runtimes.trtllm_serve import checked_source, llm_options
from firsttoken_sizing.engines import Engine

_COMMAND = ("tritonserver",)
_REPOSITORY_PATH = "/app/all_models/llmapi"
_REPOSITORY, _HTTP, _GRPC, _EXIT = "--model-repository", "--http-port", "--grpc-port", "--exit-timeout-secs"
_ALLOW_METRICS, _METRICS, _METRICS_CONFIG = "--allow-metrics", "--metrics-port", "--metrics-config"
_GRPC_PORT = 8001
_FILE, _CONFIGURATION_VARIABLE = "model.json", "LLM_CONFIG_PATH"


def _start(served: ServedReplica) -> Start:
    told = served.settings
    options = llm_options(served) | {
        "model": checked_source(served),
        "backend": "pytorch",
        "tensor_parallel_size": served.key.tensor_parallel,
        "pipeline_parallel_size": served.key.pipeline_parallel,
        "max_batch_size": told["max_batch_size"],
        "max_num_tokens": told["max_num_tokens"],
        "max_seq_len": served.longest_tokens,
        # The backend batches inside its engine, and not as Triton does.
        "triton_config": {"max_batch_size": 0, "decoupled": True},
    }
    flags = (
        f"{_REPOSITORY}={_REPOSITORY_PATH}",
        f"{_HTTP}={served.port}",
        f"{_GRPC}={_GRPC_PORT}",
        f"{_ALLOW_METRICS}=true",
        f"{_METRICS}={served.metrics_port}",
        f"{_METRICS_CONFIG}=histogram_latencies=true",
        f"{_EXIT}={served.drain_seconds}",
    )
    environment = hugging_face.ENVIRONMENT | {_CONFIGURATION_VARIABLE: f"{CONFIGURATION_PATH}/{_FILE}"}
    files = {_FILE: json.dumps(options, sort_keys=True)}
    return Start(_COMMAND, (*flags, *served.flags), environment, drains=True, files=files)


CONTAINER = ContainerSpec(
    name="triton",
    user=hugging_face.USER,
    cache_path=hugging_face.CACHE_PATH,
    ready_path="/v2/health/ready",
    live_path="/v2/health/live",
    port=8000,
    metrics_path="/metrics",
    secret_variable=hugging_face.TOKEN,
    setting_prefixes=("TRTLLM", "TLLM", "NCCL"),
    owned=(*hugging_face.ENVIRONMENT, _CONFIGURATION_VARIABLE),
    defaults={},
    start=_start,
    metrics_port=8002,
    further_ports={"grpc": _GRPC_PORT},
    command=_COMMAND,
    # Its settings stand in files.
    options=Options(starts=(_COMMAND,), drain=Drain(_EXIT, 30.0)),
    flags=(_REPOSITORY, _HTTP, _GRPC, _ALLOW_METRICS, _METRICS, _METRICS_CONFIG, _EXIT),
    settable=("--log-verbose", "--grpc-infer-response-compression-level"),
)
SPEC = RuntimeSpec("Triton", (ServerRelease((25, 12), (Engine.TENSORRT_LLM,), CONTAINER),))
