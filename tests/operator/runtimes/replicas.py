"""A replica as a server is told of it."""

from __future__ import annotations

from typing import Any

from firsttoken_operator.runtimes import RuntimeType
from firsttoken_operator.runtimes.replica import longest_tokens, replica_settings
from firsttoken_operator.runtimes.spec import ContainerSpec, ServedReplica, ServerRelease
from firsttoken_operator.runtimes.weights import weights_of
from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.profile import ConfigurationKey

MODEL = resolve_model("meta-llama/Llama-3.1-8B-Instruct")
KEY = ConfigurationKey(MODEL.name, "H100-SXM-80GB", "FP8", tensor_parallel=4, pipeline_parallel=2)


def release_of(container: ContainerSpec) -> ServerRelease:
    """The release that a container is of."""
    return next(r for runtime in RuntimeType for r in runtime.spec.releases if r.container is container)


def served(
    container: ContainerSpec, key: ConfigurationKey = KEY, *, checkpoint: str | None = "a/checkpoint", **fields: Any
) -> ServedReplica:
    """Everything that the server of the newest version is told of a replica, with a limit of 300 ms."""
    engine = release_of(container).engines[0]
    told: dict[str, Any] = {
        "key": key,
        "settings": replica_settings(MODEL, key, engine, None, prefix_caching=True),
        "engine": engine,
        "weights": weights_of(MODEL, key.precision, checkpoint),
        "name": "chat",
        "port": 8000,
        "metrics_port": container.metrics_port or 8000,
        "longest_tokens": longest_tokens(MODEL, key, engine, 2200),
        "drain_seconds": 105,
        "ttft_limit_seconds": 0.3,
        "version": (99, 0),
    }
    return ServedReplica(**(told | fields))
