"""A model's own numbers: the fields of a `config.json` that the sizing reads, under the names that families give them.

Closed, unlike a config.json: what one tenant may put into an object, the operator of all has to read.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import ConfigDict, Field, Strict

from firsttoken_operator.api.base import ApiModel, Int, Number, described, optional
from firsttoken_operator.api.quantities import MAX_INTEGER, ShortText

MAX_LAYERS = 1000
Whole = Annotated[Int, Field(ge=0, le=MAX_INTEGER)]
Boolean = Annotated[bool, Strict()]
Entry = Annotated[Int, Field(ge=0, le=MAX_INTEGER, description="One of the list. Unit: as the config.json has it.")]
Wholes = Annotated[tuple[Entry, ...], Field(max_length=MAX_LAYERS)]
Texts = Annotated[tuple[ShortText, ...], Field(max_length=MAX_LAYERS)]


def _of(other: str, unit: str) -> Any:
    """Describe another name of a field."""
    return optional(f"What some families call {other}.", unit=unit, absent="not in the config.json")


def _wide(text: str) -> Any:
    """Describe a width."""
    return _whole(text, "dimensions")


def _whole(text: str, unit: str) -> Any:
    return optional(text, unit=unit, absent="not in the config.json")


def _is(text: str) -> Any:
    return optional(text, absent="not in the config.json")


class _ConfigPart(ApiModel):
    """A part of a config.json, whose names are not ours."""

    model_config = ConfigDict(alias_generator=None)


class SearchedAttention(_ConfigPart):
    """Attention of one layer that an architecture search chose."""

    no_op: Boolean | None = _is("Whether the layer has none.")
    replace_with_linear: Boolean | None = _is("Whether a matrix stands in its place.")
    n_heads_in_group: Whole | None = _whole("Query heads that share a KV head.", "heads")


class SearchedNetwork(_ConfigPart):
    """Feed-forward network of one layer that an architecture search chose."""

    no_op: Boolean | None = _is("Whether the layer has none.")
    ffn_mult: Annotated[Number, Field(ge=0, le=1000)] | None = _whole("Width over that of the model.", "ratio")


class SearchedLayer(_ConfigPart):
    """One layer that an architecture search chose."""

    attention: SearchedAttention | None = _is("Its attention.")
    ffn: SearchedNetwork | None = _is("Its feed-forward network.")


class LinearAttention(_ConfigPart):
    """Layers of Kimi Linear."""

    full_attn_layers: Wholes | None = _is("Layers with full attention, counted from 1.")
    head_dim: Whole | None = _wide("Width of a head.")
    num_heads: Whole | None = _whole("Heads of a layer.", "heads")
    use_full_rank_gate: Boolean | None = _is("Whether its gate has full rank.")


class QuantizedWeights(_ConfigPart):
    """Format of a group of weights."""

    num_bits: Whole | None = _whole("Bits of a weight.", "bits")
    type: ShortText | None = _is("Kind of number: float or int.")


class QuantizedGroup(_ConfigPart):
    """A group of weights with one format."""

    weights: QuantizedWeights | None = _is("Format of its weights.")
    format: ShortText | None = _is("Name of the format.")


class Quantization(_ConfigPart):
    """Quantization of a checkpoint."""

    quant_method: ShortText | None = _is("Method, such as fp8 or awq.")
    quant_algo: ShortText | None = _is("Algorithm of NVIDIA ModelOpt.")
    format: ShortText | None = _is("Format of compressed-tensors.")
    bits: Whole | None = _whole("Bits of a weight.", "bits")
    w_bit: Whole | None = _of("bits", "bits")
    load_in_8bit: Boolean | None = _is("Whether weights are loaded as 8 bits.")
    load_in_4bit: Boolean | None = _is("Whether weights are loaded as 4 bits.")
    config_groups: dict[str, QuantizedGroup] = described(
        "Groups of compressed-tensors.", default_factory=dict, max_length=16, absent="not in the config.json"
    )
    modules_to_not_convert: Texts | None = _is("Modules that are not quantized.")
    ignore: Texts | None = _is("What compressed-tensors calls modules_to_not_convert.")
    exclude_modules: Texts | None = _is("What ModelOpt calls modules_to_not_convert.")


class Architecture(_ConfigPart):
    """The fields of a config.json that describe a language model. What is not read is not here."""

    model_type: ShortText | None = _is("Family of the architecture.")
    torch_dtype: ShortText | None = _is("Data type of the weights.")
    dtype: ShortText | None = _is("What newer files call torch_dtype.")
    hidden_act: ShortText | None = _is("Activation of the feed-forward network.")
    mlp_hidden_act: ShortText | None = _is("What some families call hidden_act.")
    quantization_config: Quantization | None = _is("How the checkpoint is quantized.")
    tie_word_embeddings: Boolean | None = _is("Whether the output head is the embedding.")
    is_encoder_decoder: Boolean | None = _is("Whether it has an encoder; refused by the sizing.")
    compress_ratios: Wholes | None = _is("Compression of the KV cache by layer; refused by the sizing.")

    hidden_size: Whole | None = _wide("Width of the model.")
    n_embd: Whole | None = _of("hidden_size", "dimensions")
    d_model: Whole | None = _of("hidden_size", "dimensions")
    vocab_size: Whole | None = _whole("Tokens of the vocabulary.", "tokens")
    padded_vocab_size: Whole | None = _of("vocab_size", "tokens")
    max_position_embeddings: Whole | None = _whole("Longest context.", "tokens")
    n_positions: Whole | None = _of("max_position_embeddings", "tokens")
    max_sequence_length: Whole | None = _of("max_position_embeddings", "tokens")
    seq_length: Whole | None = _of("max_position_embeddings", "tokens")
    max_seq_len: Whole | None = _of("max_position_embeddings", "tokens")

    num_hidden_layers: Whole | None = _whole("Layers.", "layers")
    n_layer: Whole | None = _of("num_hidden_layers", "layers")
    num_layers: Whole | None = _of("num_hidden_layers", "layers")
    n_layers: Whole | None = _of("num_hidden_layers", "layers")
    layer_types: Texts | None = _is("Kind of each layer.")
    layers_block_type: Texts | None = _is("What some families call layer_types.")
    hybrid_override_pattern: Annotated[str, Field(max_length=MAX_LAYERS)] | None = _is("Kind of each layer, by letter.")
    hybrid_layer_pattern: Wholes | None = _is("For each layer 1 where it has a window.")
    no_rope_layers: Wholes | None = _is("For each layer 0 where it sees everything (Llama 4).")
    no_rope_layer_interval: Whole | None = _whole("One of so many layers sees everything (Llama 4).", "layers")
    attn_layer_indices: Wholes | None = _is("Layers with attention, counted from 0.")
    attn_layer_period: Whole | None = _whole("One of so many layers has attention (Jamba).", "layers")
    attn_layer_offset: Whole | None = _whole("First layer with attention (Jamba).", "layers")
    full_attention_interval: Whole | None = _whole("One of so many layers has full attention.", "layers")
    block_configs: Annotated[tuple[SearchedLayer, ...], Field(max_length=MAX_LAYERS)] | None = _is(
        "Layers that an architecture search chose one by one."
    )
    linear_attn_config: LinearAttention | None = _is("Layers of Kimi Linear.")

    num_attention_heads: Whole | None = _whole("Query heads of a layer.", "heads")
    n_head: Whole | None = _of("num_attention_heads", "heads")
    n_heads: Whole | None = _of("num_attention_heads", "heads")
    num_key_value_heads: Whole | None = _whole("KV heads of a layer.", "heads")
    num_kv_heads: Whole | None = _of("num_key_value_heads", "heads")
    n_head_kv: Whole | None = _of("num_key_value_heads", "heads")
    num_global_key_value_heads: Whole | None = _whole("KV heads of a layer with full attention.", "heads")
    swa_num_key_value_heads: Whole | None = _whole("KV heads of a layer with a window.", "heads")
    multi_query: Boolean | None = _is("Whether all query heads share one KV head.")
    new_decoder_architecture: Boolean | None = _is("Whether multi_query is overridden (Falcon).")
    head_dim: Whole | None = _wide("Width of a head.")
    attention_head_dim: Whole | None = _of("head_dim", "dimensions")
    kv_channels: Whole | None = _of("head_dim", "dimensions")
    global_head_dim: Whole | None = _wide("Width of a head with full attention.")
    swa_head_dim: Whole | None = _wide("Width of a head with a window.")
    v_head_dim: Whole | None = _wide("Width of a value.")
    swa_v_head_dim: Whole | None = _wide("Width of a value with a window.")
    attention_k_eq_v: Boolean | None = _is("Whether keys are values, too (Gemma 4).")
    use_sliding_window: Boolean | None = _is("Whether windows are used.")
    sliding_window: Whole | None = _whole("Tokens that a layer with a window sees.", "tokens")
    sliding_window_size: Whole | None = _of("sliding_window", "tokens")
    attention_chunk_size: Whole | None = _of("sliding_window", "tokens")
    sliding_window_pattern: Whole | None = _whole("One of so many layers has no window.", "layers")
    max_window_layers: Whole | None = _whole("Layers before the first one with a window.", "layers")
    kv_lora_rank: Whole | None = _wide("Rank of the KV cache of latent attention.")
    num_nextn_predict_layers: Whole | None = _whole("Layers that predict further tokens.", "layers")
    index_topk: Whole | None = _whole("Tokens that sparse attention reads at most.", "tokens")
    q_lora_rank: Whole | None = _wide("Rank of the queries of latent attention.")
    qk_rope_head_dim: Whole | None = _wide("Width of a key with positions.")
    qk_nope_head_dim: Whole | None = _wide("Width of a key without positions.")
    index_n_heads: Whole | None = _whole("Heads of the indexer of sparse attention.", "heads")
    index_head_dim: Whole | None = _wide("Width of a head of that indexer.")

    intermediate_size: Whole | None = _wide("Width of the feed-forward network.")
    intermediate_size_mlp: Whole | None = _wide("That of layers without experts.")
    dense_intermediate_size: Whole | None = _of("intermediate_size_mlp", "dimensions")
    n_inner: Whole | None = _of("intermediate_size", "dimensions")
    ffn_hidden_size: Whole | None = _of("intermediate_size", "dimensions")
    ffn_dim: Whole | None = _of("intermediate_size", "dimensions")
    num_experts: Whole | None = _whole("Experts of a layer.", "experts")
    num_local_experts: Whole | None = _of("num_experts", "experts")
    n_routed_experts: Whole | None = _of("num_experts", "experts")
    moe_num_experts: Whole | None = _of("num_experts", "experts")
    num_experts_per_tok: Whole | None = _whole("Experts that a token is sent to.", "experts")
    experts_per_token: Whole | None = _of("num_experts_per_tok", "experts")
    num_experts_per_token: Whole | None = _of("num_experts_per_tok", "experts")
    top_k_experts: Whole | None = _of("num_experts_per_tok", "experts")
    moe_intermediate_size: Whole | None = _wide("Width of an expert.")
    moe_latent_size: Whole | None = _wide("Width of the space that experts work in.")
    routed_expert_hidden_size: Whole | None = _of("moe_latent_size", "dimensions")
    n_shared_experts: Whole | None = _whole("Experts that every token is sent to.", "experts")
    num_shared_experts: Whole | None = _of("n_shared_experts", "experts")
    moe_num_shared_experts: Whole | None = _of("n_shared_experts", "experts")
    moe_shared_expert_intermediate_size: Whole | None = _wide("Width of a shared expert.")
    shared_expert_intermediate_size: Whole | None = _wide("Width of all shared experts together.")
    shared_intermediate_size: Whole | None = _of("shared_expert_intermediate_size", "dimensions")
    share_expert_dim: Whole | None = _of("shared_expert_intermediate_size", "dimensions")
    enable_moe_block: Boolean | None = _is("Whether layers have a dense network beside the experts (Gemma 4).")
    first_k_dense_replace: Whole | None = _whole("First layers without experts.", "layers")
    mlp_only_layers: Wholes | None = _is("Layers without experts, counted from 0.")
    moe_layer_freq: Whole | None = _whole(
        "One of so many layers has experts; for a list write mlp_only_layers.", "layers"
    )
    interleave_moe_layer_step: Whole | None = _of("decoder_sparse_step", "layers")
    decoder_sparse_step: Whole | None = _whole("One of so many layers has experts.", "layers")
    expert_layer_period: Whole | None = _whole("One of so many layers has experts (Jamba).", "layers")
    expert_layer_offset: Whole | None = _whole("First layer with experts (Jamba).", "layers")

    linear_num_key_heads: Whole | None = _whole("Key heads of linear attention.", "heads")
    linear_key_head_dim: Whole | None = _wide("Width of a key of linear attention.")
    linear_num_value_heads: Whole | None = _whole("Value heads of linear attention.", "heads")
    linear_value_head_dim: Whole | None = _wide("Width of a value of linear attention.")
    ssm_state_size: Whole | None = _wide("State of a Mamba layer.")
    mamba_d_state: Whole | None = _of("ssm_state_size", "dimensions")
    mamba_num_heads: Whole | None = _whole("Heads of a Mamba-2 layer.", "heads")
    mamba_n_heads: Whole | None = _of("mamba_num_heads", "heads")
    mamba_head_dim: Whole | None = _wide("Width of a head of a Mamba-2 layer.")
    mamba_d_head: Whole | None = _of("mamba_head_dim", "dimensions")
    n_groups: Whole | None = _whole("Groups of a Mamba-2 layer.", "groups")
    mamba_n_groups: Whole | None = _of("n_groups", "groups")
    mamba_expand: Whole | None = _whole("Width of a Mamba-1 layer over that of the model.", "ratio")
    expand: Whole | None = _of("mamba_expand", "ratio")
    mamba_dt_rank: Whole | None = _wide("Rank of the time step of a Mamba-1 layer.")
