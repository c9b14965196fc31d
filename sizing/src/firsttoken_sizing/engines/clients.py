"""Clients of the benchmarks that an engine's speed was measured with: a closed loop whose requests are not all alike.

Requests of exactly equal length stay together for a whole run (`performance.closed_loop_batches`). Where lengths vary
by a fifth, as InferenceX and AIPerf with a spread draw them, clients fall out of step after the first round.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class VariedClients:
    """Clients whose requests vary in length, so that only the first round is a burst."""

    front_end_seconds: float
    """Time of a first token outside of the engine's steps while others are served: HTTP, tokens to text and back, one
    request after the other. A request alone waits for none of it."""
    steps_unseen: int = 0
    """Steps that pass before the engine sees a request that comes while others are served."""
