"""The table of formats that an engine runs on a GPU: whole, sourced, and of names that exist."""

from __future__ import annotations

import json
from importlib.resources import files
from itertools import product
from types import SimpleNamespace
from typing import cast

import pytest

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER, gpus, resolve_gpu
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.support import Support, nearest, support

TABLE = json.loads(files("firsttoken_sizing.engines").joinpath("data", "support.json").read_text(encoding="utf-8"))


def test_the_table_has_every_engine_with_sources_and_knows_its_words() -> None:
    architectures = {gpu.architecture for gpu in gpus()}

    assert set(TABLE["engines"]) == {engine.value for engine in Engine}
    for entry in TABLE["engines"].values():
        assert entry["sources"]
        assert set(entry["architectures"]) <= architectures
        for formats in entry["architectures"].values():
            assert set(formats["native"]).isdisjoint(formats["emulated"])
            assert {*formats["native"], *formats["emulated"]} <= set(BYTES_PER_PARAMETER)


@pytest.mark.parametrize(
    ("engine", "gpu", "precision", "expected"),
    [
        (Engine.TENSORRT_LLM, "H100-SXM-80GB", "FP8", Support.NATIVE),
        (Engine.TENSORRT_LLM, "A100-SXM-80GB", "FP8", Support.NONE),
        (Engine.TENSORRT_LLM, "MI300X-192GB", "FP16", Support.NONE),
        (Engine.TENSORRT_LLM, "V100-SXM-32GB", "FP16", Support.NONE),
        (Engine.VLLM, "A100-SXM-80GB", "FP8", Support.EMULATED),
        (Engine.VLLM, "MI300X-192GB", "FP8", Support.NATIVE),
        (Engine.VLLM, "B200-SXM-180GB", "INT8", Support.NONE),
        (Engine.VLLM, "T4", "BF16", Support.NONE),
        (Engine.SGLANG, "V100-SXM-32GB", "FP16", Support.NONE),
    ],
)
def test_what_runs_is_what_the_documentation_says(engine: Engine, gpu: str, precision: str, expected: Support) -> None:
    assert support(engine, resolve_gpu(gpu), precision) is expected


def test_what_runs_natively_has_a_rate_in_the_data_sheet_or_is_a_format_of_weights() -> None:
    weights_only = {"INT4", "MXFP4"}
    for engine, gpu, precision in product(Engine, gpus(), BYTES_PER_PARAMETER):
        if support(engine, gpu, precision) is Support.NATIVE and precision not in weights_only:
            # NB: the data sheet of Gaudi 2 in the catalog gives BF16 only.
            assert precision in gpu.dense_tflops or gpu.architecture == "gaudi2", (engine, gpu.name, precision)


def test_the_nearest_that_can_run_does_run() -> None:
    advice = nearest(Engine.TENSORRT_LLM, resolve_gpu("A100-SXM-80GB"), "NVFP4")

    assert advice.startswith("set model.precision to INT4")
    assert "sizing.engine to vLLM" in advice
    assert "hardware.gpus to RTX-PRO-6000-BSE" in advice


def test_hardware_that_no_engine_runs_on_has_an_advice_all_the_same() -> None:
    gpu = resolve_gpu("SN40L-64GB")

    assert {support(engine, gpu, p) for engine, p in product(Engine, BYTES_PER_PARAMETER)} == {Support.NONE}
    assert "hardware.gpus" in nearest(Engine.VLLM, gpu, "BF16")


def test_an_engine_that_the_table_does_not_name_runs_what_the_gpu_computes_in() -> None:
    new = cast(Engine, SimpleNamespace(value="New"))

    assert support(new, resolve_gpu("A100-SXM-80GB"), "INT8") is Support.NATIVE
    assert support(new, resolve_gpu("A100-SXM-80GB"), "FP8") is Support.EMULATED
