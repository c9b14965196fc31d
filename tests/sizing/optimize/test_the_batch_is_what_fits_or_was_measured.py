"""`max_batch_size` never exceeds what memory holds, unless more was measured running at once."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Hardware, Latency, Memory, Point, Profile, Sizing, size
from tests.fixtures.worked_examples import CALL_CENTER_POINTS, H100, call_center, call_center_profile

ONE_GPU = Hardware(gpus=(H100,), tensor_parallel=1)


def up_to(concurrency: int) -> Profile:
    """The call center's profile without the points above a concurrency."""
    profile = call_center_profile()
    return replace(profile, points=tuple(p for p in profile.points if (p.concurrency or 0) <= concurrency))


def batch_and_memory(
    profile: Profile, arrivals: Arrivals = Arrivals.POISSON
) -> tuple[Sizing, int | str | float, Memory]:
    """Answer for 16-bit weights and cache, of which fewer requests fit than the engine would run."""
    in_16_bits = replace(profile, key=replace(profile.key, precision="FP16"))
    sizing = size(replace(call_center(arrivals=arrivals, profile=in_16_bits), precision="FP16", hardware=ONE_GPU))
    assert sizing.memory is not None
    assert sizing.memory.max_concurrency < 250
    return sizing, sizing.engine_settings["max_batch_size"], sizing.memory


@pytest.mark.parametrize("arrivals", list(Arrivals), ids=str)
def test_more_than_memory_reserves_is_taken_where_it_was_measured(arrivals: Arrivals) -> None:
    _, batch, memory = batch_and_memory(call_center_profile(), arrivals)

    assert batch == memory.measured_concurrency == 250


def test_without_that_measurement_memory_is_the_limit() -> None:
    _, batch, memory = batch_and_memory(up_to(100))

    assert memory.measured_concurrency == 100
    assert batch == memory.max_concurrency


def test_a_concurrency_that_queued_proves_nothing() -> None:
    profile = up_to(100)
    queued = Point(13.8, concurrency=250, ttft=Latency(mean=9000), itl=Latency(mean=45))

    _, batch, memory = batch_and_memory(replace(profile, points=(*profile.points, queued)))

    assert (memory.measured_concurrency, batch) == (100, memory.max_concurrency)


def test_where_a_queue_would_not_show_only_the_decoding_ones_count() -> None:
    profile = call_center_profile()
    without_one = replace(profile, points=tuple(p for p in profile.points if p.concurrency != 1))
    rate, _, itl = CALL_CENTER_POINTS[250]

    _, _, memory = batch_and_memory(without_one)

    assert memory.measured_concurrency == int(rate * itl * 199 / 1000) == 229


def test_nothing_measured_is_not_zero() -> None:
    sizing = size(replace(call_center(), profiles=()))

    assert sizing.memory is not None
    assert sizing.memory.measured_concurrency is None
