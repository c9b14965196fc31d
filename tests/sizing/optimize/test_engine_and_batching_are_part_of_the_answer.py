"""Engine settings that the answer assumes, in that engine's own options, and what another batching would take."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Basis, Hardware, Limit, Percentile, Sizing, Sla, size
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.spec import CURRENT
from firsttoken_sizing.engines.tensorrt_llm import RELEASE_2024
from firsttoken_sizing.report.document import sizing_json
from firsttoken_sizing.workload import Batching
from tests.fixtures.worked_examples import H100, call_center, call_center_profile

NAMES = {
    Engine.TENSORRT_LLM: {"max_num_tokens", "max_batch_size", "free_gpu_memory_fraction", "enable_block_reuse"},
    Engine.VLLM: {"max_num_batched_tokens", "max_num_seqs", "gpu_memory_utilization", "enable_prefix_caching"},
    Engine.SGLANG: {"chunked_prefill_size", "max_running_requests", "mem_fraction_static", "disable_radix_cache"},
}


@pytest.mark.parametrize("engine", list(Engine), ids=str)
def test_settings_have_the_names_of_the_engine(engine: Engine) -> None:
    sizing = size(replace(call_center(), engine=engine))

    assert NAMES[engine] <= set(sizing.engine_settings)
    assert sizing.request.engine is engine
    assert sizing.engine_settings["engine"] == engine.value
    assert sizing.engine_settings["batching"] == sizing.batching


@pytest.mark.parametrize(("cached", "caching"), [(0, False), (30, True)])
def test_prefix_caching_is_assumed_where_prompts_are_cached(cached: float, caching: bool) -> None:
    workload = replace(call_center().workload, cached_input_percent=cached)

    sizing = size(replace(call_center(), workload=workload))

    assert sizing.engine_settings["enable_block_reuse"] is caching


def test_an_engine_batches_as_it_is_installed_unless_it_is_told() -> None:
    assert size(replace(call_center(), engine=Engine.TENSORRT_LLM)).batching is Batching.IN_FLIGHT
    assert size(replace(call_center(), engine=Engine.VLLM)).batching is Batching.CHUNKED_PREFILL
    told = size(replace(call_center(), engine=Engine.VLLM, batchings=(Batching.IN_FLIGHT,)))
    assert told.engine_settings["enable_chunked_prefill"] is False


@pytest.mark.parametrize(("release", "expected"), [(RELEASE_2024, 8), (CURRENT, 256)])
def test_the_defaults_are_those_of_the_release_that_was_measured(
    monkeypatch: pytest.MonkeyPatch, release: str, expected: int
) -> None:
    """The shipped fits of Llama 3 8B are about the release of 2024."""
    spec = Engine.TENSORRT_LLM.spec
    changed = tuple(replace(each, max_batch=8) if each.name == release else each for each in spec.releases)
    monkeypatch.setattr(Engine.TENSORRT_LLM, "spec", replace(spec, releases=changed))

    assert size(replace(call_center(), profiles=())).engine_settings["max_batch_size"] == expected


def test_measured_points_count_for_the_batching_they_were_measured_with() -> None:
    in_flight, static = (size(replace(call_center(), batchings=(b,))) for b in (Batching.IN_FLIGHT, Batching.STATIC))

    assert in_flight.basis is Basis.MEASURED
    assert static.basis is Basis.FITTED


def test_of_several_ways_of_batching_the_cheapest_wins_and_the_others_are_listed() -> None:
    sizing = size(replace(call_center(arrivals=Arrivals.POISSON), batchings=tuple(Batching), profiles=()))

    same = [a for a in sizing.alternatives if a.configuration == sizing.configuration]
    assert {a.batching for a in same} | {sizing.batching} == set(Batching)
    static = next(a for a in same if a.batching is Batching.STATIC)
    assert static.gpus is None or static.gpus > sizing.gpus


def test_points_of_another_engine_are_not_used_and_that_is_said() -> None:
    of_vllm = replace(call_center_profile(), engine="vllm 0.10")

    sizing = size(call_center(profile=of_vllm))

    assert sizing.basis is not Basis.MEASURED
    assert any(w.startswith("OtherEngine: llama-3-8b-h100-fp8") for w in sizing.warnings)
    one_gpu = Hardware(gpus=(H100,), tensor_parallel=1)
    told = replace(call_center(profile=of_vllm), engine=Engine.VLLM, hardware=one_gpu)
    assert size(told).basis is Basis.MEASURED


@pytest.mark.slow
def test_separate_pools_are_compared_where_prompts_stall_tokens() -> None:
    def sized(sla: Sla) -> Sizing:
        return size(replace(call_center(arrivals=Arrivals.POISSON), sla=sla))

    limit = Limit(300, Percentile.P95)
    apart = sized(Sla(time_to_first_token=limit, inter_token_latency=Limit(12, Percentile.P95)))

    pools = apart.separate_pools
    assert pools is not None
    assert 10 < pools.gpus == pools.prefill.gpus + pools.decode.gpus < apart.gpus
    (line,) = (a for a in apart.alternatives if a.pools)
    assert line.gpus == pools.gpus
    assert line.configuration == pools.decode.configuration
    document = sizing_json(apart)["disaggregated"]
    assert document["prefill"]["workers"] * document["decodeWorkersPerPrefillWorker"] == pytest.approx(
        document["decode"]["workers"], abs=1e-3
    )
    assert document["itlMilliseconds"]["p95"] <= 12
    without = sized(Sla(time_to_first_token=limit))
    assert without.separate_pools is None
    assert sizing_json(without)["disaggregated"] is None
