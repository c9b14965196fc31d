"""`spec.traffic`: what the callers send, in the units that a team knows (words or tokens, an average or a peak)."""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal
from itertools import pairwise
from operator import attrgetter
from typing import Annotated

from pydantic import Field

from firsttoken_operator.api.base import ApiModel, Int, Rule, camel_case, described, optional
from firsttoken_operator.api.quantities import MAX_REQUESTS_PER_SECOND, RATE_FIX, Rate, above_zero, decimal
from firsttoken_operator.api.schedule_spec import MAX_WINDOWS, ScheduleWindow
from firsttoken_sizing.workload import REQUESTS_PER_PREFIX, Routing

MAX_TOKENS = 10_000_000
MAX_DEADLINE_HOURS = 100_000
MAX_QUANTILES = 16
_FEWEST_ALIKE, _MOST_ALIKE = (Decimal(str(count)) for count in REQUESTS_PER_PREFIX)
PEAK_FORMS = ("peak_requests_per_second", "peak_to_average", "peak_percentile", "concurrent_requests", "offline")

Tokens = Annotated[Int, Field(ge=1, le=MAX_TOKENS)]


class TokenQuantile(ApiModel):
    """One point of a distribution of lengths."""

    percentile: Int = described("Percent of the requests that are at most this long.", unit="percent", ge=1, le=99)
    tokens: Tokens = described("Length at this percentile.", unit="tokens")


class Offline(ApiModel):
    """A job that no caller waits for."""

    requests: Int = described("Requests of the whole job.", unit="requests", ge=1, le=10_000_000_000)
    deadline_hours: Rate = described("Time in which all of them are to be done; quote decimals.", unit="hours")

    RULES = (above_zero("deadline_hours", "write hours, such as 8", at_most=MAX_DEADLINE_HOURS, required=True),)


def _rising(quantiles: Iterable[TokenQuantile]) -> bool:
    # NB: the server takes them in any order, and so do we.
    ordered = sorted(quantiles, key=lambda q: q.percentile)
    return all(a.percentile < b.percentile and a.tokens <= b.tokens for a, b in pairwise(ordered))


def _length_rules(side: str) -> tuple[Rule, ...]:
    """Rules of one side (`input`, `output`): one unit, a P99 that is not below the mean, and quantiles that rise."""
    attributes = f"{side}_tokens", f"{side}_words", f"{side}_tokens_p99", f"{side}_token_quantiles"
    tokens, words, p99, quantiles = map(camel_case, attributes)
    tokens_of, words_of, p99_of, quantiles_of = map(attrgetter, attributes)
    return (
        Rule(
            cel=(
                f"!has(self.{quantiles}) || self.{quantiles}.all(a, self.{quantiles}.exists_one(b, "
                f"a.percentile == b.percentile) && self.{quantiles}.all(b, a.percentile >= b.percentile || "
                "a.tokens <= b.tokens))"
            ),
            problem=f"{quantiles} do not rise",
            fix="list every percentile once, with at least as many tokens at a higher one",
            holds=lambda t: _rising(quantiles_of(t)),
            field=quantiles,
        ),
        Rule(
            cel=f"!has(self.{quantiles}) || self.{quantiles}.size() == 0 || !has(self.{p99})",
            problem=f"{p99} and {quantiles} both describe the spread",
            fix=f"keep one of the two ({quantiles} may list percentile 99)",
            holds=lambda t: not quantiles_of(t) or p99_of(t) is None,
            field=p99,
        ),
        Rule(
            cel=f"has(self.{tokens}) != has(self.{words})",
            problem=f"exactly one of {tokens} and {words} is needed",
            fix=f"set {tokens}, or {words} where only words are known (0.75 words a token)",
            holds=lambda t: (tokens_of(t) is None) != (words_of(t) is None),
            field=tokens,
        ),
        Rule(
            cel=f"!has(self.{p99}) || !has(self.{tokens}) || self.{p99} >= self.{tokens}",
            problem=f"{p99} is below the mean {tokens}",
            fix=f"raise {p99} or remove it",
            holds=lambda t: p99_of(t) is None or tokens_of(t) is None or p99_of(t) >= tokens_of(t),
            field=p99,
        ),
        Rule(
            # 0.75 words a token, in integers: CEL has no silent int-to-float conversion.
            cel=f"!has(self.{p99}) || !has(self.{words}) || self.{p99} * 3 >= self.{words} * 4",
            problem=f"{p99} is below the mean {words} in tokens (0.75 words a token)",
            fix=f"raise {p99} or remove it",
            holds=lambda t: p99_of(t) is None or words_of(t) is None or p99_of(t) * 3 >= words_of(t) * 4,
            field=p99,
        ),
    )


