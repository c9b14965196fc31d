"""Kinds of the layers of an architecture: attention with or without a window, linear, or none; dense or experts.

Families say it in a dozen ways (a list, a pattern, a period, an index); here each becomes one entry for every layer.
Unknown kinds of layers are refused: a guess would give a KV cache that is wrong by a multiple.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from firsttoken_sizing.catalog._config import Config

Block = Mapping[str, object]
"""Settings of one layer that an architecture search chose."""


class Mixer(StrEnum):
    """Kind of mixing between the tokens of a layer."""

    FULL = "full attention"
    WINDOWED = "attention with a window"
    LINEAR = "linear attention or a state-space model"
    NONE = "nothing"


class Ffn(StrEnum):
    """Kind of computation of a layer for each token."""

    DENSE = "dense"
    EXPERTS = "experts"
    NONE = "nothing"


@dataclass(frozen=True, slots=True)
class Layers:
    """Every layer of a model, in order."""

    mixers: tuple[Mixer, ...]
    ffns: tuple[Ffn, ...]
    window_tokens: int | None

    def count(self, kind: Mixer | Ffn) -> int:
        """Layers of one kind."""
        return sum(1 for found in (*self.mixers, *self.ffns) if found is kind)


_NAMED = {
    "full_attention": Mixer.FULL,
    "attention": Mixer.FULL,
    "hybrid": Mixer.FULL,
    "full": Mixer.FULL,
    "sliding_attention": Mixer.WINDOWED,
    "chunked_attention": Mixer.WINDOWED,
    "deepseek_sparse_attention": Mixer.FULL,  # reads a part of the cache, and keeps all of it
    "linear_attention": Mixer.LINEAR,
    "mamba": Mixer.LINEAR,
    "mamba2": Mixer.LINEAR,
}
_SINGLE = {
    "*": (Mixer.FULL, Ffn.NONE),
    "M": (Mixer.LINEAR, Ffn.NONE),
    "-": (Mixer.NONE, Ffn.DENSE),
    "E": (Mixer.NONE, Ffn.EXPERTS),
    "attention": (Mixer.FULL, Ffn.NONE),
    "mamba": (Mixer.LINEAR, Ffn.NONE),
    "mlp": (Mixer.NONE, Ffn.DENSE),
    "moe": (Mixer.NONE, Ffn.EXPERTS),
}
"""Layers of Nemotron-H, each of which does one thing: attention, Mamba-2, a dense or an expert network. A pattern of
letters, or a list of words in newer files."""
_WINDOW_PERIODS = {"gemma2": 2, "gemma3": 6, "gemma3_text": 6, "cohere2": 4, "gpt_oss": 2}
"""One layer of so many sees everything, where the config.json leaves the pattern to the code of its family."""
_MOST_LAYERS = 1000
EXPERTS = ("num_local_experts", "n_routed_experts", "num_experts", "moe_num_experts")


def layers_of(config: Config) -> Layers:
    """Every layer of the language model. Raises `InvalidInput` for kinds that are not known."""
    single = config.values.get("hybrid_override_pattern")
    if isinstance(single, str):
        return _single(config, "hybrid_override_pattern", list(single))
    if config.model_type == "nemotron_h":
        words = config.items("layers_block_type", str)
        if words is not None:
            return _single(config, "layers_block_type", words)
    count = config.whole("num_hidden_layers", "n_layer", "num_layers", "n_layers")
    if count > _MOST_LAYERS:
        raise config.invalid("num_hidden_layers", f"{count} is more than {_MOST_LAYERS}", "use the config.json's")
    window = _window(config)
    blocks = config.items("block_configs", dict, count)
    mixers = _searched(config, blocks) if blocks is not None else _mixers(config, count, window)
    return Layers(mixers, _ffns(config, count, blocks), window if Mixer.WINDOWED in mixers else None)


def _single(config: Config, field: str, kinds: Sequence[str]) -> Layers:
    """Layers that are a mixer or a network, not both."""
    unknown = sorted(set(kinds) - set(_SINGLE))
    if unknown or not kinds:
        raise config.invalid(field, f"has layers of unknown kind {unknown}", f"known: {', '.join(_SINGLE)}")
    mixers, ffns = zip(*(_SINGLE[kind] for kind in kinds), strict=True)
    return Layers(mixers, ffns, None)


def _window(config: Config) -> int | None:
    """Tokens that a windowed layer sees; None where the window is off or as long as the context."""
    if config.values.get("use_sliding_window") is False:
        return None
    window = config.optional("sliding_window", "attention_chunk_size", "sliding_window_size")
    context = config.optional("max_position_embeddings")
    return window if window and not (context is not None and window >= context) else None


def _mixers(config: Config, count: int, window: int | None) -> tuple[Mixer, ...]:
    """Mixing of each layer, by whichever field says so."""
    windowed = Mixer.WINDOWED if window else Mixer.FULL
    for name in ("layer_types", "layers_block_type"):
        named = config.items(name, str, count)
        if named is not None:
            return tuple(_named(config, name, kind, windowed) for kind in named[:count])
    flags = config.items("hybrid_layer_pattern", int, count)  # MiMo: 1 has a window
    if flags is not None:
        return tuple(windowed if flag else Mixer.FULL for flag in flags[:count])
    attending = _attending(config, count)
    if attending is not None:
        return tuple(Mixer.FULL if i in attending else Mixer.LINEAR for i in range(count))
    if not window:
        return (Mixer.FULL,) * count
    first_windowed = config.optional("max_window_layers") if config.values.get("use_sliding_window") else None
    if first_windowed is not None:
        return tuple(windowed if i >= first_windowed else Mixer.FULL for i in range(count))
    positions = config.items("no_rope_layers", int, count)  # Llama 4: 0 sees everything, 1 its chunk
    if positions is not None:
        return tuple(windowed if flag else Mixer.FULL for flag in positions[:count])
    period = config.optional("sliding_window_pattern") or _WINDOW_PERIODS.get(config.model_type)
    if config.model_type.startswith("llama4"):
        period = config.optional("no_rope_layer_interval") or 4
    return tuple(Mixer.FULL if period and (i + 1) % period == 0 else windowed for i in range(count))


def _named(config: Config, field: str, kind: str, windowed: Mixer) -> Mixer:
    found = _NAMED.get(kind)
    if found is None:
        raise config.invalid(field, f"has a layer of unknown kind {kind!r}", f"known: {', '.join(_NAMED)}")
    return windowed if found is Mixer.WINDOWED else found


def _attending(config: Config, count: int) -> set[int] | None:
    """Indexes of the attention layers of a hybrid; None for a model in which every layer attends."""
    indexes = config.items("attn_layer_indices", int)
    if indexes is not None:
        return set(indexes)
    listed = config.part("linear_attn_config").get("full_attn_layers")
    if isinstance(listed, list | tuple):
        return {index - 1 for index in listed if isinstance(index, int)}  # Kimi counts layers from 1
    if config.has("attn_layer_period"):  # Jamba
        offset = config.optional("attn_layer_offset") or 0
        return set(range(offset, count, config.whole("attn_layer_period")))
    if config.has("full_attention_interval"):  # Qwen3-Next
        interval = config.whole("full_attention_interval")
        return set(range(interval - 1, count, interval))
    return None


def _searched(config: Config, blocks: Iterable[Block]) -> tuple[Mixer, ...]:
    """Layers that an architecture search chose one by one (Nemotron Super): some lost their attention."""
    kinds = []
    for block in blocks:
        attention = block.get("attention")
        if not isinstance(attention, Mapping):
            raise config.invalid("block_configs", "has a block without attention settings", "copy it as it is")
        kinds.append(Mixer.NONE if attention.get("no_op") or attention.get("replace_with_linear") else Mixer.FULL)
    return tuple(kinds)


def _ffns(config: Config, count: int, blocks: Iterable[Block] | None) -> tuple[Ffn, ...]:
    """Layers that have experts, by whichever field says so."""
    if blocks is not None:
        networks = [block.get("ffn") for block in blocks]
        return tuple(Ffn.NONE if isinstance(ffn, Mapping) and ffn.get("no_op") else Ffn.DENSE for ffn in networks)
    if not config.optional(*EXPERTS):
        return (Ffn.DENSE,) * count
    dense = {i for i in range(count) if i < (config.optional("first_k_dense_replace") or 0)}
    dense |= set(config.items("mlp_only_layers", int) or ())
    listed = config.values.get("moe_layer_freq")
    if isinstance(listed, list | tuple):
        dense |= {i for i, flag in enumerate(listed) if not flag}
    elif listed is not None:
        dense |= {i for i in range(count) if i % config.whole("moe_layer_freq")}
    # One layer of so many has experts: Llama 4, Qwen (counted from 1), Jamba (with an offset).
    period = config.optional("interleave_moe_layer_step", "decoder_sparse_step")
    if period:
        dense |= {i for i in range(count) if (i + 1) % period}
    if config.has("expert_layer_period"):
        offset = config.optional("expert_layer_offset") or 0
        dense |= {i for i in range(count) if i % config.whole("expert_layer_period") != offset}
    return tuple(Ffn.DENSE if i in dense else Ffn.EXPERTS for i in range(count))
