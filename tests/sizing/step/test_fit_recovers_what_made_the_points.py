from __future__ import annotations

from dataclasses import astuple, replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.performance.closed_loop import round_seconds
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import Latency, Load, Point, Profile
from firsttoken_sizing.step import Calibration, StepModel
from firsttoken_sizing.step.fit import Fit, errors_percent, fit_constants
from firsttoken_sizing.step.prior import StepWork, work_of
from firsttoken_sizing.step.samples import usable_samples
from tests.fixtures.hypothesis_scale import examples
from tests.fixtures.reference_core import reference_seconds
from tests.fixtures.worked_examples import LLAMA_8B, LLAMA_8B_H100_FP8, call_center_profile

ENGINE = Calibration(1e-3, 5e-5, 2e-5, 1.1, 1.5, 1.5, 1.8, 2.0, 1.8)
"""Constants that are known of the engine."""
TRUTH = Calibration(1.5e-3, 7e-5, 3e-5, 1.2, 1.1, 1.2, 2.4, 2.6, 1.8)
"""Constants that the configuration which made the points really has."""
CONCURRENCIES = (1, 2, 5, 10, 25, 50)


def work_at(prompt_tokens: float) -> StepWork:
    model, gpu = resolve_model(LLAMA_8B), resolve_gpu(LLAMA_8B_H100_FP8.gpu)
    return work_of(model, gpu, LLAMA_8B_H100_FP8, prompt_tokens=prompt_tokens)


TRUE_STEP = work_at(2000).step(TRUTH)


def synthetic(
    prompt: float, output: float, concurrencies: tuple[int, ...] = CONCURRENCIES, step: StepModel = TRUE_STEP
) -> Profile:
    points = []
    for c in concurrencies:
        rate = c / round_seconds(step, Lengths(prompt, prompt, output), c)
        alone = c == 1
        points.append(
            Point(
                rate,
                concurrency=float(c),
                # Alone, TTFT is the prefill step and ITL a decode step of one.
                ttft=Latency(mean=1000 * (step.base_seconds + step.prefill_seconds(prompt)) if alone else None),
                itl=Latency(mean=1000 * step.decode_seconds(1, prompt + output / 2) if alone else None),
            )
        )
    return Profile(f"{prompt}-{output}", LLAMA_8B_H100_FP8, prompt, output, Load.CLOSED_LOOP, tuple(points))


def fitted(*profiles: Profile, prior: Calibration = ENGINE) -> Fit:
    return fit_constants(usable_samples(profiles), work_at, prior)


def test_the_step_model_comes_back_from_points_of_several_lengths() -> None:
    lengths = ((200, 200), (2000, 200), (7000, 1000), (500, 2000))
    fit = fitted(*(synthetic(*pair) for pair in lengths))
    step = fit.step(work_at(2000))

    assert step.decode_seconds(1, 300) == pytest.approx(TRUE_STEP.decode_seconds(1, 300), rel=0.01)
    assert step.decode_seconds(25, 25 * 2100) == pytest.approx(TRUE_STEP.decode_seconds(25, 25 * 2100), rel=0.01)
    assert step.prefill_seconds(200) == pytest.approx(TRUE_STEP.prefill_seconds(200), rel=0.03)
    assert step.prefill_seconds(7000) == pytest.approx(TRUE_STEP.prefill_seconds(7000), rel=0.03)
    assert step.per_context_token_seconds == pytest.approx(TRUE_STEP.per_context_token_seconds, rel=0.1)


def test_lengths_that_were_not_measured_are_closer_than_the_prior_has_them() -> None:
    unseen = usable_samples([synthetic(4000, 400)])
    step = fitted(synthetic(200, 200), synthetic(2000, 1000)).step(work_at(4000))

    assert max(errors_percent(step, unseen)) < 3
    assert max(errors_percent(work_at(4000).step(ENGINE), unseen)) > 15


def test_a_batch_that_is_no_straight_line_is_followed() -> None:
    tiles = replace(TRUE_STEP, batch_shape=((1.0, 1.0), (10.0, 1.0), (25.0, 1.15), (50.0, 0.95)))
    fit = fitted(*(synthetic(prompt, 500, step=tiles) for prompt in (200, 1000)))
    step = fit.step(work_at(2000))

    for batch in (10, 25, 50):
        assert step.decode_seconds(batch, batch * 450) == pytest.approx(
            tiles.decode_seconds(batch, batch * 450), rel=0.02
        )


