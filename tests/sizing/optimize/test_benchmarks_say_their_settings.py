"""A benchmark that says with which settings of the engine it was measured counts for those, and for no others."""

from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.optimize.size import size
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.request import Basis, Sizing, SizingRequest
from firsttoken_sizing.workload import Limit, Percentile, Sla
from tests.fixtures.worked_examples import call_center

SMALL_STEPS = DeclaredSettings(tokens_per_step=2048)
WIDE_CACHE = DeclaredSettings(kv_cache_bits=16)


def asked(measured_with: DeclaredSettings, declared: DeclaredSettings) -> SizingRequest:
    measured = call_center(ttft_milliseconds=500, percentile=Percentile.MEAN)
    profiles = tuple(replace(profile, settings=measured_with) for profile in measured.profiles)
    one_gpu = replace(measured.hardware, tensor_parallel=1)
    return replace(measured, hardware=one_gpu, profiles=profiles, declared_settings=declared)


def sized(measured_with: DeclaredSettings, declared: DeclaredSettings) -> Sizing:
    return size(asked(measured_with, declared))


@pytest.mark.parametrize(
    "settings", [SMALL_STEPS, WIDE_CACHE, DeclaredSettings(max_batch=64), DeclaredSettings(memory_share=0.8)], ids=str
)
def test_the_same_settings_are_measured(settings: DeclaredSettings) -> None:
    answer = sized(settings, settings)

    assert (answer.basis, answer.concurrency_per_replica) == (Basis.MEASURED, 25)
    assert not [w for w in answer.warnings if w.startswith("OtherSettings")]


@pytest.mark.parametrize(
    ("measured_with", "declared"),
    [(SMALL_STEPS, AS_INSTALLED), (WIDE_CACHE, AS_INSTALLED), (SMALL_STEPS, WIDE_CACHE), (AS_INSTALLED, SMALL_STEPS)],
    ids=str,
)
def test_other_settings_are_not_measured_and_the_answer_counts_the_points(
    measured_with: DeclaredSettings, declared: DeclaredSettings
) -> None:
    answer = sized(measured_with, declared)

    assert answer.basis is not Basis.MEASURED
    assert any(w.startswith("OtherSettings: 8 measured points not used") for w in answer.warnings)


def test_what_is_said_to_be_as_installed_is_the_same_as_nothing_said() -> None:
    # In FP8 the engine keeps 8 bits already.
    said = sized(DeclaredSettings(kv_cache_bits=8), AS_INSTALLED)

    assert said.basis is Basis.MEASURED


def test_points_hold_up_to_the_smaller_of_both_batch_limits() -> None:
    def concurrency(measured_with: int, declared: int | None) -> float:
        answer = sized(DeclaredSettings(max_batch=measured_with), DeclaredSettings(max_batch=declared))
        assert answer.basis is Basis.MEASURED
        return answer.concurrency_per_replica

    assert concurrency(10, None) == 10
    assert concurrency(64, 10) == 10
    assert concurrency(10, 64) == 10
    assert concurrency(64, None) == 25


@pytest.mark.parametrize(
    "measured_with", [DeclaredSettings(max_batch=1024), DeclaredSettings(max_batch=1024, memory_share=0.95)], ids=str
)
@pytest.mark.parametrize("declared", [AS_INSTALLED, DeclaredSettings(max_batch=256)], ids=str)
def test_a_larger_batch_limit_does_not_count_beyond_that_of_the_engine(
    measured_with: DeclaredSettings, declared: DeclaredSettings
) -> None:
    """Points above the 256 sequences that vLLM runs as it is installed are of another server."""

    def point(concurrency: float) -> Point:
        itl, ttft = 8 + 0.02 * concurrency, 60 + 0.3 * concurrency
        rate = 1000 * concurrency / (ttft + 199 * itl)
        return Point(rate, concurrency=concurrency, ttft=Latency(mean=ttft), itl=Latency(mean=itl))

    request = asked(measured_with, declared)
    points = tuple(point(float(concurrency)) for concurrency in (1, 32, 128, 256, 512, 1024))
    profiles = tuple(replace(p, input_tokens=500, points=points, engine="vLLM") for p in request.profiles)
    lengths = replace(request.workload, input_tokens=500)
    loose = Sla(time_to_first_token=Limit(5000, Percentile.MEAN))
    request = replace(request, profiles=profiles, workload=lengths, sla=loose, engine=Engine.VLLM)

    beyond, alike = size(request), size(replace(request, declared_settings=measured_with))

    assert (beyond.basis, alike.basis) == (Basis.MEASURED, Basis.MEASURED)
    assert beyond.concurrency_per_replica <= 256 < alike.concurrency_per_replica
    assert any(w.startswith("OtherSettings: 2 measured points not used") for w in beyond.warnings)
    assert not [w for w in alike.warnings if w.startswith("OtherSettings")]


def test_steps_with_the_same_cache_are_fitted_where_there_are_any() -> None:
    wide = asked(WIDE_CACHE, WIDE_CACHE)
    slow = tuple(
        replace(
            profile,
            name=f"{profile.name}-installed",
            settings=AS_INSTALLED,
            points=tuple(replace(p, requests_per_second=p.requests_per_second / 2) for p in profile.points),
        )
        for profile in wide.profiles
    )
    other_lengths = replace(wide.workload, input_tokens=1500.0)

    def capacity(request: SizingRequest) -> float:
        return size(replace(request, workload=other_lengths)).requests_per_second_per_replica

    assert capacity(replace(wide, profiles=(*wide.profiles, *slow))) == capacity(wide)
