"""No value of any word ends a notebook in another error than `InvalidInput`, which names a word and the fix."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import firsttoken_sizing as ft
from firsttoken_sizing.errors import SizingError
from firsttoken_sizing.notebook.asked import Asked, request_of
from firsttoken_sizing.simulation.load import load_of_size
from tests.fixtures.hypothesis_scale import examples
from tests.fixtures.worked_examples import H100, LLAMA_8B

COURSE = Path(__file__).resolve().parents[2] / "fixtures/benchmarks/dli-llama3-8b-h100-fp8-2000-200.csv"
ASKED: dict[str, Any] = {
    "gpus": H100,
    "precision": "FP8",
    "input_tokens": 2000,
    "output_tokens": 200,
    "requests_per_second": 20,
    "e2e_mean_ms": 20_000,
    "arrivals": "ClosedLoop",
}
JOB = {"gpus": H100, "input_tokens": 500, "output_tokens": 100, "deadline_hours": 2}
VALUES: tuple[Any, ...] = (
    *(None, True, "", "20", "x" * 500, b"20", "two\nlines", 1j, object(), Path("none.csv")),
    *(0, -1, 1, 3, 10**6, 10**400, 0.5, 2.5, 1e6, 1e308, -2.0, math.nan, math.inf, -math.inf),
    *((), [], [1], ["H100"], [None], {}, {"a": 1}, {1: 2}, range(3), {"H100-SXM-80GB": 2.5}),
    *(np.int64(2), np.float32(2.5), np.float64(math.nan), np.array([1, 2])),
    *(ft.Pricing(gpu_hour="2.5"), ft.Pricing(currency=1), ft.Pricing(gpu_hour=-1)),  # type: ignore[arg-type]
)
OF_FUNCTIONS = {
    ft.curve: ("concurrency", "rates"),
    ft.simulate: ("replicas", "process", "rate", "concurrency", "seconds", "seed"),
    ft.side_by_side: ("places",),
}


@given(word=st.sampled_from(sorted(Asked.__annotations__)), value=st.sampled_from(VALUES))
@settings(max_examples=examples(200), deadline=None)
def test_every_word_takes_or_refuses_every_value(word: str, value: object) -> None:
    answer = answer_or_refusal(ft.size, {**ASKED, word: value})

    assert isinstance(answer, str) or answer.feasible is (answer.replicas >= 1)


@given(
    function_and_word=st.sampled_from([(f, word) for f, words in OF_FUNCTIONS.items() for word in words]),
    value=st.sampled_from(VALUES),
)
@settings(max_examples=examples(60), deadline=None)
def test_so_does_every_function(function_and_word: tuple[Any, str], value: object) -> None:
    function, word = function_and_word
    own = {"replicas": 1, "seconds": 20, "concurrency": 4} if function is ft.simulate else {}
    # NB: what is simulated costs its time; a fleet or a load of a million is no question of kinds.
    if function is ft.simulate and isinstance(value, int | float) and value > 1000:
        return
    assert answer_or_refusal(function, {**ASKED, **own, word: value})


def answer_or_refusal(function: Any, words: dict[str, Any]) -> Any:
    """The answer, or the one line that refuses it."""
    try:
        return function(LLAMA_8B, **words)
    except SizingError as error:
        refusal = str(error)
    assert "\n" not in refusal
    assert len(refusal) < 1500
    return refusal


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ({"requests_per_second": "20"}, r"^requests_per_second: '20' is not a number; write it without quotes"),
        ({"gpu_memory_percent": "90"}, r"^gpu_memory_percent: '90' is not a number"),
        ({"gpu_memory_percent": 0.9}, r"^gpu_memory_percent: 0.9 is below 1 percent; give percent, such as 90"),
        ({"draft_tokens": 3, "acceptance_percent": 0.7}, r"^acceptance_percent: 0.7 is below 1 percent"),
        ({"draft_tokens": 1000, "acceptance_percent": 70}, r"^draft_tokens: 1000 is outside 1 to 16; use 1 to 16"),
        ({"max_batch_size": 64.5}, r"^max_batch_size: 64.5 is not a whole number"),
        ({"gpus_per_server": 2.5}, r"^gpus_per_server: 2.5 is not a whole number"),
        ({"tensor_parallel": True}, r"^tensor_parallel: True is not a number"),
        ({"pricing": 2.5}, r"^pricing: 2.5 is no Pricing; use Pricing\(gpu_hour=2.5\)"),
        ({"ttft_p95_ms": None, "e2e_mean_ms": None}, r"^ttft_p95_ms: missing"),
    ],
    ids=lambda value: "" if isinstance(value, str) else ", ".join(value),
)
def test_a_value_of_another_kind_is_named(words: dict[str, Any], said: str) -> None:
    with pytest.raises(ft.InvalidInput, match=said):
        ft.size(LLAMA_8B, **{**ASKED, **words})


def test_numbers_of_any_library_are_numbers() -> None:
    plain = request_of(LLAMA_8B, {**ASKED, "tensor_parallel": 2, "kv_cache_bits": 8, "itl_p95_ms": None})
    other = {"tensor_parallel": np.int64(2), "kv_cache_bits": 8.0, "input_tokens": np.float64(2000)}

    assert request_of(LLAMA_8B, {**ASKED, **other}) == plain
    assert request_of(LLAMA_8B, {**JOB, "offline_requests": 1e6}).workload.offline == ft.OfflineJob(1_000_000, 2)
    assert ft.size(LLAMA_8B, **JOB, offline_requests=1e6).feasible  # type: ignore[call-overload]


@pytest.mark.parametrize(
    "words", [{"replicas": 1.5}, {"concurrency": 2.5}, {"concurrency": 0}, {"seconds": -5}, {"rate": 0}], ids=str
)
def test_a_load_that_is_none_is_not_simulated(words: dict[str, Any]) -> None:
    (word,) = words
    with pytest.raises(ft.InvalidInput, match=f"^{word}: "):
        ft.simulate(LLAMA_8B, **ASKED, **words)


def test_a_load_of_nothing_is_not_the_sized_one() -> None:
    sizing = ft.size(LLAMA_8B, **ASKED)

    for words in ({"rate": 0.0}, {"concurrency": 0}):
        with pytest.raises(ft.InvalidInput, match=f"--{next(iter(words))}: is missing"):
            load_of_size(sizing, None, seconds=60, **words)  # type: ignore[arg-type]


@pytest.mark.parametrize("words", [{"concurrency": 5}, {"concurrency": [-3, 0, 1.5, 4]}, {"rates": [-2.0]}], ids=str)
def test_a_curve_has_its_points_at_loads(words: dict[str, Any]) -> None:
    (word,) = words
    with pytest.raises(ft.InvalidInput, match=f"^{word}: "):
        ft.curve(LLAMA_8B, **ASKED, **words)


@pytest.mark.parametrize(
    "words", [{"tensor_parallel": "1"}, {"tensor_parallel": 1.5}, {"engine": "foo"}, {"gpu": 5}], ids=str
)
def test_what_was_measured_is_said_in_its_kind(words: dict[str, Any]) -> None:
    (word,) = words
    with pytest.raises(ft.InvalidInput, match=f"^{word}: "):
        ft.read_benchmarks(COURSE, **words)


@pytest.mark.parametrize("gpus_per_server", [0, 2.5, "8"])
def test_the_servers_of_a_place_have_whole_gpus(gpus_per_server: Any) -> None:
    with pytest.raises(ft.InvalidInput, match="gpus_per_server"):
        ft.side_by_side(LLAMA_8B, places=[ft.Place("own", H100, gpus_per_server=gpus_per_server)], **ASKED)
