"""Cost of a request by its lengths: a rate of long requests is more load than the same rate of short ones.

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

from firsttoken_sizing.parameters import PARAMETERS
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
    """Time for each output token and token of context that it reads."""
    input_tokens: float
    uncached_share: float
    """Share of a prompt, 0..1, that the prefix cache does not save."""
    output_tokens: float
    prompt_deviation: float = PARAMETERS.lengths.prompt_deviation
    """Standard deviation of the natural logarithm of prompt lengths."""

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

    def share_longer_than(self, prefill_seconds: float, input_tokens: float) -> float:
        """Share of prompts, 0..1, whose own prefill takes longer; `input_tokens` is their mean length at present.

        No number of replicas makes their first tokens come sooner. Lengths are log-normal around that mean.
        """
        linear = self.uncached_share * self.seconds_per_prefill_token
        squared = self.uncached_share * (2 - self.uncached_share) * self.seconds_per_prefill_token_squared
        slope = linear + math.sqrt(linear**2 + 4 * squared * prefill_seconds)
        if slope <= 0 or not 0 < input_tokens < math.inf:
            return 0.0
        longest = 2 * prefill_seconds / slope  # the root of squared * tokens^2 + linear * tokens = prefill_seconds
        if self.prompt_deviation <= 0:
            return float(input_tokens > longest)
        score = math.log(longest / input_tokens) / self.prompt_deviation + self.prompt_deviation / 2
        return math.erfc(score / math.sqrt(2)) / 2


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
        prompt_deviation=PARAMETERS.lengths.prompt_deviation
        if lengths.input_spread.is_fixed
        else lengths.input_spread.log_deviation,
    )
