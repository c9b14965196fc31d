"""Parameters of a model from its dimensions: matrices only, without norms and biases (below 0.1 % of any model here).

Formulas are those of the families' public code: grouped-query attention, latent attention (DeepSeek-V2 paper, section
2.1), Mamba-1 and Mamba-2, gated delta networks (Qwen3-Next, Kimi Linear). Prediction heads for speculative decoding
(MTP) and vision or audio towers are not counted, as in published totals of the language model.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from firsttoken_sizing.catalog._config import Config
from firsttoken_sizing.catalog._layers import Ffn, Layers, Mixer

_UNGATED = {
    "gpt2", "gpt_bigcode", "gpt_neox", "gptj", "gpt_neo", "bloom", "falcon", "mpt", "opt", "phi", "starcoder2",
    "nemotron", "nemotron_h",
}  # fmt: skip
"""Families whose feed-forward network has two matrices instead of three."""
_OUTPUT_GATE = ("qwen3_next", "qwen3_5")
"""Families whose attention gates its output: a second query projection."""
_SEARCHED_MULTIPLE = 256
"""Nemotron NAS rounds the widths that it searched up to this."""


@dataclass(frozen=True, slots=True)
class Dimensions:
    """The widths that every formula needs."""

    hidden: int
    heads: int
    own_kv_shape: tuple[int, int]
    """KV heads and their dimension, but for layers that have a shape of their own (`kv_shapes`)."""
    intermediate: int | None
    """None where no layer has a dense network of one width."""
    gated: bool
    experts: int | None
    experts_per_token: int | None
    shared_experts: int | None
    expert_width: int | None
    shared_width: int
    """Width of all shared experts of a layer together; 0 without any."""
    vocabulary: int
    tied: bool


@dataclass(frozen=True, slots=True)
class ParameterCount:
    """Counts of a model."""

    total: float
    active: float
    """Parameters that one token uses: all but the experts that it is not sent to."""
    routed_experts: float


def is_gated(config: Config) -> bool:
    """Tell whether the feed-forward network has a gate (SwiGLU, GeGLU): three matrices."""
    activation = str(config.values.get("mlp_hidden_act") or config.values.get("hidden_act") or "")
    return config.model_type not in _UNGATED and activation not in ("relu2", "relu")


def count_parameters(config: Config, layers: Layers, of: Dimensions) -> ParameterCount:
    """Total, active and routed-expert parameters. Raises `InvalidInput` for a dimension that is missing."""
    with_weights = (kind for kind in (Mixer.FULL, Mixer.WINDOWED, Mixer.LINEAR) if layers.count(kind))
    mixing = sum(layers.count(kind) * _mixing(config, of, kind) for kind in with_weights)
    matrices = 3 if of.gated else 2
    dense = (
        _searched(config, of)
        if config.has("block_configs")
        else (layers.count(Ffn.DENSE) * matrices * of.hidden * (of.intermediate or 0))
    )
    routed = active_routed = shared = 0.0
    if of.experts and of.expert_width and of.experts_per_token:
        # Experts of some families work in a smaller space, with one projection into it and one back.
        latent = config.optional("moe_latent_size", "routed_expert_hidden_size")
        expert = matrices * (latent or of.hidden) * of.expert_width
        spread = layers.count(Ffn.EXPERTS)
        routed = spread * of.experts * expert
        active_routed = spread * of.experts_per_token * expert
        shared = spread * (matrices * of.hidden * of.shared_width + of.hidden * of.experts)
        shared += spread * 2 * of.hidden * (latent or 0)
    embeddings = of.vocabulary * of.hidden * (1 if of.tied else 2)
    fixed = mixing + dense + shared + embeddings
    return ParameterCount(total=fixed + routed, active=fixed + active_routed, routed_experts=routed)


def _mixing(config: Config, of: Dimensions, kind: Mixer) -> float:
    """Count the parameters of one layer of a kind."""
    if kind is Mixer.LINEAR:
        return _linear(config, of)
    if kind is Mixer.FULL and config.has("kv_lora_rank"):
        return _latent_attention(config, of)
    return _attention(config, of, kind)


def kv_shapes(config: Config, of: tuple[int, int]) -> dict[Mixer, tuple[int, int]]:
    """KV heads and their dimension in full and in windowed layers, `of` where a family has one shape for both."""
    kv_heads, head_dim = of
    return {
        Mixer.FULL: (
            config.optional("num_global_key_value_heads") or kv_heads,
            config.optional("global_head_dim") or head_dim,
        ),
        Mixer.WINDOWED: (
            config.optional("swa_num_key_value_heads") or kv_heads,
            config.optional("swa_head_dim") or head_dim,
        ),
    }


def _attention(config: Config, of: Dimensions, kind: Mixer) -> float:
    kv_heads, head_dim = kv_shapes(config, of.own_kv_shape)[kind]
    queries = 2 if config.model_type.startswith(_OUTPUT_GATE) else 1
    values = config.optional("v_head_dim" if kind is Mixer.FULL else "swa_v_head_dim") or head_dim
    same = kind is Mixer.FULL and config.values.get("attention_k_eq_v") is True  # Gemma 4
    from_hidden = queries * of.heads * head_dim + kv_heads * (head_dim + (0 if same else values))
    return of.hidden * (from_hidden + of.heads * values)


def _latent_attention(config: Config, of: Dimensions) -> float:
    rank, rope = config.whole("kv_lora_rank"), config.whole("qk_rope_head_dim")
    nope, value = config.whole("qk_nope_head_dim"), config.whole("v_head_dim")
    query_rank = config.optional("q_lora_rank")
    width = of.heads * (nope + rope)
    query = query_rank * (of.hidden + width) if query_rank else of.hidden * width
    cache = of.hidden * (rank + rope) + rank * of.heads * (nope + value)
    index_heads, index_dim = config.optional("index_n_heads"), config.optional("index_head_dim")
    indexer = 0
    if index_heads and index_dim:  # DeepSeek sparse attention
        indexer = (query_rank or of.hidden) * index_heads * index_dim + of.hidden * (index_dim + index_heads)
    return query + cache + of.heads * value * of.hidden + indexer


def _linear(config: Config, of: Dimensions) -> float:
    """One layer without a KV cache."""
    if config.has("linear_num_value_heads"):
        keys = config.whole("linear_num_key_heads") * config.whole("linear_key_head_dim")
        values = config.whole("linear_num_value_heads") * config.whole("linear_value_head_dim")
        gates = 2 * config.whole("linear_num_value_heads")
        return of.hidden * (2 * keys + 3 * values + gates)
    delta = config.part("linear_attn_config")
    if delta:
        nested = Config(delta, f"{config.path}.linear_attn_config")
        head_dim = nested.whole("head_dim")
        width = nested.whole("num_heads") * head_dim
        gate = of.hidden * width if delta.get("use_full_rank_gate") else head_dim * (of.hidden + width)
        decay = head_dim * (of.hidden + width)
        return 4 * of.hidden * width + gate + decay + of.hidden * nested.whole("num_heads")
    state = config.whole("ssm_state_size", "mamba_d_state")
    heads = config.optional("mamba_num_heads", "mamba_n_heads")
    if heads:
        inner = heads * config.whole("mamba_head_dim", "mamba_d_head")
        groups = config.optional("n_groups", "mamba_n_groups") or 1
        return of.hidden * (3 * inner + 2 * groups * state + heads)
    inner = of.hidden * config.whole("mamba_expand", "expand")
    rank = config.optional("mamba_dt_rank") or math.ceil(of.hidden / 16)
    return 3 * of.hidden * inner + inner * (2 * rank + 3 * state)


def _searched(config: Config, of: Dimensions) -> float:
    """Dense networks whose width an architecture search chose layer by layer."""
    total = 0.0
    for block in config.items("block_configs", dict) or ():
        ffn = block.get("ffn")
        if not isinstance(ffn, Mapping) or ffn.get("no_op"):
            continue
        factor = ffn.get("ffn_mult")
        if not isinstance(factor, int | float):
            raise config.invalid("block_configs", "has a block without ffn_mult", "copy it as it is")
        width = math.ceil(int(2 * factor * of.hidden / 3) / _SEARCHED_MULTIPLE) * _SEARCHED_MULTIPLE
        total += 3 * of.hidden * width
    return total
