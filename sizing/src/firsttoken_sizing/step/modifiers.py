"""Modifiers: optimizations as functions from work or a step model to another, each with its source.

For configurations that were not measured with it: a measurement of the optimized engine always says more. Precision
needs no function of its own: `work_of` counts the bytes and the rate of FP8, INT8, INT4, NVFP4 and MXFP4, and
`transferred` carries a measured step model from one precision to another. Neither does prefix caching, which changes no
step time but the tokens to compute (`StepModel.prefill_seconds(tokens, cached_tokens)`, `Lengths`).
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from firsttoken_sizing.catalog import BYTES_PER_PARAMETER
from firsttoken_sizing.errors import InvalidInput
from firsttoken_sizing.parameters import PARAMETERS
from firsttoken_sizing.step.model import StepModel
from firsttoken_sizing.step.prior import StepWork


def transferred(measured: StepModel, physics: StepModel, other_physics: StepModel) -> StepModel:
    """The step model of a configuration that was not measured, from one that was: each cost in the ratio of physics.

    For another precision, a sparse model or another number of GPUs of the same model and kind of GPU. Costs that
    physics does not know in the first are taken from the second; the shape of the batch is kept.
    """

    def carried(name: str) -> float:
        before, after = getattr(physics, name), getattr(other_physics, name)
        return float(getattr(measured, name) * after / before) if before > 0 else float(after)

    names = (
        "base_seconds",
        "per_sequence_seconds",
        "per_context_token_seconds",
        "per_prefill_token_seconds",
        "per_prefill_token_squared_seconds",
        "expert_seconds",
        "attention_wave_seconds",
    )
    costs: dict[str, Any] = {name: carried(name) for name in names}
    return replace(other_physics, **costs, batch_shape=measured.batch_shape)


def sparse_bytes_share(precision: str) -> float:
    """Bytes of weights of which two of every four are kept, with their index, over those of all."""
    bits = 8 * BYTES_PER_PARAMETER[precision]
    return (bits + PARAMETERS.step.sparse_index_bits) / (2 * bits)


def sparse_2_4(work: StepWork, precision: str) -> StepWork:
    """The work of a model whose linear layers keep two of every four weights.

    Half of the weights are read, each with two bits of index: 9/16 of the bytes of 16 bits, 5/8 of 8 bits (NVIDIA
    reports a model that is 37 % smaller in FP8). Products take three quarters of their time. Needs kernels and a GPU
    for it (NVIDIA since Ampere).
    """
    read = sparse_bytes_share(precision)
    return replace(
        work,
        weight_seconds=read * work.weight_seconds,
        expert_seconds=read * work.expert_seconds,
        decode_seconds_per_token=PARAMETERS.step.sparse_product_share * work.decode_seconds_per_token,
        prefill_seconds_per_token=PARAMETERS.step.sparse_product_share * work.prefill_seconds_per_token,
    )


def tokens_per_step(acceptance: float, draft_tokens: int) -> float:
    """Mean tokens that one verification yields: `(1 - a^(g+1)) / (1 - a)`.

    Leviathan, Kalman and Matias, "Fast Inference from Transformers via Speculative Decoding" (2023), equation 1, for
    independent acceptance of each of g draft tokens with probability a. Raises `InvalidInput` outside 0 <= a <= 1.
    """
    if not 0 <= acceptance <= 1:
        raise InvalidInput(
            "sizing.speculativeDecoding.acceptancePercent", f"{100 * acceptance:g} is outside 0 to 100", "use 0 to 100"
        )
    if draft_tokens < 0:
        raise InvalidInput("sizing.speculativeDecoding.draftTokens", f"{draft_tokens} is negative", "use 0 or more")
    return sum(acceptance**i for i in range(draft_tokens + 1))


def speculative(step: StepModel, *, acceptance: float, draft_tokens: int, draft: StepModel | None = None) -> StepModel:
    """Step times a token with speculative decoding: what a token costs on average once tokens come in bursts.

    Of each sequence a verification computes the draft and one token more, while weights and KV cache are read once;
    `draft` is the model that proposes (None: proposals are free, as n-gram look-up is), which also computes the prompt.
    All is divided by `tokens_per_step`. It helps small batches; in large ones the additional tokens cost more than they
    save. NB: with this model the first step of a request, which nothing speeds up, is as short as the others: TTFT is
    understated by up to `base_seconds`.
    """
    tokens, checked = tokens_per_step(acceptance, draft_tokens), draft_tokens + 1
    own = draft or _FREE

    def per_token(verification: float, proposal: float) -> float:
        return (verification + draft_tokens * proposal) / tokens

    return replace(
        step,
        base_seconds=per_token(step.base_seconds, own.base_seconds),
        per_sequence_seconds=per_token(checked * step.per_sequence_seconds, own.per_sequence_seconds),
        per_context_token_seconds=per_token(step.per_context_token_seconds, own.per_context_token_seconds),
        per_prefill_token_seconds=step.per_prefill_token_seconds + own.per_prefill_token_seconds,
        per_prefill_token_squared_seconds=(
            step.per_prefill_token_squared_seconds + own.per_prefill_token_squared_seconds
        ),
        expert_seconds=per_token(step.expert_seconds, own.expert_seconds),
        idle_expert_share=step.idle_expert_share**checked,
        batch_shape=tuple((sequences / checked, factor) for sequences, factor in step.batch_shape),
        attention_wave_seconds=step.attention_wave_seconds / tokens,
    )


def prediction_layers(step: StepModel, share: float) -> StepModel:
    """Step times of the layers that predict further tokens: of each so much as of one of the model's own layers.

    `share`: so many layers over those of the model (DeepSeek-V3 report, section 2.2: a module of multi-token prediction
    is one more layer with the embedding and the head of the model). NB: each proposal is taken to wake as many experts
    as checking does, the careful end.
    """
    return replace(
        step,
        base_seconds=share * step.base_seconds,
        per_sequence_seconds=share * step.per_sequence_seconds,
        per_context_token_seconds=share * step.per_context_token_seconds,
        per_prefill_token_seconds=share * step.per_prefill_token_seconds,
        per_prefill_token_squared_seconds=share * step.per_prefill_token_squared_seconds,
        expert_seconds=share * step.expert_seconds,
    )


def chunked_prefill(step: StepModel, chunk_tokens: int) -> StepModel:
    """Step times when prompts are computed in chunks: each chunk reads the keys and values of those before it again.

    Of a prompt of s tokens in chunks of q that is `s^2 / (2*q)` tokens of KV cache, as are `s*c0/q` of a cached prefix,
    so `p2` grows by `k / (2*q)` (Agrawal et al., "Taming Throughput-Latency Tradeoff in LLM Inference with
    Sarathi-Serve", OSDI 2024, names this re-reading as the cost of chunks). The steps that a chunked prompt takes part
    in are for the performance models to count. Raises `InvalidInput` for a chunk below 1.
    """
    if chunk_tokens < 1:
        raise InvalidInput("chunkTokens", f"{chunk_tokens} is below 1", "use the tokens of a step, 512 to 8192")
    again = step.per_context_token_seconds / (2 * chunk_tokens)
    return replace(step, per_prefill_token_squared_seconds=step.per_prefill_token_squared_seconds + again)


_FREE = StepModel(0.0, 0.0, 0.0, 0.0, 0.0)
