"""Mean tokens of the requests of the window: from counters that belong together, or not at all."""

from __future__ import annotations

import math

import pytest

from firsttoken_operator.domain import Idle, Reason
from firsttoken_operator.families import TokenPart
from tests.operator.observe.readings import IDLE, coverage, failing, measured, pods, reading, reason, sample, value


def test_the_mean_is_of_all_requests_and_not_of_the_pods_means() -> None:
    metrics = measured(reading(sample(rate=3, input_tokens=1000), sample(rate=1, input_tokens=200, output_tokens=300)))

    assert (value(metrics.input_tokens), coverage(metrics.input_tokens)) == (800.0, 1.0)
    assert (value(metrics.output_tokens), coverage(metrics.output_tokens)) == (150.0, 1.0)


def test_no_traffic_has_no_mean_and_is_idle() -> None:
    metrics = measured(reading(sample(**IDLE)))

    assert metrics.input_tokens == metrics.output_tokens == Idle()


def test_requests_that_only_wait_or_run_have_no_mean_yet() -> None:
    metrics = measured(reading(sample(rate=0, waiting=2)))

    assert reason(metrics.input_tokens) is Reason.NOT_ENOUGH_SAMPLES
    assert reason(metrics.output_tokens) is Reason.NOT_ENOUGH_SAMPLES
    assert metrics.health is Reason.PRESENT


def test_answers_that_have_not_ended_leave_the_prompts_known() -> None:
    metrics = measured(reading(sample(tokens={TokenPart.OUTPUTS: 0.0, TokenPart.OUTPUT_TOKENS: 0.0})))

    assert value(metrics.input_tokens) == 500.0
    assert reason(metrics.output_tokens) is Reason.NOT_ENOUGH_SAMPLES


@pytest.mark.parametrize("part", [TokenPart.PROMPT_TOKENS, TokenPart.PROMPTS])
@pytest.mark.parametrize("number", [None, math.nan, math.inf, -1.0, 1e300])
def test_half_a_pair_of_counters_is_no_mean(part: TokenPart, number: float | None) -> None:
    spoiled = sample(rate=9, input_tokens=9000, tokens={part: number})

    alone, beside = measured(reading(spoiled)), measured(reading(spoiled, sample()))

    assert alone.health is beside.health is Reason.PRESENT
    assert reason(alone.input_tokens) in (Reason.NO_SERIES, Reason.NOT_A_NUMBER, Reason.OUT_OF_RANGE)
    assert (value(beside.input_tokens), coverage(beside.input_tokens)) == (500.0, 0.5)
    assert value(alone.output_tokens) == 100.0


def test_a_counter_of_tokens_that_stands_still_while_requests_come_is_broken() -> None:
    still = {TokenPart.PROMPT_TOKENS: 0.0, TokenPart.OUTPUT_TOKENS: 0.0}

    metrics = measured(reading(sample(tokens=still)))

    assert reason(metrics.input_tokens) is reason(metrics.output_tokens) is Reason.OUT_OF_RANGE
    assert metrics.health is Reason.PRESENT


def test_a_runtime_without_token_counters_is_as_healthy_as_before() -> None:
    metrics = measured(reading(sample(tokens=dict.fromkeys(TokenPart))))

    assert metrics.health is Reason.PRESENT
    assert reason(metrics.input_tokens) is reason(metrics.output_tokens) is Reason.NO_SERIES


def test_a_partial_response_lessens_the_coverage_of_the_means() -> None:
    metrics = measured(failing(reading(sample()), Reason.PARTIAL_RESPONSE))

    assert value(metrics.input_tokens) == 500.0
    assert coverage(metrics.input_tokens) == coverage(metrics.arrivals) < 1


def test_a_partial_response_about_a_family_that_no_pod_has_does_not_matter() -> None:
    metrics = measured(failing(reading(sample()), Reason.PARTIAL_RESPONSE, family="vLLM"))

    assert coverage(metrics.input_tokens) == 1.0


def test_a_pod_without_current_samples_is_missing_from_the_mean() -> None:
    metrics = measured(reading(sample(), None))

    assert (value(metrics.input_tokens), coverage(metrics.input_tokens)) == (500.0, 0.5)


def test_without_any_pod_the_mean_is_missing_for_the_same_reason() -> None:
    metrics = measured(reading(None), pods(1, ready_seconds=None))

    assert reason(metrics.input_tokens) is reason(metrics.arrivals) is Reason.NO_READY_PODS


def test_a_mean_that_no_request_can_have_is_out_of_range() -> None:
    spoiled = sample(tokens={TokenPart.PROMPTS: 5e-324})

    assert reason(measured(reading(spoiled)).input_tokens) is Reason.OUT_OF_RANGE
