"""`spec.traffic`: what the callers send, in the units that a team knows (words or tokens, an average or a peak)."""

from __future__ import annotations

from decimal import Decimal
from itertools import pairwise
from typing import Annotated

from pydantic import Field

from firsttoken_operator.api.base import ApiModel, Int, Rule, described, optional
from firsttoken_operator.api.quantities import MAX_REQUESTS_PER_SECOND, Rate, decimal
from firsttoken_operator.api.schedule_spec import MAX_WINDOWS, ScheduleWindow
from firsttoken_sizing.workload import Routing

MAX_TOKENS = 10_000_000
MAX_DEADLINE_HOURS = 100_000
MAX_QUANTILES = 16
PEAK_FORMS = ("peakRequestsPerSecond", "peakToAverage", "peakPercentile", "concurrentRequests", "offline")

Tokens = Annotated[Int, Field(ge=1, le=MAX_TOKENS)]


def _above_zero(value: int | str | None) -> bool:
    return value is None or 0 < decimal(value) <= MAX_REQUESTS_PER_SECOND


def _rate_rule(field: str, attribute: str) -> Rule:
    rate = f"quantity(string(self.{field}))"
    return Rule(
        cel=(
            f"!has(self.{field}) || ({rate}.isGreaterThan(quantity('0')) && "
            f"!{rate}.isGreaterThan(quantity('{MAX_REQUESTS_PER_SECOND}')))"
        ),
        problem=f"{field} must be above 0 and at most {MAX_REQUESTS_PER_SECOND}",
        fix='write requests per second, such as "28.54"',
        holds=lambda traffic: _above_zero(getattr(traffic, attribute)),
        field=field,
    )


class TokenQuantile(ApiModel):
    """One point of a distribution of lengths."""

    percentile: Int = described("Percent of the requests that are at most this long.", unit="percent", ge=1, le=99)
    tokens: Tokens = described("Length at this percentile.", unit="tokens")


class Offline(ApiModel):
    """A job that no caller waits for."""

    requests: Int = described("Requests of the whole job.", unit="requests", ge=1, le=10_000_000_000)
    deadline_hours: Rate = described("Time in which all of them are to be done; quote decimals.", unit="hours")

    RULES = (
        Rule(
            cel=(
                "quantity(string(self.deadlineHours)).isGreaterThan(quantity('0')) && "
                f"!quantity(string(self.deadlineHours)).isGreaterThan(quantity('{MAX_DEADLINE_HOURS}'))"
            ),
            problem=f"deadlineHours must be above 0 and at most {MAX_DEADLINE_HOURS}",
            fix="write hours, such as 8",
            holds=lambda o: 0 < decimal(o.deadline_hours) <= MAX_DEADLINE_HOURS,
            field="deadlineHours",
        ),
    )


def _rising(quantiles: tuple[TokenQuantile, ...]) -> bool:
    return all(a.percentile < b.percentile and a.tokens <= b.tokens for a, b in pairwise(quantiles))


