"""Settings of an engine that were declared: the sizing uses them, and names them in its answer."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing.declared import DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.optimize.size import size
from firsttoken_sizing.request import Basis, Sizing, SizingRequest
from firsttoken_sizing.workload import Arrivals, Batching, Limit, Percentile, Sla
from tests.fixtures.worked_examples import call_center


def question(engine: Engine = Engine.VLLM, arrivals: Arrivals = Arrivals.CLOSED_LOOP) -> SizingRequest:
    return replace(
        call_center(arrivals=arrivals),
        model="meta-llama/Llama-3.1-8B-Instruct",
        precision="BF16",
        profiles=(),
        engine=engine,
        sla=Sla(end_to_end=Limit(20_000, Percentile.MEAN)),
    )


def sized(engine: Engine = Engine.VLLM, **declared: object) -> Sizing:
    return size(replace(question(engine), declared_settings=DeclaredSettings(**declared)))  # type: ignore[arg-type]


@pytest.mark.parametrize("engine", list(Engine), ids=str)
def test_a_smaller_batch_carries_less_and_is_what_the_engine_is_told(engine: Engine) -> None:
    plain, small = sized(engine), sized(engine, max_batch=16)

    assert small.concurrency_per_replica <= 16 < plain.concurrency_per_replica
    assert small.replicas > plain.replicas
    assert 16 in small.engine_settings.values()
    assert small.basis is plain.basis  # the same steps, of fewer sequences


@pytest.mark.parametrize("engine", list(Engine), ids=str)
def test_memory_and_the_format_of_the_cache_say_how_many_requests_fit(engine: Engine) -> None:
    plain, less, narrow = sized(engine), sized(engine, memory_share=0.6), sized(engine, kv_cache_bits=8)

    assert plain.memory is not None
    assert less.memory is not None
    assert narrow.memory is not None
    assert less.memory.kv_cache_tokens < plain.memory.kv_cache_tokens
    assert narrow.memory.kv_cache_tokens == pytest.approx(2 * plain.memory.kv_cache_tokens, rel=0.001)
    assert 0.6 in less.engine_settings.values()
    assert any("fp8" in str(value).casefold() for value in narrow.engine_settings.values())
    assert narrow.basis is Basis.EXTRAPOLATED


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.SGLANG], ids=str)
def test_a_smaller_chunk_is_the_budget_of_a_step(engine: Engine) -> None:
    poisson = question(engine, Arrivals.POISSON)
    plain = size(poisson)
    small = size(replace(poisson, declared_settings=DeclaredSettings(tokens_per_step=512)))

    assert 512 in small.engine_settings.values()
    assert small.ttft != plain.ttft


def test_points_of_an_engine_as_it_is_installed_say_nothing_of_another_budget_or_a_larger_batch() -> None:
    measured = call_center(ttft_milliseconds=500, percentile=Percentile.MEAN)

    def left_out(declared: DeclaredSettings) -> list[str]:
        warnings = size(replace(measured, declared_settings=declared)).warnings
        return [w.partition(" not used")[0] for w in warnings if w.startswith("OtherSettings")]

    def basis(declared: DeclaredSettings) -> tuple[Basis | None, float]:
        answer = size(replace(measured, declared_settings=declared))
        return answer.basis, answer.concurrency_per_replica

    assert basis(DeclaredSettings()) == (Basis.MEASURED, 25)
    assert basis(DeclaredSettings(max_batch=64)) == (Basis.MEASURED, 25)
    assert basis(DeclaredSettings(max_batch=10)) == (Basis.MEASURED, 10)
    assert basis(DeclaredSettings(tokens_per_step=2048))[0] is not Basis.MEASURED
    assert basis(DeclaredSettings(kv_cache_bits=16))[0] is Basis.EXTRAPOLATED
    # In FP8 the engine keeps 8 bits already.
    assert basis(DeclaredSettings(kv_cache_bits=8)) == (Basis.MEASURED, 25)
    assert left_out(DeclaredSettings()) == left_out(DeclaredSettings(kv_cache_bits=8)) == []
    assert left_out(DeclaredSettings(tokens_per_step=2048)) == ["OtherSettings: 8 measured points"]
    assert left_out(DeclaredSettings(max_batch=10)) == ["OtherSettings: 4 measured points"]


@pytest.mark.parametrize(("engine", "batching"), [(e, b) for e in Engine for b in Batching if b in e.spec.batchings])
def test_a_prompt_that_is_not_cut_fits_into_a_step(engine: Engine, batching: Batching) -> None:
    asked = replace(question(engine), batchings=(batching,))
    asked = replace(asked, workload=replace(asked.workload, input_tokens_p99=3000))

    def sized_with(tokens: int) -> Sizing:
        return size(replace(asked, declared_settings=DeclaredSettings(tokens_per_step=tokens)))

    assert sized_with(3000).feasible
    if batching is Batching.CHUNKED_PREFILL:
        assert sized_with(2999).feasible
    else:
        with pytest.raises(InvalidInput, match=r"maxBatchedTokens: 2999 is below a prompt of 3000 tokens"):
            sized_with(2999)


@pytest.mark.parametrize("engine", [Engine.VLLM, Engine.TENSORRT_LLM], ids=str)
@pytest.mark.parametrize("declared", [{"tokens_per_step": 128}, {"max_batch": 40_000}], ids=str)
def test_no_more_sequences_run_than_a_step_has_tokens(engine: Engine, declared: dict[str, int]) -> None:
    asked = replace(question(engine), batchings=(Batching.CHUNKED_PREFILL,))

    told = size(replace(asked, declared_settings=DeclaredSettings(**declared))).engine_settings

    sequences = told.get("max_num_seqs", told.get("max_batch_size"))
    tokens = told.get("max_num_batched_tokens", told.get("max_num_tokens"))
    assert isinstance(sequences, int)
    assert isinstance(tokens, int)
    assert sequences <= tokens


@pytest.mark.parametrize(
    ("declared", "said"),
    [
        (DeclaredSettings(max_batch=0), "maxBatchSize: 0 is not a positive number"),
        (DeclaredSettings(tokens_per_step=-1), "maxBatchedTokens: -1 is not a positive number"),
        (DeclaredSettings(memory_share=90.0), "gpuMemoryPercent: is outside 1 to 99"),
        (DeclaredSettings(kv_cache_bits=4), "kvCacheType: 4 bits are no format"),
    ],
)
def test_what_no_engine_takes_is_refused(declared: DeclaredSettings, said: str) -> None:
    with pytest.raises(InvalidInput, match=rf"^sizing\.engineSettings\.{said}"):
        size(replace(question(), declared_settings=declared))
