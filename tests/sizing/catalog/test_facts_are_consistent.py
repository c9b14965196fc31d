"""The data files: complete, sourced, and in agreement with arithmetic that was done elsewhere."""

from __future__ import annotations

import csv
from dataclasses import MISSING, fields
from pathlib import Path

import pytest

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER, Attention, Gpu, gpus, models, resolve_gpu, resolve_model

SHARED = Path(__file__).resolve().parents[4] / "shared"


def test_the_catalog_is_as_large_as_promised() -> None:
    assert len(models()) >= 60
    assert len(gpus()) >= 25


def test_every_entry_has_a_source_and_says_how_sure_it_is() -> None:
    for entry in (*models(), *gpus()):
        assert entry.source, entry.name
        assert entry.confidence in ("high", "medium", "low"), entry.name


def test_every_gpu_has_positive_figures() -> None:
    for gpu in gpus():
        assert gpu.memory_gib > 0, gpu.name
        assert gpu.memory_bandwidth_gb_per_second > 0, gpu.name
        assert gpu.dense_tflops["FP16" if "FP16" in gpu.dense_tflops else "BF16"] > 0, gpu.name
        assert set(gpu.dense_tflops) <= set(BYTES_PER_PARAMETER), gpu.name


def test_every_gpu_has_its_multiprocessors_with_a_source_or_says_that_they_are_unknown() -> None:
    """`null` in the file is an answer, a missing line is none: `Gpu` has no default for it."""
    assert "multiprocessors" not in {field.name for field in fields(Gpu) if field.default is not MISSING}
    for gpu in gpus():
        assert gpu.multiprocessors is None or gpu.multiprocessors > 0, gpu.name
        assert ("multiprocessors:" in gpu.source) == (gpu.multiprocessors is not None), gpu.name
    hopper_or_older = {"volta", "turing", "ampere", "ada-lovelace", "hopper"}
    assert all(gpu.multiprocessors for gpu in gpus() if gpu.architecture in hopper_or_older)


def test_every_model_has_a_consistent_architecture() -> None:
    for model in models():
        assert 0 <= model.full_attention_layers <= model.attention_layers <= model.layers, model.name
        assert 0 < model.active_parameters_billion <= model.parameters_billion, model.name
        assert (model.full_attention_layers < model.attention_layers) == (model.sliding_window_tokens is not None)
        assert model.kv_bytes_per_token > 0, model.name
        assert (model.mla_kv_rank is not None) == (model.attention is Attention.MLA), model.name
        assert (model.experts is None) == (model.experts_per_token is None), model.name
        assert model.published_precisions, model.name
        assert set(model.published_precisions) <= set(BYTES_PER_PARAMETER), model.name


def test_h100_has_the_memory_that_its_driver_reports() -> None:
    assert resolve_gpu("H100-SXM-80GB").memory_gib == pytest.approx(81559 / 1024)
    assert resolve_gpu("H200").memory_gib == pytest.approx(140.4, abs=0.01)


def test_memory_that_no_driver_reported_is_not_rounded_up() -> None:
    assert resolve_gpu("MI300X").memory_mib_reported is None
    assert resolve_gpu("MI300X").memory_gib == pytest.approx(192e9 / 2**30)


@pytest.mark.parametrize(
    ("model", "bytes_per_token"),
    [
        ("meta-llama/Meta-Llama-3-8B-Instruct", 131_072),
        ("meta-llama/Meta-Llama-3-70B-Instruct", 327_680),
        ("meta-llama/Llama-2-7b-chat-hf", 524_288),
        ("deepseek-ai/DeepSeek-R1", 70_272),
        ("nvidia/Llama-3_3-Nemotron-Super-49B-v1", 200_704),
    ],
)
def test_kv_cache_of_a_token_is_what_the_architecture_gives(model: str, bytes_per_token: int) -> None:
    assert resolve_model(model).kv_bytes_per_token == bytes_per_token


def test_windowed_layers_stop_growing_at_their_window() -> None:
    gemma = resolve_model("google/gemma-3-27b-it")  # 10 of 62 layers see everything, the others 1024 tokens

    assert gemma.kv_bytes(1024) == gemma.kv_bytes_per_token * 1024
    assert gemma.kv_bytes(2024) - gemma.kv_bytes(1024) == gemma.kv_bytes_per_token_beyond_window * 1000
    assert gemma.kv_bytes_per_token_beyond_window * 62 == gemma.kv_bytes_per_token * 10


def test_gpt_43b_has_a_window_of_4096_tokens() -> None:
    gpt = resolve_model("GPT-43B")

    assert gpt.holds(3500, 500)
    assert gpt.holds(3596, 500)
    assert not gpt.holds(3597, 500)


def test_fp8_halves_the_weights_but_for_embeddings() -> None:
    """nvidia/Llama-3.1-8B-Instruct-FP8 is a checkpoint of 9.1 GB."""
    llama = resolve_model("meta-llama/Llama-3.1-8B-Instruct")

    assert llama.weight_bytes("BF16") == pytest.approx(16.06e9, rel=0.001)
    assert llama.weight_bytes("FP8") == pytest.approx(9.08e9, rel=0.005)


def test_a_known_checkpoint_size_wins_over_arithmetic() -> None:
    assert resolve_model("openai/gpt-oss-120b").weight_bytes("MXFP4") == 60.8 * 2**30


def test_kv_columns_of_the_shared_data_agree() -> None:
    path = SHARED / "data" / "models.csv"
    if not path.is_file():
        pytest.skip("../shared/data is not here")
    with path.open(newline="", encoding="utf-8") as file:
        for row in csv.DictReader(file):
            model = resolve_model(row["id"])

            assert model.kv_bytes_per_token == int(float(row["kv_bytes_per_token_16bit"])), model.name
            beyond = int(float(row["kv_bytes_per_token_16bit_beyond_window"]))
            assert model.kv_bytes_per_token_beyond_window == beyond, model.name
