"""The step model: five numbers that say how long one iteration of an in-flight batching engine takes.

`T_step = w0 + b1*B + k*C + p1*tok + p2*sum(s^2)`: B running sequences, C their context tokens, tok prefill tokens in
the step, s the prefill lengths. All in seconds. See docs/design/sizing.md.
"""

from __future__ import annotations

from dataclasses import dataclass


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

    def prefill_seconds(self, tokens: float) -> float:
        """Time that one prompt of `tokens` uncached tokens adds to the step that computes it."""
        return self.per_prefill_token_seconds * tokens + self.per_prefill_token_squared_seconds * tokens * tokens

    def decode_seconds(self, sequences: float, context_tokens: float) -> float:
        """Duration of a step that only decodes `sequences` with `context_tokens` of context in all."""
        return (
            self.base_seconds + self.per_sequence_seconds * sequences + self.per_context_token_seconds * context_tokens
        )
