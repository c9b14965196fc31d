"""Chunked prefill, head-of-line blocking and the token budget, against the simulation of the same step model."""

from __future__ import annotations

import numpy as np
import pytest

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance import poisson
from firsttoken_sizing.performance.lengths import Lengths, lengths_of
from firsttoken_sizing.performance.statistics import latency_of
from firsttoken_sizing.profile import Latency
from firsttoken_sizing.simulation import Settings, drawn_requests, poisson_arrivals, simulate
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.workload import Workload

LLAMA_8B = StepModel(5.4e-3, 2.3e-5, 7.5e-8, 1.6e-5, 2.2e-10)
LLAMA_70B = StepModel(14.8e-3, 5.5e-5, 2.3e-8, 4.9e-5, 4e-10)
MIXTURE = StepModel(4e-3, 3e-5, 1e-8, 2e-5, 2e-10, expert_seconds=15e-3, idle_expert_share=0.97)
LONG = Lengths(7000, 7000, 500)
SPREAD = lengths_of(Workload(2000, 200, input_tokens_p99=8000, output_tokens_p99=800))
WHOLE, CHUNKED = Scheduler(), Scheduler(2048, chunked_prefill=True)


def simulated(step: StepModel, lengths: Lengths, rate: float, scheduler: Scheduler) -> tuple[Latency, Latency]:
    rng = np.random.default_rng(3)
    requests = drawn_requests(lengths, poisson_arrivals(rate, 60_000, rng), rng)
    outcome = simulate(step, requests, Settings(scheduler=scheduler))
    return latency_of(1000 * outcome.ttft_s[6000:]), latency_of(1000 * outcome.end_to_end_s[6000:])


@pytest.mark.parametrize(
    ("step", "lengths", "scheduler", "load"),
    [
        (LLAMA_8B, LONG, CHUNKED, 0.5),
        (LLAMA_70B, LONG, CHUNKED, 0.8),
        (LLAMA_8B, SPREAD, WHOLE, 0.6),
        (LLAMA_8B, SPREAD, CHUNKED, 0.6),
        (LLAMA_70B, Lengths(7000, 7000, 500), Scheduler(8192), 0.6),
        (MIXTURE, Lengths(1000, 1000, 300), WHOLE, 0.7),
    ],
    ids=["chunks", "chunks at high load", "spread", "spread in chunks", "one prompt a step", "experts"],
)
def test_ttft_and_end_to_end_agree(step: StepModel, lengths: Lengths, scheduler: Scheduler, load: float) -> None:
    rate = load * poisson.saturation_rate(step, lengths, scheduler)

    predicted = poisson.predict(step, lengths, rate, scheduler)
    ttft, total = simulated(step, lengths, rate, scheduler)

    assert predicted.ttft.mean == pytest.approx(ttft.mean, rel=0.06)
    assert predicted.ttft.p95 == pytest.approx(ttft.p95, rel=0.12)
    assert predicted.end_to_end.mean == pytest.approx(total.mean, rel=0.05)
    assert predicted.end_to_end.p95 == pytest.approx(total.p95, rel=0.08)


@pytest.mark.parametrize("scheduler", [WHOLE, Scheduler(8192, chunked_prefill=True)], ids=["whole", "chunks"])
def test_a_queue_forms_where_one_prompt_fills_a_step_even_if_most_steps_are_empty(scheduler: Scheduler) -> None:
    prompts_only = Lengths(20_000, 20_000, 1)
    rate = 0.83 * poisson.saturation_rate(LLAMA_8B, prompts_only, scheduler)

    predicted = poisson.predict(LLAMA_8B, prompts_only, rate, scheduler)
    ttft, _ = simulated(LLAMA_8B, prompts_only, rate, scheduler)

    assert predicted.ttft.mean == pytest.approx(ttft.mean, rel=0.12)
    assert predicted.ttft.p95 == pytest.approx(ttft.p95, rel=0.12)


def test_a_lone_prompt_takes_as_many_steps_as_it_has_chunks() -> None:
    alone = poisson.predict(LLAMA_8B, LONG, 1e-4, CHUNKED)

    # 7000 tokens in steps of 2048 are four, and the attention over earlier chunks adds up to that of the whole prompt.
    expected = 4 * LLAMA_8B.base_seconds + LLAMA_8B.prefill_seconds(7000)
    assert alone.ttft.mean == pytest.approx(1000 * expected, rel=0.02)


def test_long_prompts_hold_up_those_behind_them() -> None:
    rate = 0.6 * poisson.saturation_rate(LLAMA_8B, Lengths(2000, 2000, 200))

    fixed = poisson.predict(LLAMA_8B, Lengths(2000, 2000, 200), rate)
    spread = poisson.predict(LLAMA_8B, lengths_of(Workload(2000, 200, input_tokens_p99=8000)), rate)

    assert fixed.ttft.p99 is not None
    assert spread.ttft.p99 is not None
    assert spread.ttft.p99 > 1.5 * fixed.ttft.p99


def test_spread_lengths_carry_less() -> None:
    # Of long prompts attention costs the square, and long answers run with a longer context.
    assert poisson.saturation_rate(LLAMA_8B, SPREAD) < poisson.saturation_rate(LLAMA_8B, Lengths(2000, 2000, 200))


def test_a_small_token_budget_limits_the_throughput() -> None:
    # 512 tokens a step, less one for each running sequence, prefill 2000 tokens for every 199 decode steps.
    starved = poisson.batch_limit(LLAMA_8B, Lengths(2000, 2000, 200), Scheduler(512, chunked_prefill=True))

    assert starved == pytest.approx(512 / (2000 / 199 + 1))


def test_steps_that_are_queued_already_delay_the_first_token_only() -> None:
    lengths = Lengths(2000, 2000, 200)
    rate = 0.5 * poisson.saturation_rate(LLAMA_8B, lengths)

    now = poisson.predict(LLAMA_8B, lengths, rate)
    later = poisson.predict(LLAMA_8B, lengths, rate, Scheduler(steps_ahead=1))

    assert now.ttft.mean is not None
    assert later.ttft.mean is not None
    assert later.ttft.mean > now.ttft.mean + 1000 * LLAMA_8B.base_seconds
    assert later.itl == now.itl
