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
    warnings = size(call_center(arrivals=Arrivals.POISSON)).warnings

    # FP8 is named there: its accuracy is all there is to say.
    assert [w.partition(":")[0] for w in warnings] == ["PrecisionAccuracy"]


@pytest.mark.parametrize(
    ("model", "precision", "said"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", "BF16", None),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "FP8", "up to about a point of MMLU"),
        ("meta-llama/Meta-Llama-3-8B-Instruct", "INT4", "measure it on your own task"),
        ("openai/gpt-oss-20b", "MXFP4", None),
    ],
    ids=["16 bits", "8 bits", "4 bits", "4 bits that the model was trained in"],
)
def test_a_named_precision_has_the_accuracy_note_that_fits_its_bits(
    model: str, precision: str, said: str | None
) -> None:
    sizing = size(replace(call_center(ttft_milliseconds=1000), model=model, precision=precision, profiles=()))

    notes = [w for w in sizing.warnings if w.startswith("PrecisionAccuracy: ")]
    assert sizing.feasible
    assert len(notes) == (said is not None)
    if said is not None:
        assert f"{precision} may cost" in notes[0]
        assert said in notes[0]


def test_allowed_formats_that_were_never_published_are_named() -> None:
    request = replace(call_center(), precision=None, allowed_precisions=("nvfp4", "FP8", "int4"))

    (warning,) = (w for w in size(request).warnings if w.startswith("PrecisionNotPublished"))

    assert "NVFP4, INT4 in model.allowedPrecisions not considered" in warning
    assert "known in BF16, FP16, FP8 only" in warning
    every_one_known = size(replace(request, allowed_precisions=("FP8", "BF16")))
    assert not any(w.startswith("PrecisionNotPublished") for w in every_one_known.warnings)


def test_one_measured_point_is_measured_and_has_no_invented_percentiles() -> None:
    sizing = size(on_pcie("meta-llama/Meta-Llama-3-8B-Instruct", "FP16", 2))

    assert sizing.basis is Basis.MEASURED
    assert sizing.ttft == Latency(mean=100, p95=120)
    assert sizing.itl.p95 is None
