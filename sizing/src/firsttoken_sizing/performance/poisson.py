"""Poisson: what one replica does with requests arriving at random at a given rate. The production reading.

The "gated step chain" of docs/design/sizing.md. Requests that arrive during a step are prefilled by the next one, so a
step lasts `D' = w0 + g*B + sum of T_pf over Poisson(lambda*D) arrivals` with `g = b1 + k*ctx`. Three parts:

* how many requests are in flight: while B run, each makes a token every `(w0 + g*B) / (1 - lambda*T_pf)` seconds, so B
  is the birth-death chain of a state-dependent processor-sharing queue (insensitive to the distribution of the output
  length). Its mean gives `ITL = (w0 + g) / (1 - rho)`, the `w0 / (1 - rho)` of the design plus the request's own
  share of the batch; above the batch limit requests wait;
* how long a step is for that B: the chain, iterated over vectorised samples;
* `TTFT = residual of D + (w0 + g*B) + own T_pf + T_pf of the others that arrived in D`, D length-biased because more
  requests arrive in a long step.

Deterministic (fixed seed). Fixed lengths: heavy-tailed ones need the whole length distribution, which is not used here.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.closed_loop import throughput
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.statistics import latency_of
from firsttoken_sizing.profile import Point
from firsttoken_sizing.step.model import StepModel

_SEED = 20240502
_SAMPLES = 4096
_CHAIN_STEPS = 16
_BISECTIONS = 14
_TAIL = 1e-7
"""Probability of the queue lengths that are left out."""
_MOST_WAITING = 200_000
"""States of the queue that are kept at most; more are needed only within 0.01 % of the stable rate."""
MAX_UTILIZATION = 0.9
"""Largest share of the stable rate that a replica is sized for.

In MLPerf Inference v4.1 (closed division) the 17 submissions of llama2-70b-99 on H100 serve Poisson arrivals (Server,
P99 limits of 2 s TTFT and 200 ms a token) at a median of 0.90 of their Offline throughput, 0.84 to 0.99; NVIDIA's own
8-GPU system at 0.88. Ratios of published figures, not verified by MLCommons
(tests/sizing/performance/test_utilization_cap_is_what_mlperf_shows.py). Mixtral and GPT-J
reach 0.97 to 0.98 there, but `ITL = w0 / (1 - rho)`: at 0.9 a rate that is 5 % higher means a latency 1.8 times as
long, and the fits are no better than 5 %."""
_LIFETIME_VARIANCE = 1.5
"""Variance of the mean batch over one request's own lifetime, as a share of the variance of the batch at one moment.
Calibrated against discrete-event simulation (tests/sizing/performance/test_poisson_agrees_with_simulation.py): the
independent value would be 2/3, but a request that meets a long queue also stays longer in it.

