"""Prefill and decode on pools of their own: what the transfer costs, which pool needs what, and when it pays."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.optimize import size
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance import disaggregated, poisson
from firsttoken_sizing.performance.batch_service import Served, serve
from firsttoken_sizing.performance.disaggregated import Worker, kv_transfer_seconds, predict_disaggregated
from firsttoken_sizing.performance.disaggregated_search import MOST_WORKERS, Disaggregated, size_disaggregated
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.performance.limits import meets
from firsttoken_sizing.profile import ConfigurationKey, Point
from firsttoken_sizing.request import SizingRequest
from firsttoken_sizing.simulation import Settings, drawn_requests, poisson_arrivals, simulate
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Hardware, Limit, Percentile, Sla, Workload

STEP = StepModel(13e-3, 2e-5, 2e-8, 7e-5, 2e-10, max_batch=256)
LENGTHS = Lengths(2000, 2000, 200)
ONE_PROMPT = Scheduler(tokens_per_step=2048)
TP4 = Worker(ConfigurationKey("llama3-70b", "H100-SXM-80GB", "FP8", 4), STEP, ONE_PROMPT)
TP2 = Worker(
    ConfigurationKey("llama3-70b", "H100-SXM-80GB", "FP8", 2), StepModel(20e-3, 3e-5, 4e-8, 1.25e-4, 4e-10), ONE_PROMPT
)
"""Half the GPUs, less than twice as slow: it decodes with fewer GPUs, and is late with prompts."""


def sla(ttft_ms: float, itl_ms: float) -> Sla:
    return Sla(time_to_first_token=Limit(ttft_ms, Percentile.P95), inter_token_latency=Limit(itl_ms, Percentile.MEAN))


def search(
    limits: Sla,
    rate: float = 40,
    lengths: Lengths = LENGTHS,
    workers: tuple[Worker, ...] = (TP4,),
    fewer_than: int | None = None,
) -> Disaggregated | None:
    return size_disaggregated(
        workers,
        lengths,
        rate,
        lambda p: meets(p, limits) is True,
        transfer_seconds=lambda *_: 0.01,
        fewer_than=fewer_than,
    )


def sized(
    limits: Sla, rate: float = 40, lengths: Lengths = LENGTHS, workers: tuple[Worker, ...] = (TP4,)
) -> Disaggregated:
    found = search(limits, rate, lengths, workers)
    assert found is not None
    return found


def predicted(prefill: int, decode: int, rate: float = 20, transfer: float = 0.0) -> Point:
    return predict_disaggregated(
        TP4, TP4, LENGTHS, rate, prefill_workers=prefill, decode_workers=decode, transfer_seconds=transfer
    )


def transfer_of_70b(prefill: int = 4, decode: int = 4, *, same_server: bool = False, kv_width: float = 1.0) -> float:
    return kv_transfer_seconds(
        resolve_model("llama3-70b"),
        resolve_gpu("H100-SXM-80GB"),
        input_tokens=2000,
        prefill_ways=prefill,
        decode_ways=decode,
        gpus_per_server=8,
        same_server=same_server,
        kv_width=kv_width,
    )


def test_the_kv_cache_of_a_prompt_goes_over_every_network_adapter() -> None:
    """Llama 3 70B: 327,680 bytes a token; with TP 4 each GPU sends a quarter at 0.94 * 50 GB/s."""
    assert transfer_of_70b() == pytest.approx(2000 * 327_680 / 4 / 47e9, rel=0.02)
    assert transfer_of_70b(kv_width=0.5) == pytest.approx(transfer_of_70b() / 2, rel=0.02)


def test_the_pool_with_fewer_gpus_a_worker_bounds_the_transfer() -> None:
    assert transfer_of_70b(prefill=8, decode=2) == transfer_of_70b(prefill=2, decode=2)
    assert transfer_of_70b(prefill=2, decode=8) == pytest.approx(transfer_of_70b(prefill=2, decode=2))
    assert transfer_of_70b(prefill=8, decode=8) < transfer_of_70b(prefill=8, decode=4) < transfer_of_70b(8, 2)


def test_every_gpu_that_decodes_gets_the_whole_latent_cache_of_mla() -> None:
    def seconds(prefill: int, decode: int) -> float:
        return kv_transfer_seconds(
            resolve_model("deepseek-ai/DeepSeek-R1"),
            resolve_gpu("H200-SXM-141GB"),
            input_tokens=20_000,
            prefill_ways=prefill,
            decode_ways=decode,
            gpus_per_server=8,
        )

    assert seconds(8, 8) == seconds(8, 4)
    assert seconds(4, 8) == pytest.approx(2 * seconds(8, 8), rel=0.02)


def test_a_group_of_one_gpu_gets_the_whole_cache_over_one_adapter() -> None:
    """With as many groups of attention as GPUs a prompt takes as long as between workers of one GPU."""
    answer = size(
        SizingRequest(
            "Qwen/Qwen3-235B-A22B",
            Workload(8000, 1000, peak_requests_per_second=60),
            sla(1500, 60),
            Hardware(("H100-SXM-80GB",), tensor_parallel=8, attention_data_parallel=8),
            precision="FP8",
            engine=Engine.VLLM,
        ),
    )
    model, gpu = resolve_model("Qwen/Qwen3-235B-A22B"), resolve_gpu("H100-SXM-80GB")
    of_one = kv_transfer_seconds(model, gpu, input_tokens=8000, prefill_ways=1, decode_ways=1, gpus_per_server=8)

    assert answer.separate_pools is not None
    assert answer.separate_pools.transfer_milliseconds == pytest.approx(1000 * of_one)


def test_inside_a_server_the_transfer_is_faster() -> None:
    assert transfer_of_70b(same_server=True) < transfer_of_70b() / 3


def test_the_transfer_adds_to_ttft_and_not_to_itl() -> None:
    near, far = predicted(8, 3), predicted(8, 3, transfer=0.5)

    assert far.ttft.p95 == pytest.approx(near.ttft.p95 + 500)  # type: ignore[operator]
    assert far.itl == near.itl


def test_the_prefill_pool_waits_as_the_simulation_does() -> None:
    """One worker that makes one token for each request is an engine with in-flight batching and OSL 1."""
    rate, lengths = 3.0, lengths_of(Workload(2000, 1, input_tokens_p99=6000))
    rng = np.random.default_rng(5)
    outcome = simulate(
        STEP, drawn_requests(lengths, poisson_arrivals(rate, 40_000, rng), rng), Settings(scheduler=ONE_PROMPT)
    )
    decode = predict_disaggregated(TP4, TP4, lengths, rate, prefill_workers=1, decode_workers=100, transfer_seconds=0)

    assert decode.ttft.mean == pytest.approx(1000 * outcome.ttft_s.mean(), rel=0.1)
    assert decode.ttft.p95 == pytest.approx(1000 * np.quantile(outcome.ttft_s, 0.95), rel=0.1)


def test_prompts_of_others_do_not_stall_tokens() -> None:
    """Aggregated, 18 requests/s of 2,000 prompt tokens on 8 workers leave ITL far above the step of the decode pool."""
    aggregated = poisson.predict(STEP, LENGTHS, 18 / 4)
    separate = predicted(6, 2, rate=18)

    assert separate.itl.p99 < aggregated.itl.mean  # type: ignore[operator]


def test_a_tight_itl_needs_fewer_gpus_than_aggregated_serving() -> None:
    limits = sla(600, 30)
    aggregated = poisson.capacity(STEP, LENGTHS, lambda p: meets(p, limits) is True)

    assert sized(limits).gpus < 4 * math.ceil(40 / aggregated)


def test_the_answer_keeps_the_sla_and_a_worker_less_breaks_it() -> None:
    limits = sla(600, 30)
    found = sized(limits)

    def kept(prefill: int, decode: int) -> bool:
        return meets(predicted(prefill, decode, rate=40, transfer=0.01), limits) is True

    most_prefill = 1 / (STEP.base_seconds + STEP.prefill_seconds(2000.0))
    most_decode = poisson.saturation_rate(STEP, replace(LENGTHS, uncached_input_tokens=1.0))
    assert kept(found.prefill_workers, found.decode_workers)
    assert found.gpus == 4 * (found.prefill_workers + found.decode_workers)
    assert found.point == predicted(found.prefill_workers, found.decode_workers, rate=40, transfer=0.01)
    for prefill, decode in (
        (found.prefill_workers - 1, found.decode_workers),
        (found.prefill_workers, found.decode_workers - 1),
    ):
        busiest = max(40 / (most * workers) for most, workers in ((most_prefill, prefill), (most_decode, decode)))
        assert busiest > PARAMETERS.capacity.max_utilization or not kept(prefill, decode)


@pytest.mark.parametrize(
    ("looser", "tighter"), [(sla(2000, 50), sla(600, 50)), (sla(600, 50), sla(600, 25))], ids=["TTFT", "ITL"]
)
def test_a_tighter_limit_never_needs_fewer_gpus(looser: Sla, tighter: Sla) -> None:
    assert sized(looser).gpus <= sized(tighter).gpus


def test_more_load_never_needs_fewer_gpus() -> None:
    gpus = [sized(sla(600, 40), rate).gpus for rate in (1, 5, 20, 60)]

    assert gpus == sorted(gpus)


def test_a_prompt_that_alone_takes_too_long_has_no_size() -> None:
    assert search(sla(100, 50), rate=10) is None


def test_each_pool_has_the_parallelism_that_suits_it() -> None:
    """A prompt alone takes 0.27 s with TP2, so the limit on TTFT leaves TP4; tokens come in time with either."""
    limits = sla(260, 60)
    mixed = sized(limits, workers=(TP4, TP2))

    assert (mixed.prefill, mixed.decode) == (TP4, TP2)
    assert mixed.gpus == 4 * mixed.prefill_workers + 2 * mixed.decode_workers < sized(limits).gpus
    assert search(limits, workers=(TP2,)) is None


def test_more_kinds_of_workers_never_need_more_gpus() -> None:
    for limits in (sla(260, 60), sla(600, 30), sla(2000, 100)):
        both = sized(limits, workers=(TP4, TP2)).gpus
        alone = [found.gpus for kind in (TP4, TP2) if (found := search(limits, workers=(kind,)))]

        assert both <= min(alone)
        assert both == sized(limits, workers=(TP2, TP4)).gpus


def test_only_answers_with_fewer_gpus_are_looked_for() -> None:
    limits = sla(600, 30)
    fewest = sized(limits).gpus

    assert search(limits, fewer_than=fewest) is None
    found = search(limits, fewer_than=fewest + 1)
    assert found is not None
    assert found.gpus == fewest


def test_cached_prompts_need_fewer_prefill_workers_and_no_fewer_decode_workers() -> None:
    limits = sla(600, 30)
    plain, cached = sized(limits), sized(limits, lengths=replace(LENGTHS, uncached_input_tokens=500))

    assert cached.prefill_workers < plain.prefill_workers
    assert cached.decode_workers >= plain.decode_workers - 1


@pytest.mark.parametrize("rate", [20_000.0, 1e6, 1e9])
def test_no_load_makes_the_search_simulate_more_than_the_most_workers(
    rate: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A queue before a million servers is a list of a million: one resource could take the memory of all."""
    asked: list[int] = []

    def counted(arrivals: Any, busy: Any, limit: int, servers: int) -> Served:
        asked.append(servers)
        return serve(arrivals, busy, limit, servers)

    monkeypatch.setattr(disaggregated, "serve", counted)
    found = search(sla(2000, 100), rate)

    assert max(asked, default=0) <= MOST_WORKERS
    assert (found is None) == (not asked), "what is too many for a pool is not simulated"
    if found is not None:
        assert max(found.prefill_workers, found.decode_workers) <= MOST_WORKERS
    assert (found is None) == (rate > 1e5)
