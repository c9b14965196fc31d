"""Server of a rendered replica: everything that it is told, from the resource and the configuration that was sized."""

from __future__ import annotations

from firsttoken_operator.api.convert import is_as_installed, workload
from firsttoken_operator.api.engine_settings import declared_settings
from firsttoken_operator.api.inference_deployment import InferenceDeployment
from firsttoken_operator.api.runtime import Runtime
from firsttoken_operator.domain import ENDPOINT_REMOVAL_SECONDS
from firsttoken_operator.runtimes.replica import longest_tokens, needed_tokens, replica_settings
from firsttoken_operator.runtimes.spec import ServedReplica, ServerRelease, Version
from firsttoken_operator.runtimes.weights import weights_of
from firsttoken_sizing.catalog import Model, resolve_gpu, resolve_model
from firsttoken_sizing.catalog.architecture import model_from_config
from firsttoken_sizing.declared import AS_INSTALLED
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import DraftMethod, SlaMode

_EXIT_SECONDS = 5
"""Kept of the grace period for the end of the process itself."""
_GPU_RESOURCE = "nvidia.com/gpu"


def served_replica(resource: InferenceDeployment, runtime: Runtime, key: ConfigurationKey) -> ServedReplica:
    """Put together all that the server of one replica is told.

    Raises `InvalidInput` for what is no configuration of the server, or of the GPUs that pods can ask for.
    """
    spec, engine = resource.spec, _engine(resource, runtime)
    if (gpu := resolve_gpu(key.gpu)).resource_name != _GPU_RESOURCE:
        raise InvalidInput("hardware.gpus", f"{gpu.name} is no {_GPU_RESOURCE}", "deploy it yourself and set targetRef")
    if len(spec.sizing.batching) > 1:
        problem = "a replica runs one way of batching, and the fastest may change with a benchmark"
        raise InvalidInput("sizing.batching", problem, "name the one that the pods shall run")
    return _replica(
        resource,
        key,
        engine,
        checkpoint=runtime.checkpoint,
        port=runtime.port,
        metrics_port=metrics_port(runtime),
        max_sequence_tokens=runtime.max_sequence_tokens,
        drain_seconds=drain_seconds(runtime),
        version=runtime.server_version,
        flags=runtime.flags,
    )


def _replica(
    resource: InferenceDeployment,
    key: ConfigurationKey,
    engine: Engine,
    *,
    checkpoint: str | None,
    port: int,
    metrics_port: int,
    max_sequence_tokens: int | None,
    drain_seconds: int,
    version: Version | None,
    flags: tuple[str, ...],
) -> ServedReplica:
    spec, model = resource.spec, _model(resource)
    load, limit = workload(spec.traffic), spec.sla.time_to_first_token
    settings, drafts = declared_settings(spec.sizing.engine_settings), spec.sizing.speculative_decoding
    return ServedReplica(
        key=key,
        settings=replica_settings(
            model,
            key,
            engine,
            next(iter(spec.sizing.batching), None),
            prefix_caching=load.cached_input_percent > 0,
            offline=spec.sla.mode is SlaMode.OFFLINE and not is_as_installed(spec),
            declared=settings,
        ),
        drafts=drafts.draft_tokens if drafts else 0,
        draft_method=drafts.method if drafts else DraftMethod.N_GRAM,
        is_as_installed=settings == AS_INSTALLED,
        engine=engine,
        weights=weights_of(model, key.precision, checkpoint),
        name=spec.model.name,
        port=port,
        metrics_port=metrics_port,
        longest_tokens=max_sequence_tokens or longest_tokens(model, key, engine, needed_tokens(load), settings),
        drain_seconds=drain_seconds,
        ttft_limit_seconds=limit.milliseconds / 1000 if limit else None,
        version=version,
        flags=flags,
    )


def described_replica(
    resource: InferenceDeployment, key: ConfigurationKey, engine: Engine, release: ServerRelease
) -> ServedReplica:
    """Describe a replica to a server of this release that could run it, with ports and drain as a runtime has them.

    Raises `InvalidInput` for a precision that the server cannot make of the model's own checkpoint.
    """
    container, runtime = release.container, resource.spec.runtime
    if runtime is not None:
        return served_replica(resource, runtime, key)
    grace_seconds = Runtime.model_fields["termination_grace_period_seconds"].default
    return _replica(
        resource,
        key,
        engine,
        checkpoint=None,
        port=container.port,
        metrics_port=container.metrics_port or container.port,
        max_sequence_tokens=None,
        drain_seconds=grace_seconds - ENDPOINT_REMOVAL_SECONDS - _EXIT_SECONDS,
        version=release.since,
        flags=(),
    )


def metrics_port(runtime: Runtime) -> int:
    """Port of the metrics: the declared one, else the server's, else that of the API."""
    return runtime.metrics_port or runtime.release.container.metrics_port or runtime.port


def sleep_seconds(runtime: Runtime, *, drains: bool) -> int:
    """Time that a pod waits before its server is asked to stop.

    Until its endpoint is gone; and with a server that would break off its answers, for nearly all of its grace period.
    """
    grace_seconds = runtime.termination_grace_period_seconds
    at_least = min(ENDPOINT_REMOVAL_SECONDS, grace_seconds // 2)
    return at_least if drains else max(at_least, grace_seconds - _EXIT_SECONDS)


def drain_seconds(runtime: Runtime) -> int:
    """Time that is left of the grace period for a server that ends its answers itself."""
    left = runtime.termination_grace_period_seconds - sleep_seconds(runtime, drains=True)
    return max(left - _EXIT_SECONDS, left // 2)


def _engine(resource: InferenceDeployment, runtime: Runtime) -> Engine:
    engines = runtime.release.engines
    engine = resource.spec.sizing.engine or engines[0]
    if engine not in engines:
        raise InvalidInput("sizing.engine", f"{runtime.type} runs no {engine}", f"set it to {' or '.join(engines)}")
    return engine


def _model(resource: InferenceDeployment) -> Model:
    model = resource.spec.model
    if model.architecture is None:
        return resolve_model(model.name)
    return model_from_config(model.name, model.architecture.model_dump(exclude_none=True))
