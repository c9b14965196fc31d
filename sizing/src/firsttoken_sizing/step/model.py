"""The step model: five numbers that say how long one iteration of an in-flight batching engine takes.

`T_step = w0 + b1*B + k*C + p1*tok + p2*sum(s^2)`: B running sequences, C their context tokens, tok prefill tokens in
the step, s the prefill lengths. All in seconds. A mixture of experts adds `e*(1 - idle^B)`, the weights of the experts
that a batch wakes. See docs/design/sizing.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

Value = TypeVar("Value", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class StepModel:
    """Five fitted coefficients (seconds) and the batch limit of one configuration."""

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
    max_batch: int = 256
    """Most sequences that run at once (KV memory or the engine's own limit)."""
    expert_seconds: float = 0.0
    """Reading the weights of every routed expert (mixture of experts)."""
    idle_expert_share: float = 0.0
    """Chance that one token leaves an expert untouched: `1 - experts per token / experts`."""
    pipeline_stages: int = 1
    """A prompt passes so many stages one after the other, while each stage is free again after its own share."""

    def prefill_seconds(self, tokens: Value, cached_tokens: Value | float = 0.0) -> Value:
        """Time that `tokens` of one prompt add to the step that computes them: `p1*s + p2*(s^2 + 2*s*c0)`.

        `cached_tokens` (c0) of it are in the KV cache: a cached prefix, or earlier chunks. Scalars or arrays.
        """
        attention = self.per_prefill_token_squared_seconds * tokens * (tokens + 2 * cached_tokens)
        return self.per_prefill_token_seconds * tokens + attention

    def prefill_latency_seconds(self, tokens: Value, cached_tokens: Value | float = 0.0) -> Value:
        """How long that prompt itself takes: `prefill_seconds` in every pipeline stage."""
        return self.pipeline_stages * self.prefill_seconds(tokens, cached_tokens)

    def decode_seconds(self, sequences: Value, context_tokens: Value) -> Value:
        """Duration of a step that only decodes `sequences` with `context_tokens` of context in all. Scalars or arrays.

        NB: not linear in `sequences` for a mixture of experts, of which a larger batch wakes more.
        """
        experts = self.expert_seconds * (1 - self.idle_expert_share**sequences) if self.expert_seconds else 0.0
        linear = self.per_sequence_seconds * sequences + self.per_context_token_seconds * context_tokens
        return self.base_seconds + experts + linear
