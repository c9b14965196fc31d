"""GenAI-Perf's JSON, with flat (0.0.8) and nested (0.0.16) settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from firsttoken_sizing.benchmarks import Declared, read_benchmarks
from firsttoken_sizing.errors import InvalidInput, UnreadableBenchmark
from firsttoken_sizing.profile import ConfigurationKey, Load

FIXTURES = Path(__file__).parents[2] / "fixtures" / "benchmarks"
NESTED = FIXTURES / "genai-perf-nested-concurrency4.json"
FLAT = FIXTURES / "genai-perf-flat-concurrency8.json"
SAMPLES = Path(__file__).resolve().parents[4] / "shared" / "samples"
DECLARED = Declared(model="meta/llama-3.1-8b-instruct", gpu="L40S", precision="bf16", tensor_parallel=1, engine="vLLM")


def test_nested_settings_are_read() -> None:
    (profile,) = read_benchmarks(NESTED, DECLARED).profiles
    (point,) = profile.points

    assert profile.key == ConfigurationKey("meta-llama/Llama-3.1-8B-Instruct", "L40S", "BF16", 1, 1)
    assert (profile.input_tokens, profile.output_tokens) == (512, 100)  # 511.6 measured
    assert profile.load is Load.CLOSED_LOOP
    assert profile.engine == "vLLM"
    assert point.concurrency == 4
    assert point.ttft.mean == 60.0
    assert point.ttft.p99 == pytest.approx(92.4)
    assert point.itl.mean == 11.5
    assert point.end_to_end.mean == pytest.approx(60 + 99 * 11.5)


def test_runs_of_several_files_and_releases_become_one_profile() -> None:
    (profile,) = read_benchmarks([FLAT, NESTED], DECLARED).profiles

    assert [point.concurrency for point in profile.points] == [4, 8]
    assert profile.source == f"GenAI-Perf {FLAT.name}, GenAI-Perf {NESTED.name}"


def test_measured_lengths_win_over_requested_ones(edited: Callable[..., Path]) -> None:
    path = edited(NESTED, lambda data: data["input_sequence_length"].update(avg=640.2))

    assert read_benchmarks(path, DECLARED).profiles[0].input_tokens == 640


@pytest.mark.parametrize(
    ("missing", "flag"),
    [
        ({"gpu": None}, "--gpu"),
        ({"precision": None}, "--precision"),
        ({"tensor_parallel": None}, "--tensor-parallel"),
        ({"model": None}, "--model"),
    ],
)
def test_what_the_file_does_not_say_is_asked_for(missing: dict[str, None], flag: str) -> None:
    known = {"model": "llama-3.1-8b", "gpu": "L40S", "precision": "bf16", "tensor_parallel": 1}
    with pytest.raises(InvalidInput, match=f"add {flag}") as caught:
        read_benchmarks(NESTED, Declared(**(known | missing)))  # type: ignore[arg-type]

    assert caught.value.field == flag


@pytest.mark.parametrize(
    ("fixture", "change"),
    [
        (NESTED, lambda data: data["input_config"]["perf_analyzer"].update(stimulus={"request_rate": 4.0})),
        (FLAT, lambda data: data["input_config"].update(concurrency=None, request_rate=4.0)),
    ],
    ids=["nested", "flat"],
)
def test_a_run_at_a_constant_rate_is_refused_with_its_reason(
    edited: Callable[..., Path], fixture: Path, change: Callable[[dict[str, Any]], object]
) -> None:
    result = read_benchmarks(edited(fixture, change), DECLARED)

    assert result.profiles == ()
    assert "constant rate" in result.refused[0].reason


def test_a_run_without_streaming_has_only_an_end_to_end_latency(edited: Callable[..., Path]) -> None:
    def without_streaming(data: dict[str, Any]) -> None:
        del data["time_to_first_token"], data["inter_token_latency"]

    (profile,) = read_benchmarks(edited(NESTED, without_streaming), DECLARED).profiles

    assert profile.points[0].ttft.mean is None
    assert profile.points[0].end_to_end.mean is not None


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (lambda d: d["time_to_first_token"].update(avg=float("nan")), r"time_to_first_token\.avg is not a finite"),
        (lambda d: d["request_throughput"].update(avg=float("inf")), r"request_throughput\.avg is not a finite"),
        (lambda d: d["request_latency"].pop("avg"), r"request_latency\.avg is missing"),
        (lambda d: d.pop("request_latency"), "has no request_latency"),
        (lambda d: d.pop("request_throughput"), r"request_throughput\.avg is missing"),
        (lambda d: d["inter_token_latency"].update(unit="tokens"), "inter_token_latency is in 'tokens'"),
        (lambda d: d["request_latency"].update(p95=[1]), r"request_latency\.p95 is not a number"),
        (lambda d: d["input_config"].update(model_names=["a", "b"]), "mixes the models a, b"),
        (lambda d: d["input_config"]["perf_analyzer"]["stimulus"].update(concurrency=0), "concurrency is not a finite"),
    ],
)
def test_a_bad_value_makes_the_file_unreadable(
    edited: Callable[..., Path], change: Callable[[dict[str, Any]], object], problem: str
) -> None:
    with pytest.raises(UnreadableBenchmark, match=problem):
        read_benchmarks(edited(NESTED, change), DECLARED)


def test_infinity_that_is_not_read_does_not_matter(edited: Callable[..., Path]) -> None:
    path = edited(NESTED, lambda data: data.update(issue_rate=float("inf")))

    assert read_benchmarks(path, DECLARED).profiles


@pytest.mark.parametrize(("release", "lengths"), [("0.0.8", (66, 48)), ("0.0.16", (172, 48))])
def test_files_that_the_real_tool_wrote_are_read(release: str, lengths: tuple[int, int]) -> None:
    path = SAMPLES / f"genai-perf-{release}" / "profile_export_genai_perf.json"
    if not path.is_file():
        pytest.skip("../shared/samples is not here")
    (profile,) = read_benchmarks(path, DECLARED).profiles

    assert (profile.input_tokens, profile.output_tokens) == lengths
    assert profile.points[0].concurrency == 4