def test_what_the_points_do_not_say_is_the_engines() -> None:
    """At concurrency 1 and with one pair of lengths nothing tells what a sequence or the context costs."""
    fit = fitted(synthetic(2000, 200, (1,)))

    assert fit.constants.all_reduce == pytest.approx(ENGINE.all_reduce), "one GPU exchanges nothing"
    assert fit.constants.sequence_seconds == pytest.approx(ENGINE.sequence_seconds, rel=0.02)
    assert fit.constants.kv_read == pytest.approx(ENGINE.kv_read, rel=0.05)
    assert fit.constants.attention_wave == 0, "a constant that the engine does not have stays away"


def test_one_point_is_enough_for_an_answer_and_is_met() -> None:
    samples = usable_samples([synthetic(2000, 200, (10,))])
    step = fit_constants(samples, work_at, ENGINE).step(work_at(2000))

    assert max(errors_percent(step, samples)) < 2


def test_one_wild_point_among_many_moves_little() -> None:
    profile = synthetic(2000, 200)
    broken = replace(profile.points[3], requests_per_second=profile.points[3].requests_per_second / 3)
    points = (*profile.points[:3], broken, *profile.points[4:])
    clean, dirty = (fitted(p).step(work_at(2000)) for p in (profile, replace(profile, points=points)))

    assert dirty.decode_seconds(50, 1e5) == pytest.approx(clean.decode_seconds(50, 1e5), rel=0.05)
    assert dirty.prefill_seconds(2000) == pytest.approx(clean.prefill_seconds(2000), rel=0.1)


def test_of_two_engines_the_one_that_made_the_points_costs_less() -> None:
    profiles = [synthetic(2000, 200), synthetic(200, 1000)]
    other = replace(TRUTH, layer_seconds=2e-5, prefill=1.0)

    assert fitted(*profiles, prior=TRUTH).cost < fitted(*profiles, prior=other).cost


def test_the_published_points_are_met_within_a_few_percent() -> None:
    samples = usable_samples([call_center_profile()])
    errors = errors_percent(fit_constants(samples, work_at, ENGINE).step(work_at(2000)), samples)

    assert float(errors.max()) < 6
    assert float(np.quantile(errors, 0.5)) < 2


@settings(max_examples=examples(40))
@given(
    truth=st.tuples(*(st.floats(value / 3, value * 3) for value in astuple(ENGINE)[:9])),
    pairs=st.lists(st.tuples(st.integers(1, 30000), st.integers(1, 4000)), min_size=1, max_size=4, unique=True),
    concurrencies=st.lists(st.integers(1, 256), min_size=1, max_size=6, unique=True),
)
def test_any_points_give_finite_positive_times(
    truth: tuple[float, ...], pairs: list[tuple[int, int]], concurrencies: list[int]
) -> None:
    step = work_at(2000).step(Calibration(*truth))
    profiles = [synthetic(*pair, tuple(concurrencies), step) for pair in pairs]
    samples = usable_samples(profiles)
    fit = fit_constants(samples, work_at, ENGINE).step(work_at(2000))

    for batch in (1.0, 17.0, 256.0):
        assert 0 < fit.decode_seconds(batch, batch * 1000) < 1e3
    assert 0 < fit.prefill_seconds(2000.0) < 1e3


def test_a_fit_takes_less_than_20_ms() -> None:
    samples = usable_samples([synthetic(prompt, 500) for prompt in (100, 200, 500, 1000, 2000, 7000)])

    assert reference_seconds(lambda: fit_constants(samples, work_at, ENGINE)) < 0.020


def test_a_window_shorter_than_its_queue_is_overload() -> None:
    assert Point(1.0, concurrency=100, end_to_end=Latency(mean=80_000)).is_overload
    assert not Point(1.0, concurrency=100, end_to_end=Latency(mean=95_000)).is_overload
    assert not Point(1.0, concurrency=100).is_overload


def test_points_with_a_queue_are_not_fitted() -> None:
    profile = synthetic(2000, 200)
    queued = Point(14, concurrency=300, ttft=Latency(mean=60_000), itl=Latency(mean=80))

    assert len(usable_samples([profile])) == 6
    assert len(usable_samples([Profile("q", profile.key, 2000, 200, Load.CLOSED_LOOP, (*profile.points, queued))])) == 6