NB: one constant for every workload is a compromise. Where prefill is most of the work (70B, 2000 in / 200 out) at 80 to
90 % load, P95 and P99 of ITL and E2E came out 13 to 22 % below the simulation."""


@dataclass(frozen=True, slots=True)
class Population:
    """Stationary distribution of the requests in one replica: `probability[n]` of n running or waiting for a slot."""

    probability: NDArray[np.float64]

    @property
    def mean(self) -> float:
        """Mean number of requests in the replica."""
        return float(self.probability @ np.arange(len(self.probability)))

    def quantiles(self, shares: NDArray[np.float64]) -> NDArray[np.float64]:
        """Numbers of requests at the given shares of time (0..1)."""
        cumulative = np.cumsum(self.probability)
        counts: NDArray[np.float64] = np.searchsorted(cumulative, shares * cumulative[-1]).astype(np.float64)
        return counts


def saturation_rate(step: StepModel, lengths: Lengths) -> float:
    """Largest stable rate (requests a second): the throughput with every batch slot taken."""
    return throughput(step, lengths, step.max_batch)


def population(step: StepModel, lengths: Lengths, rate: float) -> Population:
    """How many requests are in the replica at `rate` (requests a second, below `saturation_rate`)."""
    share_prefill = rate * step.prefill_seconds(lengths.uncached_input_tokens)
    per_sequence = step.decode_seconds(1, lengths.context_tokens) - step.base_seconds
    steps = max(1.0, lengths.decode_steps)
    # The queue above the batch limit is geometric; this many states hold all but a negligible tail of it.
    queue_ratio = min(rate / saturation_rate(step, lengths), 1 - 1e-6)
    states = step.max_batch + min(_MOST_WAITING, math.ceil(math.log(_TAIL) / math.log(queue_ratio)))
    n = np.arange(1, states + 1)
    running = np.minimum(n, step.max_batch)
    token_seconds = (step.base_seconds + per_sequence * running) / (1 - share_prefill)
    ratios = rate * steps * token_seconds / running
    logs = np.concatenate(([0.0], np.cumsum(np.log(ratios))))
    weights = np.exp(logs - logs.max())
    return Population(weights / weights.sum())


def predict(step: StepModel, lengths: Lengths, rate: float) -> Point:
    """The operating point at `rate` requests a second (> 0, below `saturation_rate`), with every latency percentile."""
    rng = np.random.default_rng(_SEED)
    prefill = step.prefill_seconds(lengths.uncached_input_tokens)
    per_sequence = step.decode_seconds(1, lengths.context_tokens) - step.base_seconds
    steps = lengths.decode_steps
    people = population(step, lengths, rate)

    # One sample a stratum of time: much less noise than free draws, for the same work.
    present = people.quantiles(rng.permutation((np.arange(_SAMPLES) + 0.5) / _SAMPLES))
    running = np.minimum(present, step.max_batch)
    decode = step.base_seconds + per_sequence * running
    mean_step = decode / (1 - rate * prefill)
    duration = mean_step.copy()
    for _ in range(_CHAIN_STEPS):
        duration = decode + prefill * rng.poisson(rate * duration)
    weights = duration / mean_step
    # An idle engine starts at once; otherwise the rest of the running step comes first.
    residual = np.where(present > 0, rng.random(_SAMPLES) * duration, 0.0)
    others = np.where(present > 0, rng.poisson(rate * duration), 0)
    for_a_slot = np.maximum(0.0, present + 1 - step.max_batch) / saturation_rate(step, lengths)
    ttft = for_a_slot + residual + decode + prefill * (1 + others)

    # A request shares its steps with those that it finds, and counts itself.
    mean_running = float(running.mean())
    companions = np.maximum(0.0, mean_running + math.sqrt(_LIFETIME_VARIANCE) * (running - mean_running))
    lifetime_batch = np.minimum(companions + 1, step.max_batch)
    expected_decode = steps * (step.base_seconds + per_sequence * lifetime_batch) / (1 - rate * prefill)
    # Each prompt more than expected stalls it, and lets in `rate * prefill` more prompts meanwhile.
    surplus = rng.poisson(rate * expected_decode) - rate * expected_decode
    total_decode = np.maximum(expected_decode + prefill * surplus / (1 - rate * prefill), steps * step.base_seconds)
    return Point(
        requests_per_second=rate,
        offered_requests_per_second=rate,
        concurrency=people.mean,
        ttft=latency_of(1000 * ttft, weights),
        itl=latency_of(1000 * total_decode / steps) if steps else latency_of(np.zeros(1)),
        end_to_end=latency_of(1000 * (ttft + total_decode), weights),
    )


def capacity(step: StepModel, lengths: Lengths, meets: Callable[[Point], bool]) -> float:
    """Largest rate (requests a second) whose operating point `meets` the SLA, by bisection; 0 where none does.

    Never above `MAX_UTILIZATION` of the stable rate.
    """
    low, high = 0.0, MAX_UTILIZATION * saturation_rate(step, lengths)
    if meets(predict(step, lengths, high)):
        return high
    for _ in range(_BISECTIONS):
        middle = (low + high) / 2
        if meets(predict(step, lengths, middle)):
            low = middle
        else:
            high = middle
    return low
