from __future__ import annotations

import math
from dataclasses import replace

import pytest

from firsttoken_sizing.catalog import resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.errors import UnknownModel
from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.profile import ConfigurationKey, Load, Point, Profile
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step import (
    FittedStep,
    Origin,
    StepModel,
    basis_of,
    shipped,
    shipped_keys,
    shipped_step,
    step_for,
    step_model,
)
from firsttoken_sizing.step.select import is_of_engine
from tests.fixtures.worked_examples import CALL_CENTER_POINTS, LLAMA_8B_H100_FP8, call_center_profile

NEVER_MEASURED = ConfigurationKey("Qwen/Qwen2.5-14B-Instruct", "L40S", "FP8", 2)


def answer(
    key: ConfigurationKey = LLAMA_8B_H100_FP8,
    *profiles: Profile,
    lengths: tuple[float, float] = (2000, 200),
    engine: Engine = Engine.TENSORRT_LLM,
) -> FittedStep:
    return step_for(
        model=resolve_model(key.model),
        gpu=resolve_gpu(key.gpu),
        key=key,
        engine=engine,
        profiles=profiles,
        lengths=lengths,
    )


def test_profiles_win_over_the_shipped_fit() -> None:
    fitted = answer(LLAMA_8B_H100_FP8, call_center_profile())

    assert fitted.origin is Origin.PROFILES
    assert fitted.source == "fitted from llama-3-8b-h100-fp8"
    assert fitted.points == len(CALL_CENTER_POINTS)
    assert answer().origin is Origin.SHIPPED


def test_the_shipped_fit_is_used_for_lengths_that_the_profiles_do_not_cover() -> None:
    far = answer(LLAMA_8B_H100_FP8, call_center_profile(), lengths=(200, 2000))

    assert far == shipped_step(LLAMA_8B_H100_FP8)


def test_profiles_are_used_for_lengths_that_no_source_covers() -> None:
    assert answer(LLAMA_8B_H100_FP8, call_center_profile(), lengths=(60_000, 200)).origin is Origin.PROFILES


def test_one_point_alone_is_fitted() -> None:
    profile = call_center_profile()
    one = answer(LLAMA_8B_H100_FP8, replace(profile, points=profile.points[3:4]))

    assert one.origin is Origin.PROFILES
    assert one.points == 1
    rate = throughput(one.model, Lengths(2000, 2000, 200), 10)
    assert rate == pytest.approx(CALL_CENTER_POINTS[10][0], rel=0.02)


def test_points_that_cannot_be_fitted_leave_the_word_to_the_shipped_fit() -> None:
    poisson = replace(call_center_profile(), load=Load.POISSON)

    assert answer(LLAMA_8B_H100_FP8, poisson).origin is Origin.SHIPPED


def test_physics_is_used_where_nothing_was_measured_and_is_always_extrapolated() -> None:
    fitted = answer(NEVER_MEASURED)

    assert fitted.origin is Origin.PRIOR
    assert fitted.points == 0
    assert math.isnan(fitted.median_error_percent)
    assert 0.005 < fitted.model.decode_seconds(1, 1000) < 0.1
    assert fitted.without_one() == ()
    assert basis_of(fitted, 2000, 200) is Basis.EXTRAPOLATED


def test_an_unmeasured_sibling_is_of_the_same_release_as_the_measured_ones() -> None:
    """TP 4 of a model whose TP 1 and 2 were measured with engines of 2024 must not look better for its age alone."""
    sibling = answer(replace(LLAMA_8B_H100_FP8, tensor_parallel=4))
    two = shipped_step(replace(LLAMA_8B_H100_FP8, tensor_parallel=2))

    assert two is not None
    assert sibling.release == two.release == "2024"
    assert sibling.model.attention_wave_seconds > 0
    assert 0.6 < sibling.model.decode_seconds(1, 2000) / two.model.decode_seconds(1, 2000) < 1.1


def test_a_measured_sibling_scales_the_physics_of_one_that_was_not_measured() -> None:
    measured = replace(NEVER_MEASURED, tensor_parallel=1)
    lengths = Lengths(2000, 2000, 200)
    physics = answer(measured).model
    points = tuple(Point(throughput(physics, lengths, c) / 1.5, concurrency=c) for c in (1.0, 5.0, 25.0, 100.0))
    slower = Profile("slow", measured, 2000, 200, Load.CLOSED_LOOP, points)
    alone, beside = answer(NEVER_MEASURED), answer(NEVER_MEASURED, slower)

    assert beside.origin is Origin.PRIOR
    assert "FP8 with tensorParallel 1" in beside.source
    assert throughput(beside.model, lengths, 10) == pytest.approx(throughput(alone.model, lengths, 10) / 1.5, rel=0.1)


