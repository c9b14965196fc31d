"""The band of a capacity is what the SLA leaves when steps take as much longer or shorter as their own band says."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Basis, Hardware, Sizing, size
from firsttoken_sizing.optimize.error_band import capacity_if, judged_sla, times_band
from firsttoken_sizing.optimize.load_model import load_model_of
from firsttoken_sizing.optimize.question import check
from firsttoken_sizing.optimize.search import search
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.step.bands import Banded
from firsttoken_sizing.workload import Limit, Percentile, Sla
from tests.fixtures.worked_examples import H100, call_center, call_center_profile

ONE_GPU = Hardware(gpus=(H100,), tensor_parallel=1)


def answer(
    input_tokens: int = 2000,
    output_tokens: int = 200,
    arrivals: Arrivals = Arrivals.CLOSED_LOOP,
    sla: Sla | None = None,
) -> Sizing:
    """Answer of the shipped fit alone."""
    question = replace(call_center(arrivals=arrivals), hardware=ONE_GPU, profiles=())
    workload = replace(question.workload, input_tokens=input_tokens, output_tokens=output_tokens)
    return size(replace(question, workload=workload, sla=sla or question.sla))


@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_the_ends_are_what_the_limits_leave_of_slower_and_of_faster_steps(arrivals: Arrivals) -> None:
    question = check(replace(call_center(arrivals=arrivals), hardware=ONE_GPU, profiles=()))
    evaluation = search(question).plans[0].evaluation
    bound, point = evaluation.bound, evaluation.point
    load_model = load_model_of(bound, question.lengths, arrivals)
    times = times_band(question, bound, Banded.CAPACITY_IN_TTFT, point)

    slower, faster = (capacity_if(load_model, judged_sla(question), f) for f in (times.high, times.low))

    assert slower < evaluation.capacity < faster
    assert (evaluation.band.low, evaluation.band.high) == pytest.approx(
        (slower / evaluation.capacity, faster / evaluation.capacity)
    )


def test_steps_that_take_as_long_as_the_model_says_carry_what_it_says() -> None:
    question = check(replace(call_center(), hardware=ONE_GPU, profiles=()))
    evaluation = search(question).plans[0].evaluation
    load_model = load_model_of(evaluation.bound, question.lengths, question.arrivals)

    rates = [capacity_if(load_model, judged_sla(question), f) for f in (0.5, 1.0, 1.5, 3.0)]

    assert rates[1] == pytest.approx(evaluation.capacity, rel=1e-3)
    assert rates == sorted(rates, reverse=True)


def test_a_latency_that_hardly_rises_with_load_gives_a_wide_band() -> None:
    """ITL near that of a request alone: a little more of it is many more requests."""
    tight = Sla(time_to_first_token=Limit(1e5, Percentile.MEAN), inter_token_latency=Limit(9.0, Percentile.MEAN))

    flat, steep = (
        answer(sla=tight),
        answer(sla=Sla(time_to_first_token=Limit(1e5, Percentile.MEAN), end_to_end=Limit(9000, Percentile.MEAN))),
    )

    assert flat.binding_constraint.startswith("ITL")
    assert steep.binding_constraint.startswith("E2E")
    assert flat.band is not None
    assert steep.band is not None
    assert math.log(flat.band.high / flat.band.low) > 1.5 * math.log(steep.band.high / steep.band.low)


def test_lengths_away_from_the_measured_ones_have_a_wider_band() -> None:
    near, far = answer(), answer(7500, 20)

    assert far.latency_bands["end_to_end"].high > near.latency_bands["end_to_end"].high
    assert near.latency_bands["end_to_end"].percent < 15


def test_a_poisson_answer_adds_the_error_of_its_own_model() -> None:
    sizing = answer(arrivals=Arrivals.POISSON)

    assert sizing.latency_bands["ttft"].high >= 1 + PARAMETERS.bands.poisson_percent / 100


def test_a_fit_through_few_points_has_the_band_of_few() -> None:
    points = [p for p in call_center_profile().points if p.concurrency in (1, 10)]
    profile = replace(call_center_profile(), points=tuple(points))
    question = replace(call_center(profile=profile), hardware=ONE_GPU)

    sizing = size(replace(question, workload=replace(question.workload, input_tokens=2500)))

    assert sizing.latency_bands["end_to_end"].high >= 1 + 0.3 / math.sqrt(2)


@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_replicas_have_a_range_with_the_answer_in_it(arrivals: Arrivals) -> None:
    sizing = answer(arrivals=arrivals)
    assert sizing.band is not None

    capacity, peak = sizing.requests_per_second_per_replica, sizing.peak_requests_per_second

    assert sizing.replicas_low < sizing.replicas < sizing.replicas_high
    assert sizing.replicas_low == math.ceil(peak / (capacity * sizing.band.high))
    assert sizing.replicas_high == math.ceil(peak / (capacity * sizing.band.low))
    assert f"{sizing.replicas} ({sizing.replicas_low} to {sizing.replicas_high}) replicas" in sizing.reason


def test_what_was_measured_has_the_repeatability_of_its_benchmark() -> None:
    sizing = size(replace(call_center(), hardware=ONE_GPU))

    assert sizing.basis is Basis.MEASURED
    assert sizing.band is not None
    assert sizing.band.percent < 1


def test_no_band_reaches_below_a_tenth_of_the_answer_and_no_start_takes_twice_as_many() -> None:
    """Limits that one request alone nearly uses up: slower steps leave nothing, and no rate is sure."""
    question = check(replace(call_center(arrivals=Arrivals.POISSON), hardware=ONE_GPU, profiles=()))
    bound = search(question).plans[0].evaluation.bound
    alone = load_model_of(bound, question.lengths, Arrivals.POISSON).alone().ttft.mean
    assert alone is not None

    tight = answer(arrivals=Arrivals.POISSON, sla=Sla(time_to_first_token=Limit(1.06 * alone, Percentile.MEAN)))

    assert tight.feasible
    assert tight.band is not None
    assert tight.band.low == PARAMETERS.bands.least_share
    assert tight.careful_share == PARAMETERS.bands.least_careful
    assert tight.careful_replicas == 2 * tight.replicas < tight.replicas_high
