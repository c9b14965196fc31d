"""Traffic from what a business knows (calls a year, people, words) as a sizing needs it (requests a second, tokens).

Arithmetic only, each step with its unit in the name; formulas in docs/design/sizing.md. Nothing is assumed in silence:
how many hours of a day traffic flows, and how the peak follows from the average, are arguments.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import StrEnum

from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.rounding import ceiling, floor

WORDS_PER_TOKEN = 0.75
"""English text (OpenAI and NVIDIA give the same rule of thumb)."""
SECONDS_PER_HOUR = 3600


@dataclass(frozen=True, slots=True)
class ActiveTime:
    """Hours in which traffic flows: the average is over this time, not over the nights and holidays without any."""

    hours_per_day: float = 24.0
    days_per_year: float = 365.0

    def __post_init__(self) -> None:
        """Refuse times that do not exist."""
        if not 0 < self.hours_per_day <= 24:
            raise InvalidInput(
                "hours per day", f"{self.hours_per_day:g} is not in (0, 24]", "use 24 for around the clock"
            )
        if not 0 < self.days_per_year <= 366:
            raise InvalidInput("days per year", f"{self.days_per_year:g} is not in (0, 366]", "use 365 for every day")

    @property
    def seconds_per_day(self) -> float:
        """Seconds of a day with traffic."""
        return self.hours_per_day * SECONDS_PER_HOUR

    @property
    def seconds_per_year(self) -> float:
        """Seconds of a year with traffic."""
        return self.days_per_year * self.seconds_per_day


@dataclass(frozen=True, slots=True)
class DailyVolume:
    """Volume of a rate in one day. Counts are expectations, not whole numbers; None where not given."""

    requests: float
    users: float | None
    input_tokens: float | None
    output_tokens: float | None


class PrefixCaching(StrEnum):
    """Share of a prompt that the engine's prefix cache holds from requests before it."""

    OFF = "off"
    SYSTEM_PROMPT = "system-prompt"
    """The part that all requests share."""
    CONVERSATION = "conversation"
    """System prompt, and the earlier turns of a conversation: needs routing that brings it back to the same replica."""


@dataclass(frozen=True, slots=True)
class Prompt:
    """Parts of the input of a mean request, in tokens and in the order that prefix caching wants."""

    system_tokens: float
    """Instructions and tool descriptions, the same in every request."""
    history_tokens: float
    """Earlier turns of the conversation."""
    document_tokens: float
    """Everything that was retrieved for this question."""
    question_tokens: float

    @property
    def input_tokens(self) -> int:
        """`traffic.inputTokens`: everything counted, rounded up."""
        tokens = self.system_tokens + self.history_tokens + self.document_tokens + self.question_tokens
        return ceiling(tokens)

    def cached_input_percent(self, caching: PrefixCaching) -> int:
        """`traffic.cachedInputPercent`: whole percent of the input that needs no prefill, rounded down, at most 99.

        NB: an upper end. Engines cache whole blocks (16 to 128 tokens), a first request finds nothing, and a cache
        that runs full forgets.
        """
        cached = 0.0 if caching is PrefixCaching.OFF else self.system_tokens
        if caching is PrefixCaching.CONVERSATION:
            cached += self.history_tokens
        return min(99, floor(100 * cached / self.input_tokens))


def prompt_of(
    question_tokens: float,
    *,
    system_tokens: float = 0.0,
    turns: float = 1.0,
    output_tokens: float | None = None,
    documents: float = 0.0,
    tokens_per_document: float = 0.0,
) -> Prompt:
    """The mean prompt of an application: instructions, conversation so far, retrieved documents, question.

    A conversation of `turns` questions carries all turns before: `(turns - 1) / 2` questions and answers of
    `output_tokens` on average (documents of earlier turns are dropped). Raises `InvalidInput` for negative numbers, and
    for several turns without the length of an answer.
    """
    if _at_least("turns", turns, 1) > 1 and output_tokens is None:
        raise InvalidInput("output tokens", "are needed for the history of a conversation", "say how long an answer is")
    question = _positive("question tokens", question_tokens)
    answer = _at_least("output tokens", output_tokens or 0.0, 0)
    return Prompt(
        system_tokens=_at_least("system prompt tokens", system_tokens, 0),
        history_tokens=(turns - 1) / 2 * (question + answer),
        document_tokens=_at_least("documents", documents, 0) * _at_least("tokens per document", tokens_per_document, 0),
        question_tokens=question,
    )


