from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from firsttoken_sizing import Basis, Hardware, Pricing, Sizing, SizingRequest, size
from tests.fixtures.worked_examples import DGX_H100, H100, call_center

TP2_FITTED, TP1_MEASURED = 38, 39
PRICES = {"by GPUs": {}, "by server": {H100: DGX_H100}, "by GPU-hour": {H100: Pricing(gpu_hour=4.5)}}


def question(pricing: dict[str, Pricing], peak: float = 200) -> SizingRequest:
    """TTFT P95 of 500 ms: measured points carry it on TP1, the shipped fit says that TP2 needs one GPU fewer."""
    return replace(call_center(ttft_milliseconds=500, peak=peak), pricing=pricing)


def tensor_parallel(sizing: Sizing) -> int:
    assert sizing.configuration is not None
    return sizing.configuration.tensor_parallel


@pytest.mark.parametrize("pricing", PRICES.values(), ids=PRICES)
def test_38_fitted_gpus_do_not_beat_39_measured_ones(pricing: dict[str, Pricing]) -> None:
    sizing = size(question(pricing))

    (fitted,) = (a for a in sizing.alternatives if a.feasible)
    assert (sizing.basis, sizing.gpus, fitted.gpus) == (Basis.MEASURED, TP1_MEASURED, TP2_FITTED)
    assert fitted.reason == (
        "38 GPUs against 39, but Fitted (± 22 %), and a saving of 2 % a request is inside that error; measure it to"
        " decide"
    )


def test_a_saving_beyond_the_error_wins() -> None:
    slow = question({})
    # The same curve at a third of the throughput: TP2 then saves far more than its 22 %.
    points = tuple(replace(p, requests_per_second=p.requests_per_second / 3) for p in slow.profiles[0].points)
    sizing = size(replace(slow, profiles=(replace(slow.profiles[0], points=points),)))

    assert tensor_parallel(sizing) == 2
    assert sizing.basis is Basis.FITTED
    assert any(a.configuration.tensor_parallel == 1 and "GPUs against" in a.reason for a in sizing.alternatives)


def test_where_nothing_is_measured_the_cheapest_fit_wins() -> None:
    sizing = size(replace(question({}), profiles=()))

    assert sizing.basis is Basis.FITTED
    assert all(a.gpus >= sizing.gpus for a in sizing.alternatives if a.gpus is not None)


def test_a_declared_parallelism_is_taken_whatever_is_measured() -> None:
    sizing = size(replace(question({}), hardware=Hardware(gpus=(H100,), tensor_parallel=2)))

    assert (tensor_parallel(sizing), sizing.gpus) == (2, TP2_FITTED)


@settings(max_examples=25, deadline=None)
@given(st.floats(0.5, 500), st.floats(0.5, 500))
def test_the_doubt_does_not_depend_on_the_load(first: float, second: float) -> None:
    low, high = (size(question({}, peak)) for peak in sorted((first, second)))

    assert tensor_parallel(low) == tensor_parallel(high) == 1
    assert low.gpus <= high.gpus
