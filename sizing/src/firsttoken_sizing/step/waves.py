"""Decode attention in waves: what an engine pays that gives every head of every sequence one multiprocessor.

Until 2024 the attention kernel of TensorRT-LLM did so for small batches: one sequence reads its context at the pace of
a few multiprocessors, so a step takes as long for one as for all that fit on the GPU together, and twice as long for
one more. It shows in the points of nim_dli.csv (7000 prompt tokens, 8B on two H100: a step is 2.4 ms longer than with a
short context at 1, 2 and 5 sequences, 4.8 at 10, 9.8 at 25, where 1, 1, 1, 2 and 4 waves run). Newer engines split one
context over the whole GPU and need none of this.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from firsttoken_sizing.catalog import Gpu, Model
from firsttoken_sizing.catalog.gpus import assumed
from firsttoken_sizing.parameters import PARAMETERS

_KEY_VALUE_BYTES = 4
"""Key and value in 16 bits."""


@dataclass(frozen=True, slots=True)
class Waves:
    """Waves in which the heads of a batch fill one GPU."""

    seconds: float
    """One wave, for each token of context: bytes of one head over the bandwidth share of one multiprocessor."""
    sequences: float
    """That one wave holds."""
    grouped_from_sequences: float
    """Sequences from which on a kernel reads keys and values once for a group of heads; infinity: never."""

    @property
    def never_grouped(self) -> bool:
        """True where attention runs in waves at every batch."""
        return math.isinf(self.grouped_from_sequences)


def waves_of(model: Model, gpu: Gpu, ways: int, *, full_layers: int) -> Waves:
    """Waves of a model whose heads are spread over `ways` GPUs, over `full_layers` layers without a full window.

    The grouped kernel starts where four blocks for each KV head fill the GPU, and only for groups of eight query heads
    or more. Both were read off the points: with four heads a group (8B) waves go on to 250 sequences, with eight (70B)
    they end between 10 and 25 on four GPUs and between 25 and 50 on eight.
    """
    processors = gpu.multiprocessors or assumed().multiprocessors
    heads = max(1.0, model.attention_heads / ways)
    kv_heads = max(1.0, model.kv_heads / ways)
    bandwidth = gpu.memory_bandwidth_gb_per_second * 1e9 / processors
    grouped = model.attention_heads / model.kv_heads >= PARAMETERS.step.grouped_from_heads
    return Waves(
        seconds=full_layers * _KEY_VALUE_BYTES * (model.head_dim or 0) / bandwidth,
        sequences=processors / heads,
        grouped_from_sequences=processors / (PARAMETERS.step.grouped_blocks * kv_heads) if grouped else math.inf,
    )
