"""How long requests are, as the performance models read it: tokens in the KV cache, tokens to compute, tokens made."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Lengths:
    """One request: prompt tokens in the KV cache, prompt tokens to compute (without cached ones), output tokens."""

    input_tokens: float
    uncached_input_tokens: float
    output_tokens: float

    @property
    def cached_input_tokens(self) -> float:
        """Prompt tokens whose keys and values are there already."""
        return self.input_tokens - self.uncached_input_tokens

    @property
    def decode_steps(self) -> float:
        """Steps after the one that prefills (and makes the first token)."""
        return max(0.0, self.output_tokens - 1)

    @property
    def context_tokens(self) -> float:
        """Mean context while decoding."""
        return self.input_tokens + self.output_tokens / 2
