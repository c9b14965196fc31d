"""Every parameter of the sizing models that holds for all engines and GPUs: unit, meaning, source.

What tells engines or GPUs apart is data (`engines`, `catalog/data`, `step/data`). A value is *measured*, *derived* from
a formula or from what it describes, or *chosen* by judgment.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class CapacityParameters:
    """Parameters of what a replica is asked to carry."""

    max_utilization: float = 0.9
    """Largest share of the stable rate that a replica is sized for. Measured: the median of what MLPerf Inference v4.1
    shows for llama2-70b-99 on H100 (docs/design/sizing.md, and
    tests/sizing/performance/test_utilization_cap_is_what_mlperf_shows.py). Other models reach more there, but
    `ITL = w0 / (1 - rho)`: at 0.9 a rate that is 5 % higher means a latency 1.8 times as long, and the fits are no
    better than 5 %."""
    latency_margin: float = 0.05
    """Share of a latency limit that an answer from the closed loop's model keeps free: it is sized to
    `limit * (1 - margin)`. Measured: with it fewer than 5 % of the sizing questions of
    `benchmarks/evaluation/questions.py` (lengths left out) end more than 5 % over the limit; a measured point needs
    none."""
    alone_concurrency: float = 1.5
    """Concurrency up to which a measured request counts as being alone. Chosen: between one and two."""


@dataclass(frozen=True, slots=True, kw_only=True)
class VariedClientParameters:
    """Parameters of a closed loop whose requests vary in length."""

    first_round_share: float = 0.125
    """Share of the requests that all clients send at once when a run begins. Chosen: InferenceX asks for ten rounds
    (`--num-prompts` is ten times `--max-concurrency`), but of 1/10, 1/8, 3/20 and 1/5 this meets the TTFT of
    aic_silicon_agg.csv best for vLLM and TensorRT-LLM."""
    most_prefill_share: float = 0.9
    """Largest share of their time that later steps spend on prompts; above it the batch is what is full, and requests
    wait for a slot. Chosen: at 0.9 a step takes ten times as long as without prompts."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LengthParameters:
    """Parameters of the lengths of requests."""

    prompt_deviation: float = math.sqrt(math.log(2))
    """Standard deviation of the logarithm of prompt lengths where no spread is declared. Derived: a log-normal law with
    a coefficient of variation of 1. Those of recorded traffic are 0.9 to 1.3 (Azure 2023 code, ServeGen, Mooncake)."""
    steepest_tail: float = 1.0
    """Most that the logarithm of a length rises in one standard deviation beyond the outermost declared quantile.
    Chosen: lengths that were not declared must not outweigh the declared ones."""
    window_prompt_tokens: float = 2048.0
    """Prompt for which layers with a sliding window are made linear where the prompts are not known. Chosen."""
    input_tokens: float = 2000.0
    """Prompt that a configuration is fitted at where neither the question nor a profile gives one. Chosen."""
    output_tokens: float = 200.0
    """The same of the answer."""


@dataclass(frozen=True, slots=True, kw_only=True)
class BandParameters:
    """Parameters of error bands."""

    easiest: float = 0.1
    """Added to every difficulty of a fit (logarithm of a time). Chosen: fits that agree are not therefore right."""
    own_error_weight: float = 2.0
    """Weight of the scatter of a fit's own points (their median error) beside the spread of fits without one workload.
    Chosen: 1 to 4 are alike on what was left out."""
    least_share: float = 0.1
    """Lowest share of the answer that a band reaches. Chosen: where steps that are a little slower leave not even one
    request alone inside the SLA, no rate is sure; a tenth says as much."""
    wide_below: float = 0.8
    """Share of the answer below which the low end of a band makes it wide: it is warned of, and a deployment starts
    with the replicas of that end. Chosen: a start that is a fifth short is made up for by the first windows of load."""
    least_careful: float = 0.5
    """Lowest share that a start prepares for, however wide the band is. Chosen: a fleet twice as large as sized is what
    one step of the operator may add anyway, so that more would be paid for and not be faster by more than a step."""
    near_limit: float = 0.2
    """Share of its limit from which on a TTFT counts as near it, where the end of a replica stops it. Chosen."""
    poisson_percent: float = 7.0
    """Error of times that the Poisson model adds to that of the fit. Measured: the 90th percentile of its distance from
    the discrete-event simulation in TTFT P95, over all kinds of replicas (benchmarks/evaluation/poisson.py)."""
    least_points: int = 8
    """Bands were measured with fits of at least so many points; one of fewer passes through them whatever it says
    elsewhere. Measured, as said."""
    one_point_percent: float = 30.0
    """Least band of the times of a fit of one point; of n < `least_points` it is this / sqrt(n). Chosen."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FitParameters:
    """Parameters of the fit of a configuration's constants to its points."""

    constant_spread: float = 0.5
    """Distance (one standard deviation of the logarithm) of a configuration's constants from the engine's. Chosen by
    cross-validation over the workloads of nim_dli.csv, where it hardly matters: with 0.2 to 1, and 0.06 to 0.2 of the
    shape, the median held-out error of requests a second stays within 1.1 to 1.2 %, the mean within 1.9 to 2.2."""
    shape_spread: float = 0.1
    """The same of the shape from 1."""
    noise: float = 0.03
    """Relative error (one standard deviation) of a measured time. Chosen."""
    queue_ratio: float = 1.5
    """Times the prefill of a step that a TTFT may be before there was a queue. Chosen."""
    covered_factor: float = 1.5
    """Factor by which lengths may lie outside the measured ones and still count as covered. Chosen."""
    max_batch: int = 256
    """Sequences that run at once where no engine and no memory sets the limit. Chosen: that of the engines."""


@dataclass(frozen=True, slots=True, kw_only=True)
class StepParameters:
    """Parameters of the physics of a step."""

    mla_head_dim: int = 160
    """Mean of the query/key and value widths of one head while prefilling, where a model does not say. Derived:
    (128 + 64 + 128) / 2 (DeepSeek-V3)."""
    all_reduces_per_layer: int = 2
    """Exchanges of a tensor-parallel layer. Derived: one after attention, one after the feed-forward part."""
    exchanges_around_experts: int = 1
    """The same where every GPU does the attention of its own requests. Derived: tokens are gathered for the experts and
    scattered again, which together move as much as one all-reduce; attention needs none. Groups wait for the slowest of
    them, which is not in the model."""
    sparse_index_bits: int = 2
    """Position of a kept weight among its four. Derived (NVIDIA A100 architecture whitepaper, sparse tensor cores)."""
    sparse_product_share: float = 0.75
    """Time of a sparse matrix product over a dense one where arithmetic binds; the tensor cores alone could halve it.
    Measured: for Llama 2 70B in FP8 on H100 NVIDIA reports 1.62x the dense throughput at batch 32, 1.35x at 128 and
    1.30x at 896 (DLI course S-FX-18); with this share the model gives 1.4x to 1.25x on one GPU: the careful side."""
    grouped_from_heads: int = 8
    """Query heads a KV head from which an attention kernel in waves reads keys and values once for a group. Measured:
    see `step.waves`."""
    grouped_blocks: int = 4
    """Blocks for each KV head with which that kernel has to fill the GPU. Measured, as above."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Parameters:
    """Parameters of all models."""

    capacity: CapacityParameters = CapacityParameters()
    varied_clients: VariedClientParameters = VariedClientParameters()
    lengths: LengthParameters = LengthParameters()
    bands: BandParameters = BandParameters()
    fit: FitParameters = FitParameters()
    step: StepParameters = StepParameters()


PARAMETERS = Parameters()
"""Parameters that ship."""