def tokens_from_words(words: float) -> int:
    """Tokens of a text of this many words, rounded up to whole ones."""
    words = _positive("words", words)
    return ceiling(words / WORDS_PER_TOKEN)


def average_from_calls(calls_per_year: float, requests_per_call: float, active: ActiveTime | None = None) -> float:
    """Average requests a second of so many calls a year, each of which makes so many LLM requests."""
    calls = _positive("calls per year", calls_per_year)
    return calls * _positive("requests per call", requests_per_call) / (active or ActiveTime()).seconds_per_year


def average_from_users(daily_active_users: float, requests_per_user: float, active: ActiveTime | None = None) -> float:
    """Average requests a second of so many people a day, each of whom makes so many requests."""
    users = _positive("daily active users", daily_active_users)
    return users * _positive("requests per user", requests_per_user) / (active or ActiveTime()).seconds_per_day


def peak_by_factor(average_requests_per_second: float, factor: float) -> float:
    """Peak requests a second as a multiple of the average."""
    average = _positive("average requests per second", average_requests_per_second)
    if _positive("peak factor", factor) < 1:
        raise InvalidInput("peak factor", f"{factor:g} puts the peak below the average", "use 1 or more")
    return average * factor


def peak_by_percentile(average_requests_per_second: float, percentile: float) -> float:
    """Requests in one second that so many percent of all seconds stay within, arrivals being Poisson.

    77 for 95 percent of an average of 64. It is what `scipy.stats.poisson.ppf` says, whose import alone takes most of a
    second and 140 MB.
    """
    average = _positive("average requests per second", average_requests_per_second)
    if not 50 <= percentile < 100:
        raise InvalidInput("peak percentile", f"{percentile:g} is not in [50, 100)", "use a percentile such as 95")
    # NB: imported here, because only this question needs it.
    import numpy as np

    # Probabilities relative to the likeliest number, from which they fall on both sides: nothing under- or overflows.
    likeliest = math.floor(average)
    reach = math.ceil(10 * math.sqrt(average)) + 100
    above = np.cumprod(average / np.arange(likeliest + 1.0, likeliest + reach))
    below = np.cumprod(np.arange(float(likeliest), max(likeliest - reach, 0), -1) / average)
    within = np.cumsum(np.concatenate([below[::-1], [1.0], above]))
    return float(likeliest - below.size + np.searchsorted(within, percentile / 100 * within[-1]))


def daily_volume(
    requests_per_second: float,
    *,
    hours_per_day: float = 24.0,
    requests_per_user: float | None = None,
    input_tokens: float | None = None,
    output_tokens: float | None = None,
) -> DailyVolume:
    """Volume of a rate over the active hours of one day: requests, people and tokens."""
    rate = _positive("requests per second", requests_per_second)
    requests = rate * ActiveTime(hours_per_day=hours_per_day).seconds_per_day
    return DailyVolume(
        requests=requests,
        users=None if requests_per_user is None else requests / _positive("requests per user", requests_per_user),
        input_tokens=None if input_tokens is None else requests * _positive("input tokens", input_tokens),
        output_tokens=None if output_tokens is None else requests * _positive("output tokens", output_tokens),
    )


def _positive(field: str, value: float) -> float:
    if not (math.isfinite(value) and value > 0):
        raise InvalidInput(field, f"{value:g} is not a finite number above 0", "use a number above 0")
    return value


def _at_least(field: str, value: float, least: float) -> float:
    if not (math.isfinite(value) and value >= least):
        raise InvalidInput(field, f"{value:g} is not a finite number of at least {least:g}", f"use {least:g} or more")
    return value
