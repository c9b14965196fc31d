"""trtllm-bench's report: it knows the hardware, and without a concurrency its TTFT is that of a backlog."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firsttoken_sizing.benchmarks import Declared, read_benchmarks
from firsttoken_sizing.errors import InvalidInput, UnreadableBenchmark
from firsttoken_sizing.profile import ConfigurationKey, Latency, Load

FIXTURE = Path(__file__).parents[2] / "fixtures" / "benchmarks" / "trtllm-bench-concurrency32.json"
SAMPLE = Path(__file__).resolve().parents[4] / "shared" / "samples" / "made-up" / "trtllm-bench-report.json"

Change = Callable[[dict[str, Any]], object]
Edited = Callable[[Path, Change], Path]


def test_nothing_has_to_be_declared() -> None:
    (profile,) = read_benchmarks(FIXTURE).profiles

    assert profile.key == ConfigurationKey("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", "FP8", 2, 1)
    assert (profile.engine, profile.engine_version) == ("TensorRT-LLM", "1.2.1")
    assert profile.load is Load.CLOSED_LOOP


def test_a_run_with_a_concurrency_keeps_its_latencies() -> None:
    result = read_benchmarks(FIXTURE)
    (point,) = result.profiles[0].points

    assert point.concurrency == pytest.approx(31.75, abs=0.01)
    assert point.ttft == Latency(mean=150, p50=142.5, p90=195, p95=217.5, p99=255)
    assert point.itl.mean == 13
    assert point.end_to_end.mean == 150 + 199 * 13
    assert result.remarks == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d["world_info"].update(issue_rate=float("inf")),
        lambda d: d["performance"]["request_latency_percentiles_ms"].update(maximum=44_000.0),
    ],
    ids=["infinite issue rate", "a request that waited for half of the run"],
)
def test_a_run_that_sends_everything_at_once_keeps_its_throughput_only(edited: Edited, change: Change) -> None:
    result = read_benchmarks(edited(FIXTURE, change))
    (point,) = result.profiles[0].points

    assert (point.requests_per_second, point.itl.mean) == (11.6, 13)
    assert point.ttft == point.end_to_end == Latency()
    assert point.concurrency == pytest.approx(11.6 * 0.013 * 199, rel=1e-5)
    assert "sent all requests at once" in result.remarks[0].text


def test_without_streaming_there_is_only_an_end_to_end_latency(edited: Edited) -> None:
    (profile,) = read_benchmarks(edited(FIXTURE, lambda d: d.pop("streaming_metrics"))).profiles

    assert profile.points[0].ttft == profile.points[0].itl == Latency()
    assert profile.points[0].end_to_end.mean is not None


def test_everything_at_once_without_streaming_says_nothing(edited: Edited) -> None:
    def backlog(data: dict[str, Any]) -> None:
        del data["streaming_metrics"]
        data["world_info"]["issue_rate"] = float("inf")

    result = read_benchmarks(edited(FIXTURE, backlog))

    assert result.profiles == ()
    assert "does not say the time per output token" in result.refused[0].reason


@pytest.mark.parametrize(
    ("quantization", "dtype", "precision"),
    [
        ("FP8", "bfloat16", "FP8"),
        ("NVFP4", "bfloat16", "NVFP4"),
        ("FP8_BLOCK_SCALES", "bfloat16", "FP8"),
        ("W4A16_AWQ", "float16", "INT4"),
        (None, "bfloat16", "BF16"),
        ("NO_QUANT", "float16", "FP16"),
        (None, "torch.bfloat16", "BF16"),
    ],
)
def test_the_precision_is_that_of_the_weights(
    edited: Edited, quantization: str | None, dtype: str, precision: str
) -> None:
    path = edited(FIXTURE, lambda d: d["engine"].update(quantization=quantization, dtype=dtype))

    assert read_benchmarks(path).profiles[0].key.precision == precision


def test_a_quantization_that_names_no_format_is_asked_for(edited: Edited) -> None:
    path = edited(FIXTURE, lambda d: d["engine"].update(quantization="MIXED_PRECISION"))

    with pytest.raises(InvalidInput, match="add --precision"):
        read_benchmarks(path)
    assert read_benchmarks(path, Declared(precision="fp8")).profiles[0].key.precision == "FP8"


def test_stages_of_a_pipeline_are_read_and_may_not_be_contradicted(edited: Edited) -> None:
    path = edited(FIXTURE, lambda d: d["world_info"].update(pp_size=2, world_size=4))
    key = read_benchmarks(path).profiles[0].key

    assert (key.tensor_parallel, key.pipeline_parallel) == (2, 2)
    with pytest.raises(InvalidInput, match=r"4 contradicts .* says 2") as caught:
        read_benchmarks(path, Declared(pipeline_parallel=4))
    assert caught.value.field == "--pipeline-parallel"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["request_info"].pop("avg_output_length"), r"request_info\.avg_output_length is missing"),
        (lambda d: d["world_info"].update(tp_size=0), r"world_info\.tp_size is not a finite number above 0"),
        (lambda d: d["performance"].pop("total_latency_ms"), r"total_latency_ms is missing"),
        (
            lambda d: d["performance"].update(request_throughput_req_s="many"),
            "request_throughput_req_s is not a number",
        ),
        (lambda d: d["streaming_metrics"]["ttft_percentiles"].update(p95=-1), "ttft p95 is not a finite number"),
    ],
)
def test_a_bad_value_makes_the_file_unreadable(edited: Edited, change: Change, problem: str) -> None:
    with pytest.raises(UnreadableBenchmark, match=problem):
        read_benchmarks(edited(FIXTURE, change))


def test_the_sample_of_the_format_is_read() -> None:
    if not SAMPLE.is_file():
        pytest.skip("../shared/samples is not here")
    result = read_benchmarks(SAMPLE)
    (profile,) = result.profiles

    assert profile.key == ConfigurationKey("meta-llama/Llama-3.1-8B-Instruct", "H100-SXM-80GB", "BF16", 1, 1)
    assert profile.points[0].requests_per_second == 73.1
    assert profile.points[0].ttft == Latency()
    assert len(result.remarks) == 1
