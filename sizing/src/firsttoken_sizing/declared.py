"""Settings of an engine in place of those that it has as it is installed: as a team declares them, or a benchmark."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class DeclaredSettings:
    """Values in place of the engine's own; None: as it is installed."""

    max_batch: int | None = None
    """Sequences that run at once."""
    tokens_per_step: int | None = None
    """Tokens of one step; with chunked prefill also the largest chunk of a prompt."""
    kv_cache_bits: int | None = None
    """Bits of each number in the KV cache."""
    memory_share: float | None = None
    """Share of a GPU's memory, 0..1, in the meaning that the engine's own option has."""


AS_INSTALLED = DeclaredSettings()
"""Nothing is declared."""
