"""Behavior of the request's engine with a candidate: its way of batching, its packing rule, its options for both.

What tells the engines apart is in `engines`; here only the choice.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace

from firsttoken_sizing.declared import DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.engines.spec import EngineSettings, Release, Setup
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.evaluation import Evaluation
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.workload import Batching

_PROSE = {
    Batching.IN_FLIGHT: "in-flight batching",
    Batching.CHUNKED_PREFILL: "chunked prefill",
    Batching.STATIC: "static batching",
}


def batchings_of(engine: Engine, declared: tuple[Batching, ...]) -> tuple[Batching, ...]:
    """The declared ways of batching, else the one that the engine has as it is installed.

    Raises `InvalidInput` for one that the engine does not have.
    """
    for batching in declared:
        if batching not in engine.spec.batchings:
            problem = f"{engine.value} has no {_PROSE[batching]}"
            raise InvalidInput("sizing.batching", problem, f"remove {batching.value}, or set sizing.engine")
    return declared or (engine.spec.batching,)


def ranks_of(engine: Engine, key: ConfigurationKey) -> int:
    """Processes of a replica that each have the engine's limits for themselves."""
    return key.attention_data_parallel if engine.spec.limits_each_rank else 1


def scheduler_for(release: Release, batching: Batching, declared: DeclaredSettings, ranks: int = 1) -> Scheduler:
    """The packing rule of a replica of so many ranks, with a way of batching and a budget of tokens for each."""
    tokens = ranks * (declared.tokens_per_step or release.scheduler.tokens_per_step)
    chunked = batching is Batching.CHUNKED_PREFILL
    return replace(release.scheduler, chunked_prefill=chunked, tokens_per_step=tokens)


def check_whole_prompts(
    engine: Engine, batchings: Iterable[Batching], declared: DeclaredSettings, longest_prompt_tokens: float
) -> None:
    """Raise `InvalidInput` for a declared budget of a step that is below a prompt which the engine does not cut."""
    budget = declared.tokens_per_step
    whole = next((b for b in batchings if b is not Batching.CHUNKED_PREFILL), None)
    if budget is not None and whole is not None and budget < longest_prompt_tokens:
        raise InvalidInput(
            "sizing.engineSettings.maxBatchedTokens",
            f"{budget} is below a prompt of {longest_prompt_tokens:g} tokens, which {engine.value} computes in one step"
            f" with {_PROSE[whole]} and so would refuse",
            f"declare {math.ceil(longest_prompt_tokens)} or more, or sizing.batching: [ChunkedPrefill]",
        )


def most_sequences(
    engine: Engine,
    release: Release,
    batching: Batching,
    declared: DeclaredSettings,
    *,
    ranks: int = 1,
    offline: bool = False,
) -> int:
    """Sequences that a replica of so many ranks may run at once; of work that no caller waits for they are more.

    Where each takes a token of every step, no more than its budget holds.
    """
    most = ranks * (declared.max_batch or (release.offline_max_batch if offline else release.max_batch))
    budget = scheduler_for(release, batching, declared, ranks).tokens_per_step
    return min(most, budget) if engine.spec.step_holds_batch else most


def engine_settings(
    engine: Engine, evaluation: Evaluation, declared: DeclaredSettings, *, prefix_caching: bool
) -> EngineSettings:
    """The engine settings that the answer assumes, under the option names of that engine.

    Beside them `engine` and `batching` in our own words. Units are the engine's: tokens, sequences, a share of memory.
    """
    bound, memory = evaluation.bound, evaluation.bound.memory
    setup = Setup(
        key=evaluation.key,
        batching=bound.candidate.batching,
        scheduler=bound.scheduler,
        max_batch=bound.step.max_batch,
        kv_cache_bits=memory.kv_cache_bits,
        memory_share=(memory.weights_gib + memory.kv_cache_gib) / memory.total_gib,
        prefix_caching=prefix_caching,
        declared=declared,
    )
    return {"engine": engine.value, "batching": setup.batching.value, **engine.spec.settings(setup)}
