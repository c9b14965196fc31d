"""Sums of signals over the pods of one resource, with the share of the pods that they speak for.

Demand is what arrived, never what was completed: first tokens + slope(waiting), or ended + slope(running + waiting).
Both are exact for a queue (what came in either left or is still there); they are never mixed, because their terms count
different requests. Slopes are read only from full windows: a pod that appears or goes is not demand.

Means of tokens are over requests of the window, so they trail a change of load: prompts by the wait for the first token
at most (where a family counts them there), outputs by a whole answer. While the load grows, those that ended are rather
the short ones, and the mean output reads low until a long answer had the time to end; while it falls, it reads high.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence

from firsttoken_operator.domain import Measurement, Missing, Reason, Value, measured
from firsttoken_operator.families import FAMILIES, Arrivals, Signal, TokenPart
from firsttoken_operator.observe.freshness import SeenPod, Trust

PLAUSIBLE_MAXIMUM = 1e6
"""Requests, or requests a second, that one pod cannot exceed: above it a number is an accident, not a load."""

PLAUSIBLE_KV_USAGE = 1.5
"""KV cache usage is a fraction; a little above 1 is an engine's rounding, more is another unit."""

PLAUSIBLE_TOKENS = 1e9
"""Tokens a second, cached ones included, that one pod cannot exceed."""

LEAST_MEAN_TOKENS = 1.0
"""No prompt and no answer is shorter; a counter of tokens that stands still while requests are counted is broken."""

Term = tuple[float | None, Reason | None]
"""One pod's part of a sum, and a doubt: with one the value is a lower bound, or None where nothing is known.

NB: a plain tuple, because a tick makes a dozen of them for every pod of the cluster.
"""


class Sums:
    """Sums over the pods whose samples are current. `cap`: the most coverage that a sum may claim."""

    def __init__(self, seen: Sequence[SeenPod], cap: float = 1.0) -> None:
        self._current = [pod for pod in seen if pod.current]
        required = [pod for pod in seen if pod.required]
        # Pods that must speak; where none is old enough, those that do.
        self._asked = {id(pod) for pod in required or self._current}
        self._cap = cap
        self._age_seconds = max((abs(pod.sample.values[Signal.AGE]) for pod in self._current), default=0.0)
        self.doubts: list[Reason] = []
        """Reasons that numbers of current pods were not believed, in the order in which they were met."""
        self.possible_coverage = self._coverage(self._current)
        """Coverage of a sum that every current pod contributes to: less than 1 where pods or samples are missing."""

    def arrivals(self) -> Measurement:
        """Requests a second that arrived. Failed and rejected ones are demand, whether or not they had a token."""
        terms = [_ARRIVALS[pod.sample.family](pod) for pod in self._current]
        # The family's own way unless the other one knows more pods: it tells of a request seconds before its end does.
        if doubtful := _doubtful(terms):
            others = [_arrivals_by_ended(pod) for pod in self._current]
            terms = others if _doubtful(others) < doubtful else terms
        return self._total(terms)

    def first_tokens(self) -> Measurement:
        """Requests a second that got their first token."""
        return self._total(map(_first_tokens, self._current))

    def gauge(self, signal: Signal) -> Measurement:
        """Requests now."""
        if not any(publishes(pod, signal) for pod in self._current):
            return Missing(Reason.NO_SERIES, f"{self._current[0].sample.family} does not tell of {signal}")
        return self._total(_term(pod.sample.values.get(signal)) for pod in self._current)

    def error_share(self) -> Measurement:
        """Failed / ended requests of the window, 0..1; 0 where the counters exist and nothing ended."""
        ended, failed = (self._total(map(read, self._current)) for read in (_ended, _failed))
        if not (isinstance(ended, Value) and isinstance(failed, Value)):
            return ended if isinstance(ended, Missing) else failed
        share = min(1.0, failed.value / ended.value) if ended.value else 0.0
        return Value(share, self._age_seconds, min(ended.coverage, failed.coverage))

    def kv_percent(self) -> Measurement:
        """KV cache use of the fullest pod, percent."""
        return self._fold(map(_kv_usage, self._current), lambda values: 100 * max(values))

    def input_tokens(self) -> Measurement:
        """Mean prompt in tokens, cached ones included, of the requests that the family counts prompts of."""
        return self._mean(TokenPart.PROMPT_TOKENS, TokenPart.PROMPTS)

    def output_tokens(self) -> Measurement:
        """Mean answer in tokens of the requests that ended; those that a client broke off are not among them."""
        return self._mean(TokenPart.OUTPUT_TOKENS, TokenPart.OUTPUTS)

    def _mean(self, tokens: TokenPart, requests: TokenPart) -> Measurement:
        """Tokens / requests over the pods that say both; never 0 / 0, and never less than one token."""
        terms = [(_tokens(pod, tokens), _tokens(pod, requests)) for pod in self._current]
        total = self._total(_paired(term, other) for term, other in terms)
        count = self._total(_paired(other, term) for term, other in terms)
        if not (isinstance(total, Value) and isinstance(count, Value)):
            return total if isinstance(total, Missing) else count
        if not count.value:
            return Missing(Reason.NOT_ENOUGH_SAMPLES, f"no {requests} in the window")
        mean = total.value / count.value
        if mean < LEAST_MEAN_TOKENS:
            # NB: as a number it would say that requests cost hardly anything, and lower the replicas.
            return Missing(Reason.OUT_OF_RANGE, f"{mean:.2g} {tokens} a request")
        return measured(mean, self._age_seconds, count.coverage)

    def _total(self, terms: Iterable[Term]) -> Measurement:
        # A draining backlog makes a slope negative; what arrives cannot be.
        return self._fold(terms, lambda values: max(0.0, math.fsum(values)))

    def _fold(self, terms: Iterable[Term], fold: Callable[[list[float]], float]) -> Measurement:
        """One number of the terms of the current pods, in their order."""
        values, certain, doubts = [], [], []
        for pod, (value, doubt) in zip(self._current, terms, strict=True):
            if value is not None:
                values.append(value)
            if doubt is None:
                certain.append(pod)
            else:
                doubts.append(doubt)
        self.doubts += doubts
        if not values:
            return Missing(doubts[0] if doubts else Reason.NO_SERIES, f"no pod of {len(self._current)} says it")
        coverage = self._coverage(certain) if doubts else self.possible_coverage
        return Value(fold(values), self._age_seconds, min(coverage, self._cap))

    def _coverage(self, certain: Sequence[SeenPod]) -> float:
        """Share of the asked pods that are certain; a window that is filled by half counts half."""
        covered = [1.0 if pod.trust is Trust.COMPLETE else pod.filled for pod in certain if id(pod) in self._asked]
        return math.fsum(covered) / len(self._asked) if self._asked else 0.0