def _needs_average(attribute: str) -> Rule:
    field = camel_case(attribute)
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
            cel=f"[{', '.join(f'has(self.{camel_case(form)})' for form in PEAK_FORMS)}].filter(x, x).size() == 1",
            problem=f"exactly one of {', '.join(map(camel_case, PEAK_FORMS))} is needed",
            fix="set the one that you know and remove the others",
            holds=lambda t: sum(getattr(t, form) is not None for form in PEAK_FORMS) == 1,
            field="peakRequestsPerSecond",
        ),
        _needs_average("peak_to_average"),
        _needs_average("peak_percentile"),
        above_zero("average_requests_per_second", RATE_FIX, at_most=MAX_REQUESTS_PER_SECOND),
        above_zero("peak_requests_per_second", RATE_FIX, at_most=MAX_REQUESTS_PER_SECOND),
        Rule(
            cel="!has(self.prefixesInUse) || (has(self.cachedInputPercent) && self.cachedInputPercent > 0)",
            problem="prefixesInUse is of prompts that begin alike, and cachedInputPercent says that none do",
            fix="declare how much of a prompt earlier ones began with, or remove prefixesInUse",
            holds=lambda t: t.prefixes_in_use is None or t.cached_input_percent > 0,
            field="cachedInputPercent",
        ),
        Rule(
            cel="!has(self.requestsPerPrefix) || has(self.prefixesInUse)",
            problem="requestsPerPrefix is of prefixes that are not declared",
            fix="set prefixesInUse, or remove requestsPerPrefix",
            holds=lambda t: t.requests_per_prefix is None or t.prefixes_in_use is not None,
            field="prefixesInUse",
            required=True,
        ),
        Rule(
            cel=(
                "!has(self.requestsPerPrefix) || "
                f"(!quantity(string(self.requestsPerPrefix)).isLessThan(quantity('{_FEWEST_ALIKE}'))"
                f" && !quantity(string(self.requestsPerPrefix)).isGreaterThan(quantity('{_MOST_ALIKE}')))"
            ),
            problem=f"requestsPerPrefix must be {_FEWEST_ALIKE} to {_MOST_ALIKE}",
            fix="write how many requests begin alike on average, such as '2.5'",
            holds=lambda t: (
                t.requests_per_prefix is None or _FEWEST_ALIKE <= decimal(t.requests_per_prefix) <= _MOST_ALIKE
            ),
            field="requestsPerPrefix",
        ),
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
            holds=lambda t: t.peak_to_average is None or 1 <= decimal(t.peak_to_average) <= 1000,
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
    prefixes_in_use: Int | None = optional(
        "Different beginnings of prompts that callers use at a time: system prompts, documents, open conversations. "
        "The cache then holds what its size and the routing leave of cachedInputPercent.",
        unit="prefixes",
        absent="every replica has all of them in its cache",
        ge=1,
        le=10_000_000_000,
    )
    requests_per_prefix: Rate | None = optional(
        "Mean number of requests that begin alike before no more come, as the turns of a conversation do; those that "
        "begin like no other count. Quote decimals.",
        unit="requests",
        absent="they come without end",
    )
    routing: Routing = described(
        "What stands in front of the replicas. Random is the conservative choice.", default=Routing.RANDOM
    )
