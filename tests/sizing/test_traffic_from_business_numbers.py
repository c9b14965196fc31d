"""Requests a second and tokens from calls a year, people and words: the worked examples, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import poisson

from firsttoken_sizing.catalog import resolve_model
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.rounding import NOISE
from firsttoken_sizing.traffic import (
    ActiveTime,
    PrefixCaching,
    average_from_calls,
    average_from_users,
    daily_volume,
    peak_by_factor,
    peak_by_percentile,
    prompt_of,
    tokens_from_words,
)


@pytest.mark.parametrize(("average", "peak", "percent_over"), [(64, 77, 20), (7, 12, 71)])
def test_worked_example_1_peak_by_poisson_percentile(average: float, peak: float, percent_over: int) -> None:
    found = peak_by_percentile(average, 95)

    assert found == peak
    assert round((found / average - 1) * 100) == percent_over


def test_worked_example_2_call_center() -> None:
    """30 M calls a year x 10 minutes x 1 call to RAG a minute x 3 LLM requests; the peak is 7 x the average."""
    average = average_from_calls(30e6, requests_per_call=10 * 1 * 3)

    assert average == pytest.approx(28.54, abs=0.005)
    assert peak_by_factor(average, 7) == pytest.approx(200, abs=0.3)


def test_worked_example_5_volume_of_a_working_day() -> None:
    """The source prints 4.2 G input and 261 M output tokens; its own rate and lengths give 4.07 G and 407 M."""
    day = daily_volume(70.7, hours_per_day=8, requests_per_user=3, input_tokens=2000, output_tokens=200)

    assert day.requests == pytest.approx(2.04e6, rel=0.002)
    assert day.users == pytest.approx(679e3, rel=0.001)
    assert day.input_tokens == pytest.approx(4.07e9, rel=0.001)
    assert day.output_tokens == pytest.approx(407e6, rel=0.001)


def test_worked_example_6_read_as_words_exceeds_the_context_window() -> None:
    input_tokens, output_tokens = tokens_from_words(3500), tokens_from_words(500)

    assert (input_tokens, output_tokens) == (4667, 667)
    assert not resolve_model("GPT-43B").holds(input_tokens, output_tokens)
    assert resolve_model("GPT-43B").holds(3500, 500)


def test_four_tokens_are_three_words_without_rounding_noise() -> None:
    assert [tokens_from_words(words) for words in (0.75, 3, 3000, 2.1)] == [1, 4, 4000, 3]


def test_users_and_volume_are_inverse() -> None:
    office = ActiveTime(hours_per_day=8)
    average = average_from_users(678_720, requests_per_user=3, active=office)

    assert average == pytest.approx(70.7)
    assert daily_volume(average, hours_per_day=8, requests_per_user=3).users == pytest.approx(678_720)


def test_fewer_active_hours_raise_the_average() -> None:
    around_the_clock = average_from_calls(1e6, 3)
    office_hours = average_from_calls(1e6, 3, ActiveTime(hours_per_day=8, days_per_year=250))

    assert office_hours == pytest.approx(around_the_clock * 3 * 365 / 250)


def test_what_was_not_said_is_not_counted() -> None:
    day = daily_volume(1)

    assert (day.users, day.input_tokens, day.output_tokens) == (None, None, None)


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lambda: average_from_calls(0, 3), "calls per year"),
        (lambda: average_from_calls(1e6, -3), "requests per call"),
        (lambda: average_from_calls(math.inf, 3), "calls per year"),
        (lambda: average_from_users(math.nan, 3), "daily active users"),
        (lambda: peak_by_factor(10, 0.5), "peak factor"),
        (lambda: peak_by_percentile(10, 100), "peak percentile"),
        (lambda: peak_by_percentile(10, 49), "peak percentile"),
        (lambda: peak_by_percentile(10, math.nan), "peak percentile"),
        (lambda: tokens_from_words(-1), "words"),
        (lambda: daily_volume(1, hours_per_day=25), "hours per day"),
        (lambda: daily_volume(1, input_tokens=0), "input tokens"),
        (lambda: ActiveTime(days_per_year=0), "days per year"),
    ],
)
def test_refused_names_the_number(call: Callable[[], object], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        call()

    assert caught.value.field == field


@given(average=st.floats(0.01, 1e5), low=st.floats(50, 99.99), high=st.floats(50, 99.99))
def test_a_higher_percentile_never_gives_a_lower_peak(average: float, low: float, high: float) -> None:
    low, high = sorted((low, high))

    assert peak_by_percentile(average, low) <= peak_by_percentile(average, high)


@given(average=st.floats(1e-6, 1e6), percentile=st.floats(50, 99.999))
def test_a_percentile_is_what_scipy_says(average: float, percentile: float) -> None:
    assert peak_by_percentile(average, percentile) == poisson.ppf(percentile / 100, average)


def test_a_rag_prompt_is_everything_that_is_sent() -> None:
    prompt = prompt_of(60, system_tokens=400, documents=5, tokens_per_document=300)

    assert prompt.input_tokens == 60 + 400 + 1500
    assert prompt.history_tokens == 0


def test_a_conversation_carries_half_of_its_turns_on_average() -> None:
    """Five questions: the first sends no history, the last four turns, so two on average."""
    prompt = prompt_of(60, turns=5, output_tokens=200)

    assert prompt.history_tokens == 2 * (60 + 200)
    assert prompt.input_tokens == 60 + 520


@pytest.mark.parametrize(
    ("caching", "percent"),
    [(PrefixCaching.OFF, 0), (PrefixCaching.SYSTEM_PROMPT, 27), (PrefixCaching.CONVERSATION, 62)],
)
def test_the_prefix_cache_holds_what_requests_share(caching: PrefixCaching, percent: int) -> None:
    prompt = prompt_of(60, system_tokens=400, turns=5, output_tokens=200, documents=1, tokens_per_document=500)

    assert prompt.cached_input_percent(caching) == percent


def test_a_prompt_is_never_wholly_cached() -> None:
    assert prompt_of(1, system_tokens=1e6).cached_input_percent(PrefixCaching.SYSTEM_PROMPT) == 99


@pytest.mark.parametrize(
    ("arguments", "field"),
    [
        ({"question_tokens": 0}, "question tokens"),
        ({"question_tokens": 10, "system_tokens": -1}, "system prompt tokens"),
        ({"question_tokens": 10, "turns": 0.5, "output_tokens": 1}, "turns"),
        ({"question_tokens": 10, "turns": 3}, "output tokens"),
        ({"question_tokens": 10, "documents": math.inf}, "documents"),
        ({"question_tokens": 10, "documents": 2, "tokens_per_document": math.nan}, "tokens per document"),
    ],
)
def test_a_prompt_that_cannot_be_is_refused(arguments: dict[str, float], field: str) -> None:
    with pytest.raises(InvalidInput) as caught:
        prompt_of(**arguments)

    assert caught.value.field == field


@given(
    question=st.floats(1, 1e5),
    system=st.floats(0, 1e5),
    turns=st.floats(1, 100),
    answer=st.floats(0, 1e4),
    documents=st.floats(0, 100),
    length=st.floats(0, 1e4),
)
def test_more_caching_never_leaves_more_to_compute(
    question: float, system: float, turns: float, answer: float, documents: float, length: float
) -> None:
    prompt = prompt_of(
        question,
        system_tokens=system,
        turns=turns,
        output_tokens=answer,
        documents=documents,
        tokens_per_document=length,
    )
    shares = [prompt.cached_input_percent(caching) for caching in PrefixCaching]

    assert shares == sorted(shares)
    assert 0 <= shares[-1] <= 99
    # A part of a token below a billionth is noise, and is not rounded up.
    assert prompt.input_tokens >= (question + system) * (1 - NOISE)
