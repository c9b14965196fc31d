"""What a request costs a replica by its lengths: a rate of long requests is more load than the same rate of short ones.

A replica works at a step at a time. A prompt adds its own prefill; every output token takes its share of a decode step
at the batch that the replica was sized for, and reads its own context once. The sum is the replica-seconds that one
request uses up when the others keep the batch full. It is a weight for counting load, no latency.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from firsttoken_sizing.performance.lengths import Lengths
from firsttoken_sizing.step.model import StepModel

Value = TypeVar("Value", float, NDArray[np.float64])


@dataclass(frozen=True, slots=True)
class Work:
    """Replica-seconds of requests at one batch; the declared lengths are those that a capacity was computed for."""

    seconds_per_prefill_token: float
    seconds_per_prefill_token_squared: float
    seconds_per_output_token: float
    """Share of a step without its context."""
    seconds_per_context_token: float
    """For each output token and token of context that it reads."""
    input_tokens: float
    uncached_share: float
    """Of a prompt, 0..1: what the prefix cache does not save."""
    output_tokens: float

    def seconds(self, prompt: Value, uncached: Value, output: Value) -> Value:
        """Replica-seconds of requests with so many tokens each; scalars or arrays of one shape."""
        attention = self.seconds_per_prefill_token_squared * uncached * (2 * prompt - uncached)
        prefill = self.seconds_per_prefill_token * uncached + attention
        steps = (output - 1 + abs(output - 1)) / 2  # the first token is the prefill's
        context = self.seconds_per_context_token * (prompt + output / 2)
        return prefill + steps * (self.seconds_per_output_token + context)

    @property
    def declared_seconds(self) -> float:
        """Replica-seconds of one request of the declared lengths."""
        return self.seconds(self.input_tokens, self.uncached_share * self.input_tokens, self.output_tokens)

    def relative(self, input_tokens: float, output_tokens: float) -> float:
        """Cost of a request of these mean lengths in requests of the declared ones; NaN where lengths are no numbers.

        As much of a prompt is cached as was declared.
        """
        declared = self.declared_seconds
        asked = self.seconds(input_tokens, self.uncached_share * input_tokens, output_tokens)
        return asked / declared if declared > 0 else math.nan


def work_of(step: StepModel, lengths: Lengths, concurrency: float) -> Work:
    """The cost of requests on a replica that runs `concurrency` of them at once."""
    batch = min(max(concurrency, 1.0), float(step.max_batch))
    return Work(
        seconds_per_prefill_token=step.per_prefill_token_seconds,
        seconds_per_prefill_token_squared=step.per_prefill_token_squared_seconds,
        seconds_per_output_token=step.batch_seconds(batch) / batch,
        seconds_per_context_token=step.context_seconds(batch),
        input_tokens=lengths.input_tokens,
        uncached_share=lengths.uncached_input_tokens / lengths.input_tokens,
        output_tokens=lengths.output_tokens,
    )
