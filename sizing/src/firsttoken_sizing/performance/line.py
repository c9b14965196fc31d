"""The straight line that stands for a step model at one rate.

The moments of `second_moments` are those of a linear system. A mixture of experts, matrix tiles and waves of attention
bend the step time over the batch; what counts for the second moments is its slope over the range in which the batch
moves, so the line is a chord over one standard deviation to both sides of the mean batch, not a tangent.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.performance.prefill import prompts
from firsttoken_sizing.step.model import StepModel

_HALVINGS = 30
_CHORDS = 2
_LEAST_BASE_SHARE = 0.02
_SMALLEST_MARGIN = 1e-3
_TINY = 1e-9


@dataclass(frozen=True, slots=True)
class Line:
    """A step in seconds: `base + per sequence * B + per context token * C`."""

    base_seconds: float
    per_sequence_seconds: float
    per_context_token_seconds: float


def is_straight(step: StepModel) -> bool:
    """Tell whether the step model itself is such a line."""
    return not (step.expert_seconds or step.batch_shape or step.grouped_attention_sequences)


def line_of(step: StepModel, lengths: Lengths, rate: float) -> Line:
    """The line through the step model one standard deviation around its own mean batch."""
    if is_straight(step):
        return Line(step.base_seconds, step.per_sequence_seconds, step.per_context_token_seconds)
    context = lengths.running_context_tokens

    def seconds(batch: float) -> float:
        return step.decode_seconds(batch, batch * context)

    free = max(_SMALLEST_MARGIN, 1 - rate * prompts(step, lengths).mean_seconds)
    tokens_a_second = rate * lengths.mean_decode_steps / free
    batch, highest = 0.0, float(step.max_batch)
    for _ in range(_HALVINGS):
        middle = (batch + highest) / 2
        # Fewer run than the tokens that are due need, as long as the step for them is short enough.
        if tokens_a_second * seconds(middle) > middle:
            batch = middle
        else:
            highest = middle
    batch = max(batch, _TINY)
    at_mean, slope = seconds(batch), 0.0
    for _ in range(_CHORDS):
        # Variance over mean of decode alone, and what prefill adds to it, both of a straight step.
        dispersion = 1 / max(_SMALLEST_MARGIN, 1 - tokens_a_second * slope) / free**2
        around = max(1.0, math.sqrt(batch * dispersion))
        low, high = max(0.0, batch - around), min(float(step.max_batch), batch + around)
        slope = (seconds(high) - seconds(low)) / (high - low)
        # Some part of a step does not depend on the batch, and no part is saved by a larger one.
        slope = min(max(slope, 0.0), (1 - _LEAST_BASE_SHARE) * at_mean / batch)
    per_token = min(step.context_seconds(batch), slope / context)
    return Line(at_mean - slope * batch, slope - per_token * context, per_token)
