"""The step model: how long one iteration of an in-flight batching engine takes.

Five numbers carry it: `T_step = w0 + b1*B + k*C + p1*tok + p2*sum(s^2)`: B running sequences, C their context tokens,
tok prefill tokens in the step, s the prefill lengths. All in seconds. Five refinements are 0 (or empty) where nothing
is known of them: the experts that a batch wakes `e*(1 - idle^B)`, the shape of `w0 + b1*B` over the batch, attention in
waves, pipeline stages, and groups of attention. For one B the time is always linear in C:

    T_decode(B, C) = batch_seconds(B) + context_seconds(B) * C

NB: read it through the methods; `base_seconds` and the other numbers alone leave the refinements out. See
docs/design/sizing.md.
"""

from __future__ import annotations

from bisect import bisect_left
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.rounding import ceiling, ceilings

Value = TypeVar("Value", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class StepModel:
    """Coefficients (seconds unless they say otherwise) and the batch limit of one configuration."""

    base_seconds: float
    """w0: reading the weights and launching kernels, paid by every step."""
    per_sequence_seconds: float
    """b1: for each running sequence."""
    per_context_token_seconds: float
    """k: for each token of KV cache that the step reads."""
    per_prefill_token_seconds: float
    """p1: for each prompt token that the step computes."""
    per_prefill_token_squared_seconds: float
    """p2: attention of a prompt with itself."""
    max_batch: int = PARAMETERS.fit.max_batch
    """Most sequences that run at once (KV memory or the engine's own limit)."""
    expert_seconds: float = 0.0
    """Reading the weights of every routed expert (mixture of experts)."""
    idle_expert_share: float = 0.0
    """Chance that one token leaves an expert untouched: `1 - experts per token / experts`."""
    pipeline_stages: int = 1
    """A prompt passes so many stages one after the other, while each stage is free again after its own share."""
    prompt_latency: float = 1.0
    """Times as long as `prefill_seconds` says a prompt is under way in each stage: where other GPUs do the attention of
    other prompts meanwhile, or nothing."""
    batch_shape: tuple[tuple[float, float], ...] = ()
    """Measured over modeled time of the part that depends on the batch alone, as (sequences, factor) by rising
    sequences: matrix products come in tiles, so that part is no straight line. Linear between, constant outside."""
    attention_wave_seconds: float = 0.0
    """Decode attention of as many sequences as the GPU holds at once, for each token of context of one of them: an
    engine that gives each head one multiprocessor waits for one sequence as long as for a wave of them."""
    attention_wave_sequences: float = 0.0
    """Sequences of one such wave."""
    grouped_attention_sequences: float = 0.0
    """Batch from which the engine's kernel reads keys and values once for all heads of a group, so that k applies;
    0: always, infinity: never."""

    def prefill_seconds(self, tokens: Value, cached_tokens: Value | float = 0) -> Value:
        """Time that `tokens` of one prompt add to the step that computes them: `p1*s + p2*(s^2 + 2*s*c0)`.

        `cached_tokens` (c0) of it are in the KV cache: a cached prefix, or earlier chunks. Scalars or arrays.
        """
        attention = self.per_prefill_token_squared_seconds * tokens * (tokens + 2 * cached_tokens)
        return self.per_prefill_token_seconds * tokens + attention

    def prefill_latency_seconds(self, tokens: Value, cached_tokens: Value | float = 0) -> Value:
        """Time of that prompt itself, which is under way for longer than it keeps the engine busy."""
        return (1 + self.further_prefills) * self.prefill_seconds(tokens, cached_tokens)

    @property
    def further_prefills(self) -> float:
        """Times `prefill_seconds` that a prompt takes on top of it: in further pipeline stages, and on fewer GPUs."""
        return self.pipeline_stages * self.prompt_latency - 1

    def decode_seconds(self, sequences: Value, context_tokens: Value) -> Value:
        """Duration of a step that only decodes `sequences` with `context_tokens` of context in all. Scalars or arrays.

        NB: linear in the context, not in the sequences.
        """
        return self.batch_seconds(sequences) + self.context_seconds(sequences) * context_tokens

    def batch_seconds(self, sequences: Value) -> Value:
        """The part of a step that depends on the number of running sequences alone. Scalars or arrays."""
        seconds = self.base_seconds + self.per_sequence_seconds * sequences
        if self.expert_seconds:
            seconds = seconds + self.expert_seconds * (1 - self.idle_expert_share**sequences)
        if not self.batch_shape:
            return seconds
        if isinstance(sequences, np.ndarray):
            places, factors = zip(*self.batch_shape, strict=True)
            shaped: NDArray[np.float64] = seconds * np.interp(sequences, places, factors)
            return shaped
        return seconds * _factor(self.batch_shape, sequences)

    def context_seconds(self, sequences: Value) -> Value:
        """Cost of one token of context while so many sequences run, seconds a token. Scalars or arrays."""
        k, grouped = self.per_context_token_seconds, self.grouped_attention_sequences
        if grouped == 0.0:
            # NB: not the plain number for an array, whose caller may index the answer; and not in its type, as whole
            # sequences would make it 0.
            return np.full(sequences.shape, k) if isinstance(sequences, np.ndarray) else k
        if isinstance(sequences, np.ndarray):
            running = np.maximum(sequences, 1.0)
            waves = ceilings(running / self.attention_wave_sequences)
            by_batch: NDArray[np.float64] = np.where(
                running < grouped, self.attention_wave_seconds * waves / running, k
            )
            return by_batch
        running_one = max(sequences, 1.0)
        if running_one >= grouped:
            return k
        return self.attention_wave_seconds * ceiling(running_one / self.attention_wave_sequences) / running_one

    def in_stages(self, stages: int) -> StepModel:
        """The same layers split over so many pipeline stages, hand-overs not counted.

        The running sequences are split over the stages, which work at the same time: a token passes every stage, so
        `base_seconds` stays, while each stage sees a part of the sequences, and is busy with a prompt for its own
        layers only. Micro-batches of B/P sequences wake fewer experts and fill a wave later.
        """
        return replace(
            self,
            per_sequence_seconds=self.per_sequence_seconds / stages,
            per_context_token_seconds=self.per_context_token_seconds / stages,
            per_prefill_token_seconds=self.per_prefill_token_seconds / stages,
            per_prefill_token_squared_seconds=self.per_prefill_token_squared_seconds / stages,
            idle_expert_share=self.idle_expert_share ** (1 / stages),
            pipeline_stages=self.pipeline_stages * stages,
            batch_shape=tuple((stages * sequences, factor) for sequences, factor in self.batch_shape),
            attention_wave_sequences=self.attention_wave_sequences * stages,
            grouped_attention_sequences=self.grouped_attention_sequences * stages,
        )


def _factor(shape: tuple[tuple[float, float], ...], sequences: float) -> float:
    """`np.interp` for one number, without making arrays."""
    place = bisect_left(shape, (sequences,))
    if place == 0:
        return shape[0][1]
    if place == len(shape):
        return shape[-1][1]
    (left, low), (right, high) = shape[place - 1], shape[place]
    return low + (high - low) * (sequences - left) / (right - left)
