"""Peak memory of a static batch: parts that are arithmetic, and constants that stay what the measurements give."""

from __future__ import annotations

from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from firsttoken_sizing.catalog import gpus, models, resolve_gpu, resolve_model
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.engines.peak_memory import fitted_amounts, held_gib, peak_memory_gib
from firsttoken_sizing.engines.spec import PeakConstants
from firsttoken_sizing.errors import InvalidInput

NOTHING = PeakConstants(*(0.0 for _ in fields(PeakConstants)))


def peak(model: str = "LLaMA v2 7B", gpu: str = "H100-SXM-80GB", **changes: object) -> float:
    arguments: dict[str, object] = {
        "precision": "FP8",
        "batch": 1,
        "input_tokens": 128.0,
        "output_tokens": 128.0,
    } | changes
    return peak_memory_gib(resolve_model(model), resolve_gpu(gpu), **arguments)  # type: ignore[arg-type]


def test_without_constants_it_is_the_weights_and_the_cache() -> None:
    """Llama 2 7B in FP8: 6.74e9 parameters of a byte, 2 x 32000 x 4096 of them at two; 262,144 bytes of KV a token."""
    weights = (6.74e9 + 2 * 32000 * 4096) / 2**30

    assert peak(constants=NOTHING) == pytest.approx(weights + 256 * 262_144 / 2**30, rel=1e-6)


def test_activations_take_most_of_what_a_long_prompt_adds() -> None:
    """About twelve vectors of the hidden size for each prompt token in 16 bits: Llama 2 in FP16, measured."""
    long, short = (peak(precision="FP16", batch=8, input_tokens=n, output_tokens=4096.0 - n) for n in (2048.0, 1024.0))

    assert (long - short) * 2**30 == pytest.approx(12 * 4096 * 2 * 8 * 1024, rel=0.15)


def test_every_gpu_of_a_group_holds_the_embeddings_whole() -> None:
    model = resolve_model("LLaMA v2 70B")
    embeddings = 32000 * 8192 * 2 / 2**30
    one, eight = (held_gib(model, "FP16", ways, 0, 1.0) for ways in (1, 8))

    assert eight == pytest.approx((one - embeddings) / 8 + embeddings)


def test_a_quantized_model_has_a_cache_of_8_bits_and_no_smaller() -> None:
    model = resolve_model("LLaMA v2 7B")
    caches = {p: held_gib(model, p, 1, 100, 1000.0) - held_gib(model, p, 1, 0, 1000.0) for p in ("FP16", "FP8")}

    assert caches["FP8"] == pytest.approx(caches["FP16"] / 2)


@given(
    model=st.sampled_from(models()),
    gpu=st.sampled_from(gpus()),
    batch=st.integers(1, 2048),
    tokens=st.floats(1, 1e5),
)
def test_more_requests_never_take_less(model: object, gpu: object, batch: int, tokens: float) -> None:
    def of(requests: int) -> float:
        return peak_memory_gib(
            model,  # type: ignore[arg-type]
            gpu,  # type: ignore[arg-type]
            precision="BF16",
            batch=requests,
            input_tokens=tokens,
            output_tokens=tokens,
        )

    assert 0 < of(batch) <= of(batch + 1)


def test_each_constant_has_its_amount() -> None:
    amounts = fitted_amounts(resolve_model("LLaMA v2 70B"), resolve_gpu("H100-SXM-80GB"), "FP8", 8, 4, 100.0)

    assert len(amounts) == len(fields(PeakConstants))


def test_an_engine_that_was_not_measured_has_no_peak() -> None:
    with pytest.raises(InvalidInput, match="vLLM was not measured"):
        peak(engine=Engine.VLLM)


@pytest.mark.parametrize("field", ["batch", "tensor_parallel", "input_tokens", "output_tokens"])
def test_nothing_of_a_batch_may_be_below_one(field: str) -> None:
    with pytest.raises(InvalidInput, match="is below 1"):
        peak(**{field: 0})
