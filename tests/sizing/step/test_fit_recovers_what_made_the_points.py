from __future__ import annotations

import pytest

from firsttoken_sizing.performance.closed_loop import predict
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import Latency, Load, Point, Profile
from firsttoken_sizing.step import StepModel
from firsttoken_sizing.step.fit import can_fit, errors_percent, fit_step, usable_samples
from firsttoken_sizing.step.scheduler import Scheduler
from tests.fixtures.worked_examples import LLAMA_8B_H100_FP8, call_center_profile

TRUTH = StepModel(6e-3, 3e-5, 7e-8, 1.5e-5, 4e-10)


def synthetic(prompt: float, output: float, concurrencies: tuple[int, ...] = (1, 2, 5, 10, 25, 50)) -> Profile:
    points = []
    for c in concurrencies:
        at = predict(TRUTH, Lengths(prompt, prompt, output), c, Scheduler())
        alone = c == 1
        points.append(
            Point(
                at.requests_per_second,
                concurrency=float(c),
                # Alone, TTFT is the prefill step and ITL a decode step of one.
                ttft=Latency(mean=1000 * (TRUTH.base_seconds + TRUTH.prefill_seconds(prompt))) if alone else at.ttft,
                itl=Latency(mean=1000 * TRUTH.decode_seconds(1, prompt + output / 2)) if alone else at.itl,
            )
        )
    return Profile(f"{prompt}-{output}", LLAMA_8B_H100_FP8, prompt, output, Load.CLOSED_LOOP, tuple(points))


def test_five_numbers_come_back_from_points_of_several_lengths() -> None:
    samples = usable_samples([synthetic(200, 200), synthetic(2000, 200), synthetic(7000, 1000), synthetic(500, 2000)])

    model = fit_step(samples, max_batch=256)

    assert model.base_seconds == pytest.approx(TRUTH.base_seconds, rel=0.01)
    assert model.per_sequence_seconds == pytest.approx(TRUTH.per_sequence_seconds, rel=0.05)
    assert model.per_context_token_seconds == pytest.approx(TRUTH.per_context_token_seconds, rel=0.05)
    assert model.per_prefill_token_seconds == pytest.approx(TRUTH.per_prefill_token_seconds, rel=0.05)
    assert model.per_prefill_token_squared_seconds == pytest.approx(TRUTH.per_prefill_token_squared_seconds, rel=0.1)


def test_the_published_points_are_met_within_a_few_percent() -> None:
    samples = usable_samples([call_center_profile()])

    errors = errors_percent(fit_step(samples, max_batch=256), samples)

    assert float(errors.max()) < 8
    assert float(sorted(errors)[len(errors) // 2]) < 3


def test_one_pair_of_lengths_leaves_what_it_cannot_tell_apart_at_zero() -> None:
    model = fit_step(usable_samples([synthetic(2000, 200)]), max_batch=256)

    assert model.per_sequence_seconds == 0
    assert model.per_prefill_token_squared_seconds == 0
    assert model.per_context_token_seconds > 0


@pytest.mark.parametrize(
    ("concurrencies", "fits"),
    [((1, 2, 5), True), ((1, 2), False), ((2, 5, 10), False)],
    ids=["three with one alone", "too few", "nobody alone"],
)
def test_points_must_tell_prefill_from_decode(concurrencies: tuple[int, ...], fits: bool) -> None:
    assert can_fit(usable_samples([synthetic(2000, 200, concurrencies)])) is fits


def test_a_window_shorter_than_its_queue_is_overload() -> None:
    assert Point(1.0, concurrency=100, end_to_end=Latency(mean=80_000)).is_overload
    assert not Point(1.0, concurrency=100, end_to_end=Latency(mean=95_000)).is_overload
    assert not Point(1.0, concurrency=100).is_overload


def test_points_with_a_queue_are_not_fitted() -> None:
    profile = synthetic(2000, 200)
    queued = Point(14, concurrency=300, ttft=Latency(mean=60_000), itl=Latency(mean=80))

    assert len(usable_samples([profile])) == 6
    assert len(usable_samples([Profile("q", profile.key, 2000, 200, Load.CLOSED_LOOP, (*profile.points, queued))])) == 6
