"""A model outside the catalog: from the numbers of its Hugging Face `config.json` to a catalog `Model`.

Nothing is fetched and nothing is guessed: a number that is missing is an error that names it. What a config.json leaves
to the code of its family (tied embeddings, patterns of windows, networks without a gate) is known for the families of
the catalog and those around them. An architecture whose KV cache follows other rules (encoder-decoder, compressed
caches) is refused, because a size that is wrong by a multiple looks like a right one.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from firsttoken_sizing.catalog._config import Config, language_part
from firsttoken_sizing.catalog._layers import EXPERTS, Ffn, Layers, Mixer, layers_of
from firsttoken_sizing.catalog._parameters import Dimensions, ParameterCount, count_parameters, is_gated, kv_shapes
from firsttoken_sizing.catalog._quantization import published_precision, quantizes_experts_only
from firsttoken_sizing.catalog.models import Attention, Model
from firsttoken_sizing.catalog.precision import bytes_per_parameter

SOURCE = "config.json"
_TIED_BY_DEFAULT = ("gpt2", "gpt_bigcode", "bloom", "falcon", "mpt", "opt", "gemma", "cohere")
"""Families whose output head is the embedding unless config.json says otherwise."""
_FOUR_TIMES_HIDDEN = ("gpt2", "gpt_bigcode", "gptj", "bloom", "falcon", "mpt")
"""Families whose feed-forward width is that unless config.json says otherwise."""
_OTHER_CACHES = {
    "compress_ratios": "compresses its KV cache layer by layer",
    "is_encoder_decoder": "is an encoder-decoder",
}


def model_from_config(name: str, config: Mapping[str, object]) -> Model:
    """The catalog entry of a model, from its config.json (all of it, or the fields that describe the architecture).

    `name` is what the user calls it. Raises `InvalidInput` naming `model.architecture.<field>` for what is missing, no
    number, contradictory, or of a kind that is not known.
    """
    text = language_part(config)
    for field, trait in _OTHER_CACHES.items():
        if text.values.get(field):
            raise text.invalid(field, f"the model {trait}, which is not supported", "measure it and size from profiles")
    layers = layers_of(text)
    if not layers.count(Mixer.FULL) + layers.count(Mixer.WINDOWED):
        raise text.invalid("num_hidden_layers", "no layer has attention", "only models with a KV cache can be sized")
    of = _dimensions(text, layers)
    parameters = count_parameters(text, layers, of)
    kv_heads, head_dim = _largest_kv_shape(text, layers, of)
    precision = published_precision(text)
    latent = text.has("kv_lora_rank")
    return Model(
        name=name,
        family=text.model_type or "unknown",
        parameters_billion=parameters.total / 1e9,
        active_parameters_billion=parameters.active / 1e9,
        layers=len(layers.mixers),
        attention_layers=layers.count(Mixer.FULL) + layers.count(Mixer.WINDOWED),
        full_attention_layers=layers.count(Mixer.FULL),
        sliding_window_tokens=layers.window_tokens,
        hidden_size=of.hidden,
        attention_heads=of.heads,
        kv_heads=kv_heads,
        head_dim=None if latent else head_dim,
        intermediate_size=of.intermediate,
        gated_ffn=of.gated,
        experts=of.experts,
        experts_per_token=of.experts_per_token,
        shared_experts=of.shared_experts,
        moe_intermediate_size=of.expert_width,
        vocabulary_size=of.vocabulary,
        tied_embeddings=of.tied,
        max_context_tokens=text.whole(
            "max_position_embeddings", "n_positions", "max_sequence_length", "seq_length", "max_seq_len"
        ),
        attention=Attention.MLA if latent else Attention.MHA if kv_heads == of.heads else Attention.GQA,
        mla_kv_rank=text.whole("kv_lora_rank") if latent else None,
        mla_rope_dim=text.whole("qk_rope_head_dim") if latent else None,
        published_precisions=MappingProxyType({precision: SOURCE}),
        checkpoint_gib=MappingProxyType(_checkpoint(text, parameters, precision)),
        aliases=(),
        source=SOURCE,
        confidence="medium",
        notes=_notes(text),
        sparse_attention_tokens=text.optional("index_topk") or None,
        prediction_layers=text.optional("num_nextn_predict_layers") or 0,
    )


def _dimensions(config: Config, layers: Layers) -> Dimensions:
    hidden = config.whole("hidden_size", "n_embd", "d_model")
    heads = config.whole("num_attention_heads", "n_head", "n_heads")
    own_kv_shape = (_kv_heads(config, heads), _head_dim(config, hidden, heads))
    experts = config.optional(*EXPERTS) or None
    per_token = None
    if experts:
        per_token = config.whole("num_experts_per_tok", "experts_per_token", "num_experts_per_token", "top_k_experts")
        if per_token > experts:
            raise config.invalid("num_experts_per_tok", f"{per_token} of {experts} experts", "use the config.json's")
    width = config.optional("moe_intermediate_size")
    if experts and not width:
        width = config.whole("intermediate_size")
    shared, shared_width = _shared_experts(config, width) if experts else (None, 0)
    tied = config.values.get("tie_word_embeddings")
    return Dimensions(
        hidden=hidden,
        heads=heads,
        own_kv_shape=own_kv_shape,
        intermediate=_intermediate(config, hidden) if Ffn.DENSE in layers.ffns else None,
        gated=is_gated(config),
        experts=experts,
        experts_per_token=per_token,
        shared_experts=shared,
        expert_width=width if experts else None,
        shared_width=shared_width,
        vocabulary=config.whole("vocab_size", "padded_vocab_size"),
        tied=tied if isinstance(tied, bool) else config.model_type.startswith(_TIED_BY_DEFAULT),
    )


def _kv_heads(config: Config, heads: int) -> int:
    """Heads that are cached; as many as there are of queries where config.json does not say (multi-head attention)."""
    if config.has("block_configs"):
        attentions = [block.get("attention") for block in config.items("block_configs", dict) or ()]
        groups = [a.get("n_heads_in_group") for a in attentions if isinstance(a, Mapping) and not a.get("no_op")]
        sizes = [group for group in groups if isinstance(group, int) and group > 0]
        if not sizes:
            raise config.invalid("block_configs", "has no n_heads_in_group", "copy it as it is")
        return heads // min(sizes)
    if config.values.get("multi_query") is True and not config.values.get("new_decoder_architecture"):
        return 1
    kv_heads = config.optional("num_key_value_heads", "num_kv_heads", "n_head_kv") or heads
    if kv_heads > heads or heads % kv_heads:
        raise config.invalid(
            "num_key_value_heads", f"{kv_heads} KV heads do not divide {heads} attention heads", "copy both numbers"
        )
    return kv_heads


def _head_dim(config: Config, hidden: int, heads: int) -> int:
    found = config.optional("head_dim", "attention_head_dim", "kv_channels")
    if not found and hidden % heads and not config.has("kv_lora_rank"):
        raise config.invalid(
            "head_dim", f"is missing, and {heads} heads do not divide hidden_size {hidden}", "copy it from config.json"
        )
    return found or hidden // heads


def _largest_kv_shape(config: Config, layers: Layers, of: Dimensions) -> tuple[int, int]:
    """KV heads and their dimension; where full and windowed layers differ, those that take more (`_notes`)."""
    shapes = kv_shapes(config, of.own_kv_shape)
    return max((shape for kind, shape in shapes.items() if layers.count(kind)), key=lambda shape: shape[0] * shape[1])


def _intermediate(config: Config, hidden: int) -> int | None:
    if config.has("block_configs"):
        return None
    found = config.optional(
        "intermediate_size_mlp", "dense_intermediate_size", "intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim"
    )
    if not found and config.model_type in _FOUR_TIMES_HIDDEN:
        return 4 * hidden
    return found or config.whole("intermediate_size", "n_inner", "ffn_hidden_size", "ffn_dim")


def _shared_experts(config: Config, expert_width: int | None) -> tuple[int | None, int]:
    """Shared experts of a layer, and how wide they are together."""
    count = config.optional("n_shared_experts", "num_shared_experts", "moe_num_shared_experts")
    together = config.optional("shared_expert_intermediate_size", "shared_intermediate_size", "share_expert_dim")
    each = config.optional("moe_shared_expert_intermediate_size") or expert_width or 0
    if config.values.get("enable_moe_block"):  # Gemma 4: a dense network beside the experts of every layer
        count, together = 1, config.whole("intermediate_size")
    if config.model_type.startswith("llama4"):
        count = 1
    if together:
        return count or 1, together
    return count or None, (count or 0) * each


def _checkpoint(config: Config, parameters: ParameterCount, precision: str) -> dict[str, float]:
    """Size of a checkpoint of which only the experts are quantized; `Model.weight_bytes` computes the others."""
    if not (parameters.routed_experts and quantizes_experts_only(config)):
        return {}
    rest = 2 * (parameters.total - parameters.routed_experts)
    return {precision: (parameters.routed_experts * bytes_per_parameter(precision) + rest) / 2**30}


def _notes(config: Config) -> str:
    """Limitations of the entry."""
    own = ("num_global_key_value_heads", "global_head_dim", "swa_num_key_value_heads", "swa_head_dim")
    return "Full and windowed layers have different KV heads; the larger count for both." if config.has(*own) else ""
