from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing.errors import NoBenchmark
from firsttoken_sizing.request import Basis
from firsttoken_sizing.step import basis_of, fitted_step, shipped_keys, shipped_step, step_model
from tests.fixtures.worked_examples import LLAMA_8B_H100_FP8, call_center_profile


def test_profiles_win_over_the_shipped_fit() -> None:
    model, basis = step_model(LLAMA_8B_H100_FP8, [call_center_profile()], max_batch=100)
    shipped, _ = step_model(LLAMA_8B_H100_FP8, [], max_batch=100)

    assert basis is Basis.FITTED
    assert model.max_batch == 100
    assert model != shipped


def test_the_shipped_fit_speaks_for_lengths_that_the_profiles_do_not_cover() -> None:
    near = fitted_step(LLAMA_8B_H100_FP8, [call_center_profile()], (2000, 200))
    far = fitted_step(LLAMA_8B_H100_FP8, [call_center_profile()], (200, 2000))

    assert near is not None
    assert near.source.startswith("fitted from")
    assert far == shipped_step(LLAMA_8B_H100_FP8)


def test_bf16_and_fp16_take_equally_long() -> None:
    key = replace(LLAMA_8B_H100_FP8, precision="BF16")

    assert shipped_step(key) == shipped_step(replace(key, precision="FP16"))


def test_nothing_measured_and_nothing_shipped_names_the_fields_and_the_fix() -> None:
    with pytest.raises(NoBenchmark, match=r"spec\.model/spec\.hardware.*tensorParallel 8.*firsttoken import"):
        step_model(replace(LLAMA_8B_H100_FP8, tensor_parallel=8), [call_center_profile()], max_batch=100)


def test_lengths_that_nobody_measured_are_extrapolated_with_a_wide_band() -> None:
    fit = shipped_step(LLAMA_8B_H100_FP8)
    assert fit is not None

    assert basis_of(fit, 2000, 200) == (Basis.FITTED, fit.band_percent)
    basis, band = basis_of(fit, 50_000, 200)
    assert basis is Basis.EXTRAPOLATED
    assert band >= 30


def test_ten_configurations_are_shipped_and_none_is_off_by_more_than_a_few_percent() -> None:
    fits = [shipped_step(key) for key in shipped_keys()]

    assert len(fits) == 10
    assert all(fit is not None and fit.median_error_percent < 5 for fit in fits)
