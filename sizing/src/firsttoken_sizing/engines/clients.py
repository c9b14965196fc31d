"""Clients of the benchmarks that an engine's speed was measured with: a closed loop whose requests are not all alike.

Requests of exactly equal length stay together for a whole run (`performance.closed_loop_batches`). Where lengths vary
by a fifth, as InferenceX and AIPerf with a spread draw them, clients fall out of step after the first round.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST_ROUND_SHARE = 1 / 8
"""Share of the requests that all clients send at once when a run begins. Chosen: InferenceX asks for ten rounds
(`--num-prompts` is ten times `--max-concurrency`), but of 1/10, 1/8, 3/20 and 1/5 this meets the TTFT of
aic_silicon_agg.csv best for vLLM and TensorRT-LLM."""


@dataclass(frozen=True, slots=True)
class VariedClients:
    """Clients whose requests vary in length, so that only the first round is a burst."""

    front_end_seconds: float
    """Time of a first token outside of the engine's steps while others are served: HTTP, tokens to text and back, one
    request after the other. A request alone waits for none of it."""
    steps_unseen: int = 0
    """Steps that pass before the engine sees a request that comes while others are served."""
    first_round_share: float = FIRST_ROUND_SHARE
