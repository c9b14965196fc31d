"""Settings that a replica was sized with, in the form in which those of its pods are read."""

from __future__ import annotations

import math
from dataclasses import replace

from firsttoken_operator.runtimes import CONTAINERS
from firsttoken_operator.runtimes.replica import cache_bits_of, needed_tokens, replica_settings
from firsttoken_operator.runtimes.settings import Options, SizedSettings, StartSettings
from firsttoken_sizing.catalog import Model
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Batching, SpeculativeDecoding, Workload


def sized_settings(
    model: Model,
    key: ConfigurationKey,
    engine: Engine,
    batching: Batching | None,
    *,
    load: Workload,
    declared: DeclaredSettings,
    drafts: SpeculativeDecoding | None,
    offline: bool = False,
) -> SizedSettings:
    """Say what a replica was sized with, to be held against what its pods are started with.

    `batching`: None: as the engine is installed. `drafts`: None: nothing speculates.
    """
    told = replace(
        _settings(model, key, engine, batching, declared, offline=offline),
        longest_tokens=math.ceil(needed_tokens(load)),
        speculates=drafts is not None,
        draft_tokens=drafts.draft_tokens if drafts else None,
        draft_method=drafts.method.value if drafts else None,
    )
    installed = _settings(model, key, engine, batching, AS_INSTALLED)
    groups = None if installed.data_parallel is None else 1
    alone = replace(installed, tensor_parallel=1, pipeline_parallel=1, data_parallel=groups)
    return SizedSettings(told, as_installed=alone)


def _settings(
    model: Model,
    key: ConfigurationKey,
    engine: Engine,
    batching: Batching | None,
    declared: DeclaredSettings,
    *,
    offline: bool = False,
) -> StartSettings:
    """Settings of an engine that is told these and nothing else, without speculation."""
    options = replica_settings(model, key, engine, batching, prefix_caching=False, offline=offline, declared=declared)
    words = _options_of(engine)
    said = words.settings({name: str(value) for name, value in options.items()})
    bits = cache_bits_of(model, key, engine, declared)
    groups = key.attention_data_parallel if words.data_parallel else None
    return replace(said, data_parallel=groups, kv_cache_bits=bits, speculates=False)


def _options_of(engine: Engine) -> Options:
    """Options of the engine's own server, whose names are those of the engine's settings."""
    return next(c.options for c in CONTAINERS if c.options is not None and c.options.engine is engine)
