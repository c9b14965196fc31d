"""`firsttoken_sizing` as a notebook uses it."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import firsttoken_sizing as ft
from firsttoken_sizing.notebook.asked import Asked, request_of
from firsttoken_sizing.workload import Arrivals, Batching, Sparsity, SpeculativeDecoding
from tests.fixtures.worked_examples import DGX_H100, H100, LLAMA_8B, call_center, call_center_profile

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures/benchmarks"
COURSE = FIXTURES / "dli-llama3-8b-h100-fp8-2000-200.csv"
CALL_CENTER: dict[str, Any] = {
    "gpus": H100,
    "precision": "FP8",
    "input_tokens": 2000,
    "output_tokens": 200,
    "requests_per_second": 200,
    "average_requests_per_second": 28.54,
    "arrivals": "closed-loop",
    "pricing": DGX_H100,
}


def test_the_call_center_in_words_is_its_request() -> None:
    words = {**CALL_CENTER, "ttft_p95_ms": 300, "benchmarks": call_center_profile()}

    assert request_of(LLAMA_8B, words) == replace(call_center(), pricing={H100: DGX_H100})


def test_every_word_reaches_the_request() -> None:
    request = request_of(
        "Llama-3.1-8B",
        {
            **CALL_CENTER,
            "gpus": ["H100", "L40S"],
            "pricing": {"L40S": ft.Pricing(gpu_hour=1)},
            "itl_mean_ms": 30,
            "e2e_p99_ms": 9000,
            "batching": ["Static", "in_flight"],
            "sparsity": "two-of-four",
            "draft_tokens": 3,
            "acceptance_percent": 70,
            "engine": "vllm",
            "engine_release": "0.15",
            "routing": "round robin",
            "mode": "streaming",
            "tensor_parallel": 2,
            "pipeline_parallel": 1,
            "gpus_per_server": 4,
            "cached_input_percent": 10,
            "input_tokens_p99": 4000,
            "output_tokens_p99": 400,
            "allowed_precisions": ["FP8"],
        },
    )

    assert request.hardware == ft.Hardware(("H100", "L40S"), 2, 1, 4)
    assert request.batchings == (Batching.STATIC, Batching.IN_FLIGHT)
    assert request.sparsity is Sparsity.TWO_OF_FOUR
    assert request.speculative_decoding == SpeculativeDecoding(3, 70)
    assert (request.engine, request.engine_release) == (ft.Engine.VLLM, "0.15")
    assert request.sla == ft.Sla(
        inter_token_latency=ft.Limit(30, ft.Percentile.MEAN), end_to_end=ft.Limit(9000, ft.Percentile.P99)
    )
    assert (request.workload.routing, request.workload.cached_input_percent) == (ft.Routing.ROUND_ROBIN, 10)
    assert (request.workload.input_tokens_p99, request.workload.output_tokens_p99) == (4000, 400)
    assert (request.allowed_precisions, request.arrivals) == (("FP8",), Arrivals.CLOSED_LOOP)
    assert request.pricing == {"L40S": ft.Pricing(gpu_hour=1)}


def test_an_offline_job_needs_no_limit() -> None:
    request = request_of(
        LLAMA_8B,
        {"gpus": H100, "input_tokens": 500, "output_tokens": 100, "offline_requests": 10_000, "deadline_hours": 2},
    )

    assert request.sla.mode is ft.SlaMode.OFFLINE
    assert request.workload.offline == ft.OfflineJob(10_000, 2)


def test_a_model_outside_the_catalog_is_its_config() -> None:
    config = {
        "model_type": "llama",
        "hidden_size": 4096,
        "num_hidden_layers": 32,
        "num_attention_heads": 32,
        "num_key_value_heads": 8,
        "intermediate_size": 14336,
        "vocab_size": 128256,
        "max_position_embeddings": 8192,
        "torch_dtype": "bfloat16",
    }

    answer = ft.size("ours", config=config, ttft_p95_ms=1000, **{**CALL_CENTER, "precision": "BF16"})

    assert answer.feasible
    assert answer.configuration is not None
    assert (answer.configuration.model, answer.configuration.precision) == ("ours", "BF16")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"ttft_p95": 300}, r"^ttft_p95: is not known; did you mean ttft_p95_ms"),
        ({"gpus": "B200-180GB", "ttft_p95_ms": 300}, r"^gpus: unknown GPU 'B200-180GB'; did you mean B200-SXM-180GB\?"),
        ({}, r"^ttft_p95_ms: missing, and mode Streaming needs one of ttft_p95_ms, itl_p95_ms, e2e_p95_ms"),
        ({"ttft_p95_ms": -1}, r"^ttft_p95_ms: -1 is not a positive number"),
        ({"ttft_p95_ms": 300, "ttft_mean_ms": 200}, r"^ttft_mean_ms, ttft_p95_ms: are two limits on one latency"),
        ({"ttft_p95_ms": 300, "tensor_parallel": 3}, r"^tensor_parallel: 3 GPUs cannot share"),
        ({"ttft_p95_ms": 300, "concurrent_requests": 3}, r"exactly one of requests_per_second, concurrent_requests"),
        (
            {"ttft_p95_ms": 300, "arrivals": "random"},
            r"^arrivals: 'random' is not known; use one of Poisson",
        ),
        (
            {"ttft_p95_ms": 300, "average_requests_per_second": 200.1},
            r"^average_requests_per_second: 200.1 is above the peak, 200; declare the peak or less",
        ),
        ({"ttft_p95_ms": 300, "draft_tokens": 3}, r"^draft_tokens, acceptance_percent: one is missing"),
        ({"offline_requests": 3}, r"^offline_requests, deadline_hours: one is missing"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ", ".join(value),
)
def test_an_error_names_the_word_and_the_fix(words: dict[str, Any], said: str) -> None:
    with pytest.raises(ft.InvalidInput, match=said):
        ft.size(LLAMA_8B, **{**CALL_CENTER, **words})


def test_what_is_missing_or_near_is_named() -> None:
    with pytest.raises(ft.InvalidInput, match=r"^gpus, input_tokens, output_tokens: missing"):
        ft.size(LLAMA_8B)  # type: ignore[call-overload]
    with pytest.raises(ft.UnknownModel, match=r"^model: unknown model.*did you mean meta-llama/Llama-3.3-70B-Instruct"):
        ft.size("Llama-3.3-70B", ttft_p95_ms=300, **CALL_CENTER)


def test_a_notebook_can_complete_every_word() -> None:
    for function in (ft.size, ft.curve, ft.simulate, ft.side_by_side):
        named = inspect.signature(function).parameters
        assert set(Asked.__annotations__) <= set(named)
        assert named["gpus"].default is inspect.Parameter.empty
        assert named["ttft_p95_ms"].default is not inspect.Parameter.empty


def test_a_program_still_asks_with_a_request() -> None:
    assert ft.size(call_center()).replicas == 39


def test_result_files_are_read_and_measured_words_are_checked() -> None:
    measured = ft.read_benchmarks(COURSE)
    for benchmarks in (measured, COURSE, str(COURSE), [COURSE], measured.profiles):
        answer = ft.size(LLAMA_8B, ttft_mean_ms=300, benchmarks=benchmarks, **CALL_CENTER)
        assert (answer.replicas, answer.basis) == (39, ft.Basis.MEASURED)

    with pytest.raises(ft.InvalidInput, match=r"^gpu: .* does not say it; add gpu, for example gpu H100"):
        ft.read_benchmarks(FIXTURES / "genai-perf-flat-concurrency8.json", precision="FP8", model=LLAMA_8B)
    with pytest.raises(ft.InvalidInput, match=r"^gpus: is not known; use model, gpu, precision"):
        ft.read_benchmarks(COURSE, gpus="H100")


def test_places_and_a_simulation_take_the_same_words() -> None:
    words = {**CALL_CENTER, "ttft_mean_ms": 300, "benchmarks": COURSE}
    both = ft.side_by_side(
        LLAMA_8B,
        places=[ft.Place("own", H100, DGX_H100), ft.Place("cloud", H100, ft.Pricing(gpu_hour=4))],
        **words,
    )
    assert both.cheapest is not None
    assert both.cheapest.place.name == "cloud"

    simulated = ft.simulate(LLAMA_8B, replicas=2, rate=4, seconds=30, **words)
    assert simulated.settings.replicas == 2
    assert simulated.summary.requests_per_second == pytest.approx(4, rel=0.5)
    with pytest.raises(ft.InvalidInput, match=r"^replicas: there is no size to simulate \(SingleRequestTTFT"):
        ft.simulate(LLAMA_8B, **{**words, "ttft_mean_ms": 1})