def _length_rules(side: str) -> tuple[Rule, ...]:
    """Rules of one side (`input`, `output`): one unit, a P99 that is not below the mean, and quantiles that rise."""
    tokens, words, p99, quantiles = f"{side}Tokens", f"{side}Words", f"{side}TokensP99", f"{side}TokenQuantiles"
    token_field, word_field, p99_field = f"{side}_tokens", f"{side}_words", f"{side}_tokens_p99"
    quantiles_field = f"{side}_token_quantiles"
    return (
        Rule(
            cel=(
                f"!has(self.{quantiles}) || self.{quantiles}.all(a, self.{quantiles}.exists_one(b, "
                f"a.percentile == b.percentile) && self.{quantiles}.all(b, a.percentile >= b.percentile || "
                "a.tokens <= b.tokens))"
            ),
            problem=f"{quantiles} do not rise",
            fix="list every percentile once, with at least as many tokens at a higher one",
            # NB: the server takes them in any order, and so do we.
            holds=lambda t: _rising(tuple(sorted(getattr(t, quantiles_field), key=lambda q: q.percentile))),
            field=quantiles,
        ),
        Rule(
            cel=f"!has(self.{quantiles}) || self.{quantiles}.size() == 0 || !has(self.{p99})",
            problem=f"{p99} and {quantiles} both describe the spread",
            fix=f"keep one of the two ({quantiles} may list percentile 99)",
            holds=lambda t: not getattr(t, quantiles_field) or getattr(t, p99_field) is None,
            field=p99,
        ),
        Rule(
            cel=f"has(self.{tokens}) != has(self.{words})",
            problem=f"exactly one of {tokens} and {words} is needed",
            fix=f"set {tokens}, or {words} where only words are known (0.75 words a token)",
            holds=lambda t: (getattr(t, token_field) is None) != (getattr(t, word_field) is None),
            field=tokens,
        ),
        Rule(
            cel=f"!has(self.{p99}) || !has(self.{tokens}) || self.{p99} >= self.{tokens}",
            problem=f"{p99} is below the mean {tokens}",
            fix=f"raise {p99} or remove it",
            holds=lambda t: (
                getattr(t, p99_field) is None
                or getattr(t, token_field) is None
                or getattr(t, p99_field) >= getattr(t, token_field)
            ),
            field=p99,
        ),
        Rule(
            # 0.75 words a token, in integers: CEL has no silent int-to-float conversion.
            cel=f"!has(self.{p99}) || !has(self.{words}) || self.{p99} * 3 >= self.{words} * 4",
            problem=f"{p99} is below the mean {words} in tokens (0.75 words a token)",
            fix=f"raise {p99} or remove it",
            holds=lambda t: (
                getattr(t, p99_field) is None
                or getattr(t, word_field) is None
                or getattr(t, p99_field) * 3 >= getattr(t, word_field) * 4
            ),
            field=p99,
        ),
    )


def _needs_average(field: str, attribute: str) -> Rule:
    return Rule(
        cel=f"!has(self.{field}) || has(self.averageRequestsPerSecond)",
        problem=f"{field} is taken of the average",
        fix="set averageRequestsPerSecond, or declare peakRequestsPerSecond instead",
        holds=lambda t: getattr(t, attribute) is None or t.average_requests_per_second is not None,
        field="averageRequestsPerSecond",
        required=True,
    )


