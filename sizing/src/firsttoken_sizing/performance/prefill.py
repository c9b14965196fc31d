"""Time of a request until its first token: the chain of engine steps at one batch, sampled.

Prompts that arrive during a step are computed by the following ones, so a step lasts as long as its decode part and the
prompts that came during the one before:

    D' = decode + prefill of what the budget takes from (backlog + arrivals during D)

Whole prompts and chunks differ only in that budget: up to `tokens_per_step` prompt tokens (as many whole prompts as
that holds), or what the decoding sequences leave of it. A long prompt delays all behind it, and a prompt that does not
fit into the next step sits through full ones: T_pf is spread over `ceil(l / budget)` steps.

    TTFT = rest of the running step + full steps + the step that completes the prompt, in which later arrivals share

The batch is taken as constant meanwhile: it changes over hundreds of steps, a backlog of prompts over a few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.engines.scheduler import Scheduler
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.routing import Splitter, poisson_counts
from firsttoken_sizing.rounding import NOISE, ceilings, floor
from firsttoken_sizing.step.model import StepModel

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

_KEPT_STEPS = 8
_FEWEST_BURN_IN = 4
_MOST_BURN_IN = 48
_NEGLIGIBLE_USE = 0.2
"""Share of the token budget in use below which a step practically always takes all prompts, if it holds several."""
_SEVERAL_PROMPTS = 2.5
"""Prompts a budget up to which a queue forms at any use: most steps are empty, but the one that computes a
prompt lasts so long that the next ones arrive in it."""
_MOST_USE = 0.97
_FEWEST_SAMPLES = 1024
_POOL = 2**15
_POOL_SEED = 20240503
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class FirstToken:
    """Sampled requests, (samples,) each: what they met until their first token."""

    seconds: Floats
    """TTFT without the wait for a batch slot."""
    chain: Integers
    """Chain, and so batch, that the request met."""
    weights: Floats
    """Number of requests that it stands for: more arrive in a long step."""
    co_arrivals: Floats
    """Other requests whose prefill it waited for, in mean prefill times."""
    input_tokens: Floats
    prefill_seconds: Floats
    """Time of its own prompt."""

    def every(self, stride: int) -> FirstToken:
        """Every so many samples: all chains, at fewer steps, where `stride` divides the steps kept of each."""
        return FirstToken(*(getattr(self, field)[::stride] for field in self.__slots__))


class Prompts:
    """An endless queue of prompts of the right lengths, in which sums over the next k prompts are two look-ups."""

    def __init__(self, step: StepModel, lengths: Lengths) -> None:
        shares, multiples = np.array(lengths.input_spread.shares), np.array(lengths.input_spread.multiples)
        uncached, cached = lengths.uncached_input_tokens * multiples, lengths.cached_input_tokens * multiples
        self.is_fixed = lengths.input_spread.is_fixed
        self.input_tokens = lengths.input_tokens * multiples
        self.tokens = np.maximum(uncached, _TINY)
        self.seconds = step.prefill_seconds(uncached, cached)
        self.mean_tokens = float(shares @ self.tokens)
        self.mean_square_tokens = float(shares @ self.tokens**2)
        self.mean_seconds = float(shares @ self.seconds)
        self.variance_seconds = float(shares @ (self.seconds - self.mean_seconds) ** 2)
        # The pool has every stratum as often as its share says, the rarest ones too.
        strata = lengths.input_spread.strata_at((np.arange(_POOL) + 0.5) / _POOL)
        self._pool = np.random.default_rng(_POOL_SEED).permutation(strata)
        twice = np.concatenate((self._pool, self._pool))
        self._token_sums = np.concatenate(([0.0], np.cumsum(self.tokens[twice])))
        self._second_sums = np.concatenate(([0.0], np.cumsum(self.seconds[twice])))

    def sums(self, rng: np.random.Generator, counts: Floats) -> tuple[Floats, Floats]:
        """Tokens and prefill seconds of so many prompts each."""
        if self.is_fixed:
            return counts * self.mean_tokens, counts * self.mean_seconds
        number = np.minimum(counts.astype(np.int64), _POOL)
        # One after the other from a random place: no prompt of the pool comes twice before all came once.
        start = (np.cumsum(number) - number + rng.integers(_POOL)) % _POOL
        end = start + number
        return self._token_sums[end] - self._token_sums[start], self._second_sums[end] - self._second_sums[start]

    def single(self, rng: np.random.Generator, count: int) -> Integers:
        """Strata of so many single prompts."""
        strata: Integers = self._pool[(np.arange(count) * max(1, _POOL // count) + rng.integers(_POOL)) % _POOL]
        return strata


@lru_cache(maxsize=32)
def prompts(step: StepModel, lengths: Lengths) -> Prompts:
    """The prompts of a workload on one step model."""
    return Prompts(step, lengths)


def step_tokens(lengths: Lengths, scheduler: Scheduler, running: Floats) -> Floats:
    """Prompt tokens that one step takes while so many requests decode."""
    if scheduler.chunked_prefill:
        return np.maximum(1.0, scheduler.tokens_per_step - running)
    mean = max(_TINY, lengths.uncached_input_tokens)
    if lengths.input_spread.is_fixed:
        return np.full_like(running, max(1.0, scheduler.tokens_per_step // mean) * mean)
    # A step closes at the first prompt that does not fit: about half of one, of those a long one is met more often.
    multiples = np.array(lengths.input_spread.multiples)
    met = mean * float(np.array(lengths.input_spread.shares) @ multiples**2)
    return np.full_like(running, max(met, scheduler.tokens_per_step - met / 2))


def first_tokens(
    step: StepModel,
    lengths: Lengths,
    rate: float,
    scheduler: Scheduler,
    splitter: Splitter,
    running: Floats,
    decode: Floats,
    rng: np.random.Generator,
) -> FirstToken:
    """Requests at `rate` a second, met by chains of `running` requests and `decode` seconds of decode a step."""
    queue = prompts(step, lengths)
    budget = step_tokens(lengths, scheduler, running)
    steps = _chain(queue, rate, splitter, running, decode, budget, rng)
    sample, rest, before, behind, weights = _arrivals(steps, rate, splitter, rng)
    chain = steps.chain[sample]
    budget, decode = budget[chain], decode[chain]

    own = queue.single(rng, len(sample))
    before_tokens, before_seconds = queue.sums(rng, before)
    ahead_seconds = steps.seconds[sample] + before_seconds
    needed = steps.tokens[sample] + before_tokens + queue.tokens[own]
    per_token = (ahead_seconds + queue.seconds[own]) / needed
    full = np.maximum(ceilings(needed / budget) - 1, 0.0)
    full_seconds = full * (decode + budget * per_token)
    remaining = needed - full * budget
    later, _ = splitter.arrivals(rng, rate * full_seconds, np.zeros(len(sample)))
    behind_tokens, behind_seconds = queue.sums(rng, behind + later)
    behind_seconds *= np.minimum(1.0, (budget - remaining) / np.maximum(behind_tokens, _TINY))
    return FirstToken(
        seconds=rest
        + full_seconds
        + decode
        + remaining * per_token
        + behind_seconds
        + step.further_prefills * queue.seconds[own],
        chain=chain,
        weights=weights,
        co_arrivals=(ahead_seconds + behind_seconds) / max(queue.mean_seconds, _TINY),
        input_tokens=queue.input_tokens[own],
        prefill_seconds=queue.seconds[own],
    )


@dataclass(frozen=True, slots=True)
class _Steps:
    """Steps of all chains: their length, the backlog that they leave, and the turn of the splitter when they start."""

    chain: Integers
    duration: Floats
    mean_duration: Floats
    """Mean over the chain."""
    tokens: Floats
    seconds: Floats
    idle: NDArray[np.bool_]
    """No request there: not a step but a pause that the next request ends."""
    phase: Floats


def _chain(
    queue: Prompts,
    rate: float,
    splitter: Splitter,
    running: Floats,
    decode: Floats,
    budget: Floats,
    rng: np.random.Generator,
) -> _Steps:
    chains = len(running)
    mean_step = decode / (1 - rate * queue.mean_seconds)
    use = rate * queue.mean_tokens * mean_step / budget
    # While there is a backlog every step is a full one, and lets in more than the mean step does.
    full_step = decode + budget * queue.mean_seconds / queue.mean_tokens
    all_taken = (use < _NEGLIGIBLE_USE) & (budget > _SEVERAL_PROMPTS * queue.mean_tokens)
    busy = np.where(all_taken, 0.0, np.minimum(_MOST_USE, rate * queue.mean_tokens * full_step / budget))
    memory = max(rate * queue.mean_seconds, float(busy.mean()))
    # At the largest utilization, 0.9, this is a whole number but for rounding.
    burn_in = min(max(floor(4 / (1 - memory)), _FEWEST_BURN_IN), _MOST_BURN_IN)

    # Start from the backlog of an M/G/1 queue (Pollaczek and Khinchine): it takes many steps to build up.
    backlog = queue.mean_square_tokens / queue.mean_tokens / (2 * (1 - busy))
    has_backlog = (rng.random(chains) < use) & (busy > 0)
    tokens = np.where(has_backlog, rng.exponential(1.0, chains) * backlog, 0.0)
    seconds = tokens * queue.mean_seconds / queue.mean_tokens
    duration = mean_step.copy()
    phase = np.floor(rng.random(chains) * splitter.turn)
    kept: list[_Steps] = []
    for index in range(burn_in + _KEPT_STEPS):
        counts, phase = splitter.arrivals(rng, rate * splitter.sought(duration, mean_step), phase)
        new_tokens, new_seconds = queue.sums(rng, counts)
        tokens, seconds = tokens + new_tokens, seconds + new_seconds
        # All of a backlog that fills the step to the last token: rounding must leave nothing of it.
        taken = np.where(tokens <= budget * (1 + NOISE), 1.0, budget / np.maximum(tokens, _TINY))
        duration = decode + taken * seconds
        idle = (running == 0) & (seconds == 0)
        tokens, seconds = tokens * (1 - taken), seconds * (1 - taken)
        if index >= burn_in:
            kept.append(_Steps(np.arange(chains), duration, mean_step, tokens, seconds, idle, phase))
    return _Steps(*(np.concatenate([getattr(s, f) for s in kept]) for f in _Steps.__slots__))


def _arrivals(
    steps: _Steps, rate: float, splitter: Splitter, rng: np.random.Generator
) -> tuple[Integers, Floats, Floats, Floats, Floats]:
    """Requests that arrive during the steps: in which one, its rest, how many come before and behind in it, weight."""
    if splitter.in_turn:
        return _arrivals_in_turn(steps, rate, splitter, rng)
    count = len(steps.duration)
    elapsed = np.where(steps.idle, 0.0, rng.random(count) * steps.duration)
    rest = np.where(steps.idle, 0.0, steps.duration - elapsed)
    sought = splitter.sought(steps.duration, steps.mean_duration)
    rates = rate * sought / steps.duration
    before, _ = splitter.arrivals(rng, rates * elapsed, np.zeros(count))
    behind, _ = splitter.arrivals(rng, rates * rest, np.zeros(count))
    return np.arange(count), rest, before, behind, sought / steps.mean_duration


def _arrivals_in_turn(
    steps: _Steps, rate: float, splitter: Splitter, rng: np.random.Generator
) -> tuple[Integers, Floats, Floats, Floats, Floats]:
    """The arrivals that a turn brings are no random times: after one of them the next is N arrivals at the front away.

    Of `total` arrivals at the front during the step, those that complete a turn come here; their times are order
    statistics of uniform ones.
    """
    n = splitter.turn
    total = poisson_counts(rng, n * rate * steps.duration)
    here = np.floor((steps.phase + total) / n)
    sample = np.flatnonzero(here)
    if not len(sample):
        # So light a load that no step of any chain sees an arrival: every request comes alone.
        zeros = np.zeros(len(steps.duration))
        return np.arange(len(zeros)), zeros, zeros, zeros, steps.duration / steps.mean_duration
    # Where few steps see an arrival each of them stands for several requests, which differ in their lengths and times.
    sample = np.tile(sample, math.ceil(_FEWEST_SAMPLES / len(sample)))
    total, here, duration = total[sample], here[sample], steps.duration[sample]
    before = np.floor(rng.random(len(sample)) * here)
    at_front = n * (before + 1) - steps.phase[sample]
    arrived = duration * rng.beta(at_front, total - at_front + 1)
    alone = steps.idle[sample]
    return (
        sample,
        np.where(alone, 0.0, duration - arrived),
        np.where(alone, 0.0, before),
        np.where(alone, 0.0, here - before - 1),
        here / (rate * steps.mean_duration[sample]),
    )
