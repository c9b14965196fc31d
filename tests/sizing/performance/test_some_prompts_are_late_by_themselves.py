"""A prompt whose own prefill takes longer than the limit is late on any number of replicas."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.lengths import Lengths, Spread, lengths_of
from firsttoken_sizing.performance.work import Work, work_of
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.workload import Workload

WORK = Work(
    seconds_per_prefill_token=6.5e-5, seconds_per_prefill_token_squared=6e-10, seconds_per_output_token=3e-4,
    seconds_per_context_token=1e-8, input_tokens=3000, uncached_share=1.0, output_tokens=500,
)  # fmt: skip
STEP = StepModel(
    base_seconds=0.02, per_sequence_seconds=1e-4, per_context_token_seconds=1e-8, per_prefill_token_seconds=6.5e-5,
    per_prefill_token_squared_seconds=6e-10,    max_batch=128,
)  # fmt: skip


@pytest.mark.parametrize("deviation", [0.4, PARAMETERS.lengths.prompt_deviation, 1.2])
@pytest.mark.parametrize("cached", [0.0, 0.6])
def test_it_is_the_share_that_draws_of_lengths_have(deviation: float, cached: float) -> None:
    work = replace(WORK, prompt_deviation=deviation, uncached_share=1 - cached)
    rng = np.random.default_rng(1)
    tokens = 6000 * np.exp(deviation * rng.standard_normal(400_000) - deviation**2 / 2)
    # A request of one output token is its prefill alone.
    drawn = (work.seconds(tokens, work.uncached_share * tokens, np.ones(tokens.size)) > 1.0).mean()

    assert work.share_longer_than(1.0, 6000) == pytest.approx(drawn, rel=0.1, abs=2e-4)


@given(st.floats(0.01, 30), st.floats(10, 1e6), st.floats(1.0, 10), st.floats(0.0, 2.0))
def test_longer_prompts_and_shorter_limits_make_more_late(
    seconds: float, tokens: float, times: float, deviation: float
) -> None:
    work = replace(WORK, prompt_deviation=deviation)
    share = work.share_longer_than(seconds, tokens)

    assert 0 <= share <= 1
    assert work.share_longer_than(seconds / times, tokens) >= share
    assert work.share_longer_than(seconds, tokens * times) >= share


@pytest.mark.parametrize("tokens", [0.0, -1.0, math.inf, math.nan])
def test_of_lengths_that_are_none_nothing_is_said(tokens: float) -> None:
    assert WORK.share_longer_than(1.0, tokens) == 0


def test_prompts_that_cost_nothing_are_never_late() -> None:
    assert replace(WORK, uncached_share=0.0).share_longer_than(0.1, 1e6) == 0


def test_of_equal_prompts_all_are_late_or_none() -> None:
    equal = replace(WORK, prompt_deviation=0.0)

    assert (equal.share_longer_than(1.0, 1e3), equal.share_longer_than(1.0, 1e5)) == (0, 1)


def test_lengths_are_spread_as_declared_or_as_in_recorded_traffic() -> None:
    declared = lengths_of(Workload(3000, 500, input_tokens_p99=12000))

    assert work_of(STEP, declared, 40).prompt_deviation == pytest.approx(0.70, rel=0.05)
    assert work_of(STEP, lengths_of(Workload(3000, 500)), 40).prompt_deviation == PARAMETERS.lengths.prompt_deviation


def test_the_deviation_is_that_of_the_logarithm() -> None:
    spread = Spread(shares=(0.5, 0.5), multiples=(0.5, 1.5))

    assert spread.log_deviation == pytest.approx(math.log(3) / 2)
    assert Lengths(100, 100, 10).input_spread.log_deviation == 0
