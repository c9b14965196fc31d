from __future__ import annotations

import numpy as np
import pytest

from firsttoken_sizing import Arrivals, Hardware, Limit, Percentile, SizingRequest, Sla, Workload
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.simulation import KvAdmission, Settings, equal_requests, poisson_arrivals, simulate
from firsttoken_sizing.simulation.load import FleetLoad, Process, simulate_load
from firsttoken_sizing.simulation.outcome import summarize
from firsttoken_sizing.simulation.subject import Subject, subject_of
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Batching

STEP = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)
KEY = ConfigurationKey("meta-llama/Meta-Llama-3-8B-Instruct", "H100-SXM-80GB", "FP8", 1)


def subject() -> Subject:
    return Subject(KEY, Engine.TENSORRT_LLM, Lengths(500, 500, 100), STEP, Settings(), "made up")


def request(engine: Engine = Engine.TENSORRT_LLM, tokens: float = 2000) -> SizingRequest:
    return SizingRequest(
        model=KEY.model,
        precision="FP8",
        workload=Workload(tokens, 200, peak_requests_per_second=20),
        sla=Sla(time_to_first_token=Limit(300, Percentile.P95)),
        hardware=Hardware((KEY.gpu,), tensor_parallel=1),
        arrivals=Arrivals.POISSON,
        engine=engine,
    )


def test_only_what_was_sent_in_the_window_has_latencies() -> None:
    requests = equal_requests(Lengths(500, 500, 100), poisson_arrivals(10.0, 1000, np.random.default_rng(1)))
    outcome = simulate(STEP, requests, Settings(count_from_s=20, count_until_s=80))

    summary = summarize(outcome, 20, 80, kv_cache_tokens=100_000)

    sent = (requests.arrival_s >= 20) & (requests.arrival_s < 80)
    assert summary.requests == sent.sum()
    assert summary.ttft.mean == pytest.approx(1000 * outcome.ttft_s[sent].mean())
    assert summary.requests_per_second == pytest.approx(10, rel=0.15)
    # Little's law inside the window: mean number = rate x time in the batch, over all of the time.
    present = summary.mean_batch * summary.busy_percent / 100
    assert present == pytest.approx(summary.requests_per_second * (summary.end_to_end.mean or 0) / 1000, rel=0.05)
    assert summary.kv_peak_percent is not None
    assert 1 < summary.kv_peak_percent < 100


def test_what_is_not_known_is_not_zero() -> None:
    single = simulate(STEP, equal_requests(Lengths(500, 500, 1), np.array([0.0])))

    summary = summarize(single, 0, 1, kv_cache_tokens=None)

    assert summary.itl.mean is None
    assert summary.kv_peak_percent is None
    with pytest.raises(ValueError, match="no request"):
        summarize(single, 1, 2, kv_cache_tokens=None)


@pytest.mark.parametrize(
    "load",
    [
        FleetLoad(Process.POISSON, 100, rate=20),
        FleetLoad(Process.BURSTY, 100, rate=20, gap_variation=3),
        FleetLoad(Process.CLOSED, 100, concurrency=15),
    ],
    ids=lambda load: load.process.value,
)
def test_a_load_lasts_as_long_as_it_was_asked_for(load: FleetLoad) -> None:
    outcome, settings = simulate_load(subject(), Settings(replicas=2), load)

    assert outcome.arrival_s.max() > 99
    assert (settings.count_from_s, settings.count_until_s) == (10, 100)
    assert 89 < outcome.counted_s <= 90
    assert set(outcome.replica.tolist()) == {0, 1}


def test_another_seed_is_another_load_and_the_same_seed_the_same() -> None:
    first, again, other = (
        simulate_load(subject(), Settings(replicas=2), FleetLoad(Process.POISSON, 20, rate=20, seed=seed))[0].finish_s
        for seed in (1, 1, 2)
    )

    assert np.array_equal(first, again)
    assert len(first) != len(other) or not np.array_equal(first, other)


def test_a_load_that_is_too_much_or_nothing_is_refused() -> None:
    with pytest.raises(InvalidInput, match="--seconds"):
        simulate_load(subject(), Settings(), FleetLoad(Process.POISSON, 1e9, rate=1.0))
    with pytest.raises(InvalidInput, match="no request comes between"):
        simulate_load(subject(), Settings(), FleetLoad(Process.POISSON, 0.001, rate=1.0))
    with pytest.raises(InvalidInput, match="traffic"):
        simulate_load(subject(), Settings(kv_cache_tokens=599), FleetLoad(Process.POISSON, 10, rate=5.0))


def test_a_subject_is_what_was_sized() -> None:
    found = subject_of(request(), KEY)

    assert isinstance(found, Subject)
    assert found.settings.batching is Batching.IN_FLIGHT
    assert found.settings.kv_admission is KvAdmission.RESERVED
    assert found.settings.kv_cache_tokens is not None
    assert found.settings.kv_cache_tokens > 100_000
    assert found.lengths.input_tokens == 2000


def test_vllm_chunks_prompts_and_takes_the_cache_as_tokens_are_made() -> None:
    found = subject_of(request(Engine.VLLM), KEY)

    assert isinstance(found, Subject)
    assert found.settings.batching is Batching.CHUNKED_PREFILL
    assert found.settings.kv_admission is KvAdmission.PAGED


def test_a_configuration_that_does_not_hold_the_model_has_a_reason() -> None:
    large = SizingRequest(
        model="meta-llama/Meta-Llama-3-70B-Instruct",
        precision="FP16",
        workload=Workload(2000, 200, peak_requests_per_second=20),
        sla=request().sla,
        hardware=request().hardware,
    )
    key = ConfigurationKey("meta-llama/Meta-Llama-3-70B-Instruct", KEY.gpu, "FP16", 1)

    assert str(subject_of(large, key)).startswith("ModelDoesNotFit")
