"""Settings of a replica that follow from its configuration alone.

A replica that runs is never changed by what it is sized for: other traffic, or a new benchmark, would roll a fleet. So
the batch is that of the engine's release, and where memory holds fewer requests the engine admits by memory, as was
sized; and the longest request is what the model or the memory allows, and not what the traffic is declared to be.
"""

from __future__ import annotations

import math

from firsttoken_sizing.catalog import Model, resolve_gpu
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.memory import Memory, replica_memory
from firsttoken_sizing.engines.spec import CURRENT, EngineSettings, Setup
from firsttoken_sizing.optimize.engine import most_sequences, ranks_of, scheduler_for
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Batching, Workload

KEPT_FOR_CACHE = 0.8
"""Share of the estimated KV cache that one request may take: a server whose cache turns out smaller does not start."""
_LENGTH_STEP_TOKENS = 1024


def replica_settings(
    model: Model,
    key: ConfigurationKey,
    engine: Engine,
    batching: Batching | None,
    *,
    prefix_caching: bool,
    offline: bool = False,
    declared: DeclaredSettings = AS_INSTALLED,
) -> EngineSettings:
    """Settings of the engine under its own names. `batching`: None: as it is installed; `offline`: no caller waits."""
    release, memory = engine.spec.release(CURRENT), _memory(model, key, engine, declared)
    batching, ranks = batching or engine.spec.batching, ranks_of(engine, key)
    setup = Setup(
        key=key,
        batching=batching,
        scheduler=scheduler_for(release, batching, declared, ranks),
        max_batch=most_sequences(engine, release, batching, declared, ranks=ranks, offline=offline),
        kv_cache_bits=memory.kv_cache_bits,
        memory_share=(memory.weights_gib + memory.kv_cache_gib) / memory.total_gib,
        prefix_caching=prefix_caching,
        declared=declared,
    )
    return engine.spec.settings(setup)


def needed_tokens(load: Workload) -> float:
    """Tokens that one request takes at least, prompt and answer, where the traffic is as declared."""
    prompt, answer = max(load.input_tokens, load.input_tokens_p99 or 0), load.output_tokens
    return prompt + max(answer, load.output_tokens_p99 or 0)


def longest_tokens(
    model: Model,
    key: ConfigurationKey,
    engine: Engine,
    declared_tokens: float,
    declared: DeclaredSettings = AS_INSTALLED,
) -> int:
    """Tokens of the longest request: the model's context, or what memory holds; never less than is declared."""
    context, memory = model.max_context_tokens, _memory(model, key, engine, declared)
    if memory.max_concurrency >= 1 and memory.kv_cache_tokens_per_group * KEPT_FOR_CACHE >= context:
        return context
    held = math.floor(memory.kv_cache_tokens_per_group * KEPT_FOR_CACHE / _LENGTH_STEP_TOKENS) * _LENGTH_STEP_TOKENS
    return min(context, max(held, math.ceil(declared_tokens)))


def cache_bits_of(model: Model, key: ConfigurationKey, engine: Engine, declared: DeclaredSettings) -> int:
    """Bits of each number in the KV cache of a replica."""
    return _memory(model, key, engine, declared).kv_cache_bits


def _memory(model: Model, key: ConfigurationKey, engine: Engine, declared: DeclaredSettings) -> Memory:
    """Memory of a replica with one request of the whole context."""
    return replica_memory(
        model,
        resolve_gpu(key.gpu),
        precision=key.precision,
        tensor_parallel=key.tensor_parallel,
        pipeline_parallel=key.pipeline_parallel,
        attention_data_parallel=key.attention_data_parallel,
        input_tokens=model.max_context_tokens / 2,
        output_tokens=model.max_context_tokens / 2,
        engine=engine,
        declared=declared,
    )
