from __future__ import annotations

from dataclasses import replace

import pytest

from firsttoken_sizing import Arrivals, Basis, ConfigurationKey, Hardware, Latency, Load, Point, Profile, size
from firsttoken_sizing.request import SizingRequest
from tests.fixtures.worked_examples import call_center

PCIE = "A100-PCIe-80GB"


def on_pcie(model: str, precision: str, tensor_parallel: int) -> SizingRequest:
    key = ConfigurationKey(model, PCIE, precision, tensor_parallel)
    point = Point(2.0, concurrency=4, ttft=Latency(mean=100, p95=120), itl=Latency(mean=10))
    return replace(
        call_center(),
        model=model,
        precision=precision,
        pricing={},
        hardware=Hardware(gpus=(PCIE,), tensor_parallel=tensor_parallel),
        profiles=(Profile("pcie", key, 2000, 200, Load.CLOSED_LOOP, (point,)),),
    )


@pytest.mark.parametrize(
    ("model", "tensor_parallel", "warned"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", 2, False),
        ("meta-llama/Meta-Llama-3-8B-Instruct", 4, True),
        ("meta-llama/Meta-Llama-3-70B-Instruct", 4, True),
    ],
    ids=["small model on 2", "small model on 4", "large model on 4"],
)
def test_interconnect(model: str, tensor_parallel: int, warned: bool) -> None:
    sizing = size(on_pcie(model, "FP16", tensor_parallel))

    assert sizing.feasible
    assert any(w.startswith("InterconnectWarning") for w in sizing.warnings) is warned


def test_nvlink_systems_are_not_warned_about() -> None:
    assert size(call_center(arrivals=Arrivals.POISSON)).warnings == ()


def test_one_measured_point_is_measured_and_has_no_invented_percentiles() -> None:
    sizing = size(on_pcie("meta-llama/Meta-Llama-3-8B-Instruct", "FP16", 2))

    assert sizing.basis is Basis.MEASURED
    assert sizing.ttft == Latency(mean=100, p95=120)
    assert sizing.itl.p95 is None
