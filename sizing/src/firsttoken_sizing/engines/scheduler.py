"""Scheduler of an engine: the token budget of a step, whether a long prompt is cut, and when KV cache is taken.

Kept apart from the step model, which says how long a step takes once its content is known.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

PREFILL_TOKENS_PER_STEP = 32768
"""Prompt tokens that the engine computes in one step, of 16384, 32768 and 65536. `benchmarks/evaluation/ttft.py`
chooses again for each pair of lengths of nim_dli.csv, by the TTFT of all others: five of six take this."""


@dataclass(frozen=True, slots=True)
class Scheduler:
    """The packing rule of one engine.

    Without `chunked_prefill` whole prompts are admitted to a step up to `tokens_per_step` prompt tokens (always at
    least one prompt). With it `tokens_per_step` is the budget of the whole step: every running sequence takes one token
    of it, and the rest goes to prompts, the last of which may be cut.

    `steps_ahead` steps are already queued on the GPU when a request is admitted, where scheduling runs ahead of
    execution: its first token comes as many steps later, and the time between tokens is the same.
    """

    tokens_per_step: int = PREFILL_TOKENS_PER_STEP
    chunked_prefill: bool = False
    steps_ahead: int = 0


class KvAdmission(StrEnum):
    """Time at which a request takes its KV cache."""

    RESERVED = "Reserved"
    """All that it will need (input + output tokens) when it is admitted."""
    PAGED = "Paged"
    """Tokens of the prompt at admission, then one by one; where none is left the youngest request is preempted and
    computed again."""