@pytest.mark.parametrize(
    ("written", "engine", "counts"),
    [
        ("", Engine.VLLM, True),
        ("vLLM", Engine.VLLM, True),
        ("vllm 0.15.1", Engine.VLLM, True),
        ("NIM_TRT-LLM", Engine.TENSORRT_LLM, True),
        ("NIM (TensorRT-LLM, mid-2024)", Engine.TENSORRT_LLM, True),
        ("Triton", Engine.TENSORRT_LLM, True),
        ("sglang", Engine.SGLANG, True),
        ("NIM vLLM", Engine.TENSORRT_LLM, False),
        ("vLLM", Engine.TENSORRT_LLM, False),
        ("NIM", Engine.VLLM, False),
        ("a private engine", Engine.VLLM, False),
        ("a private engine", Engine.TENSORRT_LLM, False),
    ],
)
def test_only_points_of_the_engine_asked_about_count(written: str, engine: Engine, counts: bool) -> None:
    profile = replace(call_center_profile(), engine=written)

    assert is_of_engine(profile, engine) is counts
    assert (answer(LLAMA_8B_H100_FP8, profile, engine=engine).origin is Origin.PROFILES) is counts


def test_bf16_and_fp16_take_equally_long() -> None:
    key = replace(LLAMA_8B_H100_FP8, precision="BF16")

    assert shipped_step(key) == shipped_step(replace(key, precision="FP16"))
    assert shipped_step(key) is not None


def rates(*steps: StepModel) -> list[float]:
    return [throughput(step, Lengths(2000, 2000, 200), 25) for step in steps]


def test_without_its_only_workload_a_fit_leaves_the_constants_of_the_engine() -> None:
    fitted = answer(LLAMA_8B_H100_FP8, call_center_profile())
    (rest,) = fitted.without_one()

    assert fitted.is_of_one_workload
    assert rest.batch_shape == ()
    assert rates(rest) == pytest.approx(rates(fitted.model), rel=0.3)
    assert rates(rest) != pytest.approx(rates(fitted.model), rel=1e-6)


def test_of_two_workloads_the_fits_without_one_are_those_of_the_other() -> None:
    near = call_center_profile()
    slower = tuple(replace(p, requests_per_second=p.requests_per_second / 4) for p in near.points)
    far = replace(near, name="far", input_tokens=7000, output_tokens=1000, points=slower)
    # Nothing is shipped of this engine that would be used instead.
    both = answer(LLAMA_8B_H100_FP8, near, far, engine=Engine.VLLM)
    alone = [answer(LLAMA_8B_H100_FP8, profile, engine=Engine.VLLM) for profile in (far, near)]

    assert not both.is_of_one_workload
    assert rates(*both.without_one()) == pytest.approx(rates(*(fit.model for fit in alone)), rel=0.02)


def test_lengths_that_were_not_measured_are_extrapolated() -> None:
    fit = shipped_step(LLAMA_8B_H100_FP8)
    assert fit is not None

    assert basis_of(fit, 2000, 200) is Basis.FITTED
    assert basis_of(fit, 50_000, 200) is Basis.EXTRAPOLATED


def test_the_short_way_for_models_of_the_catalog() -> None:
    model, basis = step_model(LLAMA_8B_H100_FP8, [call_center_profile()], max_batch=100)

    assert basis is Basis.FITTED
    assert model.max_batch == 100
    assert step_model(NEVER_MEASURED, (), 256)[1] is Basis.EXTRAPOLATED
    with pytest.raises(UnknownModel):
        step_model(replace(NEVER_MEASURED, model="unknown/model"), (), 256)


def test_every_shipped_fit_is_of_the_catalog_and_knows_its_errors() -> None:
    count = 0
    for engine in Engine:
        for key in shipped_keys(engine):
            fit = shipped_step(key, engine)
            assert fit is not None
            assert resolve_model(key.model).name == key.model
            assert resolve_gpu(key.gpu).name == key.gpu
            assert fit.points >= 3
            assert fit.median_error_percent < 35
            assert fit.without_one()
            assert 0 < fit.model.decode_seconds(1, 1000) < fit.model.decode_seconds(200, 200_000)
            count += 1

    assert count > 90
    nim = [fit for (_, _, release), fit in shipped().fits.items() if release == "2024"]
    assert len(nim) == 10
    assert all(fit is not None and fit.median_error_percent < 2 and not fit.is_collected for fit in nim)
