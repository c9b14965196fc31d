"""The band of an answer is that of its regime, at the difficulty that the fits without one workload show."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Hardware, Sizing, size
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.step import shipped_step
from firsttoken_sizing.step.bands import Regime, band_percent, spread_percent
from tests.fixtures.worked_examples import H100, LLAMA_8B_H100_FP8, call_center, call_center_profile

ONE_GPU = Hardware(gpus=(H100,), tensor_parallel=1)


def answer(input_tokens: int = 2000, output_tokens: int = 200, arrivals: Arrivals = Arrivals.CLOSED_LOOP) -> Sizing:
    """Answer of the shipped fit alone."""
    question = replace(call_center(arrivals=arrivals), hardware=ONE_GPU, profiles=())
    workload = replace(question.workload, input_tokens=input_tokens, output_tokens=output_tokens)
    return size(replace(question, workload=workload))


def test_the_band_is_what_the_evaluation_judges() -> None:
    sizing, fit = answer(), shipped_step(LLAMA_8B_H100_FP8)
    assert fit is not None
    running = sizing.concurrency_per_replica
    assert running is not None

    rate, *without_one = (
        throughput(step, Lengths(2000, 2000, 200), running) for step in (fit.model, *fit.without_one())
    )

    assert sizing.error_band_percent == pytest.approx(band_percent(Regime.FITTED, spread_percent(rate, without_one)))


def test_lengths_away_from_the_measured_ones_have_a_wider_band() -> None:
    near, far = answer(), answer(7500, 20)

    assert far.error_band_percent > 1.5 * near.error_band_percent
    assert near.error_band_percent < 10


def test_a_poisson_answer_adds_the_error_of_its_own_model() -> None:
    assert answer(arrivals=Arrivals.POISSON).error_band_percent >= PARAMETERS.bands.poisson_percent


def test_a_fit_through_few_points_has_the_band_of_few() -> None:
    points = [p for p in call_center_profile().points if p.concurrency in (1, 10)]
    profile = replace(call_center_profile(), points=tuple(points))
    question = replace(call_center(profile=profile), hardware=ONE_GPU)

    sizing = size(replace(question, workload=replace(question.workload, input_tokens=2500)))

    assert (
        sizing.error_band_percent >= 30 / math.sqrt(2) > band_percent(Regime.FITTED, PARAMETERS.bands.easiest_percent)
    )
