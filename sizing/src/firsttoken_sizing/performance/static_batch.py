"""Static batching: a batch is prefilled together and runs until its last request is done.

That is Triton without in-flight batching, and how engines were benchmarked before it.

Two load models. `predict_static` is a batch of B requests by itself, as TensorRT-LLM's static benchmarks measure it.
`predict_static_poisson` serves Poisson arrivals: a request that comes while a batch runs waits for its end, then all
that wait (at most B) run together. Tokens are streamed; without streaming TTFT is E2E.

Where lengths are spread a batch pads to its longest prompt and runs until its longest answer; each request's own last
token comes when it comes.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.performance.batch_service import drawn_multiples, longest_multiple, poisson_arrivals, serve
from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.statistics import largest, latency_of, open_point
from firsttoken_sizing.profile import Latency, Point
from firsttoken_sizing.step.model import StepModel

_REQUESTS = 16384
_SEED = 20240505
_BISECTIONS = 14


def predict_static(step: StepModel, lengths: Lengths, batch: int) -> Point:
    """A batch of so many requests that start together, the next one right after it.

    `TTFT = w0 + (B + P - 1) * T_pf` (P pipeline stages) and `ITL = w0 + b1*B + k*B*ctx` of the padded prompt, the same
    for every request, so every percentile is the mean; E2E follows each request's own output. The batch may be above
    `step.max_batch`: what fits in memory is for the caller to say.
    """
    padded = _padded(lengths, batch)
    ttft = _first_token_seconds(step, padded, batch)
    token = _token_seconds(step, padded, batch)
    shares, multiples = np.array(lengths.output_spread.shares), np.array(lengths.output_spread.multiples)
    decode_steps = np.maximum(0.0, lengths.output_tokens * multiples - 1)
    return Point(
        requests_per_second=static_saturation_rate(step, lengths, batch),
        concurrency=float(batch),
        ttft=_alike(ttft),
        itl=_alike(token),
        end_to_end=latency_of(1000 * (ttft + decode_steps * token), shares),
    )


def batch_seconds(step: StepModel, lengths: Lengths, batch: int) -> float:
    """Time for which a batch keeps its replica busy: `w0 + B*T_pf + (OSL-1) * (w0 + b1*B + k*B*ctx)`.

    With lengths that are spread, of the longest prompt and the longest answer that B requests have on average.
    """
    return _busy_seconds(step, _padded(lengths, batch), batch)


def static_saturation_rate(step: StepModel, lengths: Lengths, batch: int) -> float:
    """Largest stable rate (requests a second): every batch full."""
    return batch / batch_seconds(step, lengths, batch)


def predict_static_poisson(step: StepModel, lengths: Lengths, batch: int, rate: float) -> Point:
    """The operating point of one replica at `rate` requests a second (> 0, below `static_saturation_rate`).

    Every latency counts from the arrival. By simulation of 16,384 requests, the same arrival pattern at every rate.
    """
    inputs = drawn_multiples(lengths.input_spread, _REQUESTS, _SEED)
    outputs = drawn_multiples(lengths.output_spread, _REQUESTS, _SEED + 1)
    timings: dict[tuple[float, float, int], tuple[float, float, float]] = {}
    of_batch: list[tuple[int, float, float]] = []

    def busy(first: int, count: int) -> float:
        """Busy time of a batch, noted with its first token and its step; equal batches are computed once."""
        end = first + count
        longest = (max(prompts[first:end]), max(answers[first:end])) if spread else (1.0, 1.0)
        if (*longest, count) not in timings:
            padded = _multiplied(lengths, *longest)
            timings[*longest, count] = (
                _busy_seconds(step, padded, count),
                _first_token_seconds(step, padded, count),
                _token_seconds(step, padded, count),
            )
        seconds, first_token, token = timings[*longest, count]
        of_batch.append((count, first_token, token))
        return seconds

    spread = not lengths.is_fixed
    # Most batches are small, and for those lists are several times as fast as arrays.
    prompts, answers = inputs.tolist(), outputs.tolist()
    served = serve(poisson_arrivals(rate, _REQUESTS), busy, batch)
    counts, first_tokens, tokens = zip(*of_batch, strict=True)
    ttft = served.wait_seconds + np.repeat(first_tokens, counts)
    itl = np.repeat(tokens, counts)
    kept = served.settled()
    ttft, itl = ttft[kept], itl[kept]
    end_to_end = ttft + np.maximum(0.0, lengths.output_tokens * outputs[kept] - 1) * itl
    return open_point(rate, ttft, itl, end_to_end)


def static_capacity(step: StepModel, lengths: Lengths, batch: int, meets: Callable[[Point], bool]) -> float:
    """Largest rate (requests a second) whose operating point `meets` the SLA, by bisection; 0 where none does.

    Never above `max_utilization` of the stable rate.
    """
    highest = PARAMETERS.capacity.max_utilization * static_saturation_rate(step, lengths, batch)
    return largest(lambda rate: meets(predict_static_poisson(step, lengths, batch, rate)), highest, _BISECTIONS)


def _busy_seconds(step: StepModel, padded: Lengths, batch: int) -> float:
    prefill = step.base_seconds + batch * _own_prefill(step, padded)
    return prefill + padded.decode_steps * _token_seconds(step, padded, batch)


def _first_token_seconds(step: StepModel, padded: Lengths, batch: int) -> float:
    """Time from the start of a batch to its first tokens; the last prompt passes the pipeline after all others."""
    own = step.prefill_latency_seconds(padded.uncached_input_tokens, padded.cached_input_tokens)
    return step.base_seconds + (batch - 1) * _own_prefill(step, padded) + float(own)


def _own_prefill(step: StepModel, padded: Lengths) -> float:
    return float(step.prefill_seconds(padded.uncached_input_tokens, padded.cached_input_tokens))


def _token_seconds(step: StepModel, padded: Lengths, batch: int) -> float:
    """Mean duration of a decode step; nothing where no request has a second token."""
    return float(step.decode_seconds(float(batch), batch * padded.context_tokens)) if padded.decode_steps else 0.0


def _padded(lengths: Lengths, batch: int) -> Lengths:
    """Lengths that the engine computes for each of a batch: the longest prompt and answer of so many requests."""
    return _multiplied(
        lengths, longest_multiple(lengths.input_spread, batch), longest_multiple(lengths.output_spread, batch)
    )


def _multiplied(lengths: Lengths, inputs: float, outputs: float) -> Lengths:
    return Lengths(
        inputs * lengths.input_tokens, inputs * lengths.uncached_input_tokens, outputs * lengths.output_tokens
    )


def _alike(seconds: float) -> Latency:
    value = 1000 * seconds
    return Latency(mean=value, p50=value, p90=value, p95=value, p99=value)