def _doubtful(terms: Iterable[Term]) -> int:
    return sum(doubt is not None for _, doubt in terms)


def _term(value: float | None, *, signed: bool = False, maximum: float = PLAUSIBLE_MAXIMUM) -> Term:
    """A number as far as it can be believed."""
    if value is None:
        return None, Reason.NO_SERIES
    if (-maximum if signed else 0) <= value <= maximum:
        return value, None
    return None, Reason.NOT_A_NUMBER if math.isnan(value) else Reason.OUT_OF_RANGE


def _rate(pod: SeenPod, value: float | None, *, maximum: float = PLAUSIBLE_MAXIMUM) -> Term:
    """A rate over the window; of a pod that is too young to have filled it, scaled to the time that it served.

    Prometheus divides by the whole window, so a pod with 3 of 8 samples shows 3/8 of its rate. That is too little where
    there was no fleet before, or it was not scraped yet. NB: it is right for a pod that took over from older ones:
    their rates still hold what they served before, and those requests would count twice after every scale-up.
    """
    term = _term(value, maximum=maximum)
    if pod.trust is not Trust.SHORT or not (pod.warming and pod.scalable) or term[0] is None:
        return term
    return term[0] * max(1.0, pod.served / pod.filled), term[1]


def _first_tokens(pod: SeenPod) -> Term:
    return _rate(pod, pod.sample.values.get(Signal.FIRST_TOKENS))


def _ended(pod: SeenPod) -> Term:
    return _rate(pod, pod.sample.ended_rate)


def _failed(pod: SeenPod) -> Term:
    return _rate(pod, pod.sample.failed_rate)


def _tokens(pod: SeenPod, part: TokenPart) -> Term:
    return _rate(pod, pod.sample.tokens.get(part), maximum=PLAUSIBLE_TOKENS)


def _paired(term: Term, other: Term) -> Term:
    """A term that means something only beside another one."""
    return (None, other[1]) if other[0] is None else term


def _kv_usage(pod: SeenPod) -> Term:
    return _term(pod.sample.values.get(Signal.KV_USAGE), maximum=PLAUSIBLE_KV_USAGE)


def publishes(pod: SeenPod, signal: Signal) -> bool:
    """Tell whether pods of its family have such a series at all."""
    return signal in _SIGNALS.get(pod.sample.family, ())


def _slope(pod: SeenPod, signal: Signal) -> Term:
    if pod.trust is not Trust.COMPLETE or not publishes(pod, signal):
        return 0.0, None
    return _term(pod.sample.values.get(signal), signed=True)


def _added(first: Term, *others: Term) -> Term:
    """The sum; unknown with its first term, a lower bound without one of the others."""
    if first[0] is None:
        return first
    terms = (first, *others)
    doubts = [doubt for _, doubt in terms if doubt is not None]
    return math.fsum([value for value, _ in terms if value is not None]), doubts[0] if doubts else None


def _arrivals_by_first_tokens(pod: SeenPod) -> Term:
    failed = _failed(pod) if pod.sample.ended else (0.0, None)
    return _added(_first_tokens(pod), _slope(pod, Signal.WAITING_SLOPE), failed)


def _arrivals_by_ended(pod: SeenPod) -> Term:
    return _added(_ended(pod), _slope(pod, Signal.WAITING_SLOPE), _slope(pod, Signal.RUNNING_SLOPE))


def _arrivals_by_started(pod: SeenPod) -> Term:
    return _rate(pod, pod.sample.values.get(Signal.STARTED))


_WAYS: Mapping[Arrivals, Callable[[SeenPod], Term]] = {
    Arrivals.STARTED: _arrivals_by_started,
    Arrivals.FIRST_TOKENS: _arrivals_by_first_tokens,
    Arrivals.ENDED: _arrivals_by_ended,
}
_ARRIVALS = {family.name: _WAYS[family.arrivals] for family in FAMILIES}
_SIGNALS = {family.name: frozenset(family.signals) for family in FAMILIES}