class Traffic(ApiModel):
    """Declared traffic of all replicas together."""

    RULES = (
        *_length_rules("input"),
        *_length_rules("output"),
        Rule(
            cel=f"[{', '.join(f'has(self.{form})' for form in PEAK_FORMS)}].filter(x, x).size() == 1",
            problem=f"exactly one of {', '.join(PEAK_FORMS)} is needed",
            fix="set the one that you know and remove the others",
            holds=lambda t: (
                sum(
                    form is not None
                    for form in (
                        t.peak_requests_per_second,
                        t.peak_to_average,
                        t.peak_percentile,
                        t.concurrent_requests,
                        t.offline,
                    )
                )
                == 1
            ),
            field="peakRequestsPerSecond",
        ),
        _needs_average("peakToAverage", "peak_to_average"),
        _needs_average("peakPercentile", "peak_percentile"),
        _rate_rule("averageRequestsPerSecond", "average_requests_per_second"),
        _rate_rule("peakRequestsPerSecond", "peak_requests_per_second"),
        Rule(
            cel=(
                "!has(self.peakRequestsPerSecond) || !has(self.averageRequestsPerSecond) || "
                "!quantity(string(self.peakRequestsPerSecond))"
                ".isLessThan(quantity(string(self.averageRequestsPerSecond)))"
            ),
            problem="peakRequestsPerSecond is below averageRequestsPerSecond",
            fix="raise the peak or lower the average",
            holds=lambda t: (
                t.peak_requests_per_second is None
                or t.average_requests_per_second is None
                or decimal(t.peak_requests_per_second) >= decimal(t.average_requests_per_second)
            ),
            field="peakRequestsPerSecond",
        ),
        Rule(
            cel=(
                "!has(self.peakToAverage) || (!quantity(string(self.peakToAverage)).isLessThan(quantity('1')) && "
                "!quantity(string(self.peakToAverage)).isGreaterThan(quantity('1000')))"
            ),
            problem="peakToAverage must be from 1 to 1000",
            fix="write how many times the average the peak is, such as 7",
            holds=lambda t: t.peak_to_average is None or Decimal(1) <= decimal(t.peak_to_average) <= Decimal(1000),
            field="peakToAverage",
        ),
        Rule(
            cel="!has(self.schedule) || self.schedule.size() == 0 || !has(self.offline)",
            problem="schedule says when callers come, and offline is a job that no caller waits for",
            fix="remove one of the two",
            holds=lambda t: not t.schedule or t.offline is None,
            field="schedule",
        ),
    )

    input_tokens: Tokens | None = optional(
        "Mean input length of a request, everything counted: system prompt, history, retrieved documents.",
        unit="tokens",
        absent="inputWords says it",
    )
    input_words: Tokens | None = optional(
        "Mean input length in English words; 0.75 words are one token.", unit="words", absent="inputTokens says it"
    )
    input_tokens_p99: Tokens | None = optional(
        "99th percentile of the input length.", unit="tokens", absent="every request is taken to have the mean"
    )
    input_token_quantiles: tuple[TokenQuantile, ...] = described(
        "Distribution of the input length, where more than its P99 is known; it is scaled to the mean.",
        default=(),
        absent="the mean and inputTokensP99 say it",
        max_length=MAX_QUANTILES,
    )
    output_tokens: Tokens | None = optional(
        "Mean output length of a request.", unit="tokens", absent="outputWords says it"
    )
    output_words: Tokens | None = optional(
        "Mean output length in English words; 0.75 words are one token.", unit="words", absent="outputTokens says it"
    )
    output_tokens_p99: Tokens | None = optional(
        "99th percentile of the output length.", unit="tokens", absent="every request is taken to have the mean"
    )
    output_token_quantiles: tuple[TokenQuantile, ...] = described(
        "Distribution of the output length, where more than its P99 is known; it is scaled to the mean.",
        default=(),
        absent="the mean and outputTokensP99 say it",
        max_length=MAX_QUANTILES,
    )
    average_requests_per_second: Rate | None = optional(
        'Average request rate; quote decimals ("28.54").',
        unit="requests per second",
        absent="no average is known: the initial size is the one for the peak",
    )
    peak_requests_per_second: Rate | None = optional(
        "Request rate at the declared peak, which the deployment is sized for.",
        unit="requests per second",
        absent="another form of the peak says it",
    )
    peak_to_average: Rate | None = optional(
        "The peak as a multiple of averageRequestsPerSecond.", unit="ratio", absent="another form of the peak says it"
    )
    peak_percentile: Int | None = optional(
        "The peak as this percentile of a Poisson distribution with averageRequestsPerSecond as its mean.",
        unit="percent",
        absent="another form of the peak says it",
        ge=50,
        le=99,
    )
    concurrent_requests: Int | None = optional(
        "The peak as the number of requests in flight at once.",
        unit="requests",
        absent="another form of the peak says it",
        ge=1,
        le=10_000_000,
    )
    offline: Offline | None = optional(
        "A job with a deadline instead of a peak, for sla.mode Offline.", absent="another form of the peak says it"
    )
    schedule: tuple[ScheduleWindow, ...] = described(
        "Peaks that are known beforehand. While a window is open its peak is the declared one: there are at least "
        "the replicas for it, from the moment it begins.",
        default=(),
        absent="the declared peak may come at any time",
        max_length=MAX_WINDOWS,
    )
    cached_input_percent: Int = described(
        "Share of the input that the prefix cache holds: saves prefill work, not KV-cache space.",
        default=0,
        unit="percent",
        ge=0,
        le=99,
    )
    routing: Routing = described(
        "What stands in front of the replicas. Random is the conservative choice.", default=Routing.RANDOM
    )
