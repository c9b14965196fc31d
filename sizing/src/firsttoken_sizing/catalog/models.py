"""Models: what a sizing must know about an architecture, and the one way from any of its names to the facts.

The facts live in `data/models.json`, each with its source and how sure it is; here they only become values. Nothing is
computed about speed or fit (see `memory` and the step model), and nothing is read from the network: a model that is not
in the file is refused with the nearest names.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from functools import cache
from types import MappingProxyType
from typing import Any

from firsttoken_sizing.catalog._names import Index, fold, read_entries
from firsttoken_sizing.catalog.precision import bytes_per_parameter
from firsttoken_sizing.errors import UnknownModel

KV_BYTES_PER_ELEMENT = 2
"""Engines keep the KV cache in 16 bits unless they are told otherwise."""

_HOSTED = ("gpt-3", "gpt-4", "gpt-5", "chatgpt", "o1", "o3", "o4-mini", "claude", "gemini")
"""Beginnings of names of models whose makers publish no weights."""


class Attention(StrEnum):
    """Storage of a model's keys and values."""

    MHA = "MHA"
    GQA = "GQA"
    MLA = "MLA"


@dataclass(frozen=True, slots=True)
class Model:
    """Architecture of one model. Sizes are elements, lengths are tokens; None where there is no such part."""

    name: str
    """Canonical name: the Hugging Face id."""
    family: str
    parameters_billion: float
    active_parameters_billion: float
    """Parameters that one token uses (fewer than all for a mixture of experts)."""
    layers: int
    attention_layers: int
    """Layers that keep keys and values at all (hybrids have few)."""
    full_attention_layers: int
    """Attention layers without a sliding window."""
    sliding_window_tokens: int | None
    hidden_size: int
    attention_heads: int
    kv_heads: int
    head_dim: int | None
    """None for MLA, whose cache does not depend on it."""
    intermediate_size: int | None
    """None where the width differs between layers or every layer is a mixture of experts."""
    gated_ffn: bool
    experts: int | None
    experts_per_token: int | None
    shared_experts: int | None
    moe_intermediate_size: int | None
    vocabulary_size: int
    tied_embeddings: bool
    max_context_tokens: int
    attention: Attention
    mla_kv_rank: int | None
    mla_rope_dim: int | None
    published_precisions: Mapping[str, str]
    """Weight formats that were published or measured -> where that is known from."""
    checkpoint_gib: Mapping[str, float]
    """Size of the checkpoint by precision where it is known and arithmetic would be wrong."""
    aliases: tuple[str, ...]
    source: str
    confidence: str
    """`high`, `medium` or `low`: how good the source is."""
    notes: str
    sparse_attention_tokens: int | None = None
    """Tokens that an indexer picks for each query (DeepSeek sparse attention); None: all. Physics counts all of them,
    the careful end, but such a model has measurements of its own."""
    prediction_layers: int = 0
    """Layers of the checkpoint that predict further tokens (multi-token prediction); `layers` does not count them."""

    @property
    def architecture(self) -> str:
        """Key of all that step times depend on: models with one key have the same weights but for their values.

        Measurements are kept by it, so that every name of an architecture has the same answer. Attention, then layers
        (of which with a cache, of which without a window), widths, heads and experts.
        """
        parts = [
            f"{self.attention.value} L{self.layers}/{self.attention_layers}/{self.full_attention_layers}",
            f"h{self.hidden_size} q{self.attention_heads} kv{self.kv_heads}x{self.head_dim or 0}",
            f"f{self.intermediate_size or 0}{'g' if self.gated_ffn else ''}",
            f"v{self.vocabulary_size}{'t' if self.tied_embeddings else ''}",
        ]
        if self.sliding_window_tokens:
            parts.append(f"w{self.sliding_window_tokens}")
        if self.attention is Attention.MLA:
            parts.append(f"mla{self.mla_kv_rank}+{self.mla_rope_dim}")
        if self.sparse_attention_tokens:
            parts.append(f"top{self.sparse_attention_tokens}")
        if self.experts:
            shared = f"+{self.shared_experts}" if self.shared_experts else ""
            parts.append(f"e{self.experts_per_token}/{self.experts}{shared}x{self.moe_intermediate_size or 0}")
        return " ".join(parts)

    @property
    def kv_bytes_per_token(self) -> int:
        """KV cache of one token over every attention layer, in bytes at 16 bits a number.

        MHA and GQA: `2 * layers * kv_heads * head_dim * 2`. MLA: `layers * (kv_rank + rope_dim) * 2`, the compressed
        vector alone (DeepSeek-V2 paper, section 2.1); its `kv_heads` are not the width of the cache.
        """
        return self.kv_bytes_per_layer * self.attention_layers

    @property
    def kv_bytes_per_token_beyond_window(self) -> int:
        """Growth of the KV cache for each token past the sliding window (only the full-attention layers grow)."""
        if self.sliding_window_tokens is None:
            return self.kv_bytes_per_token
        return self.kv_bytes_per_layer * self.full_attention_layers

    @property
    def kv_bytes_per_layer(self) -> int:
        """KV cache of one token in one attention layer, in bytes at 16 bits a number."""
        if self.attention is Attention.MLA:
            return ((self.mla_kv_rank or 0) + (self.mla_rope_dim or 0)) * KV_BYTES_PER_ELEMENT
        return 2 * self.kv_heads * (self.head_dim or 0) * KV_BYTES_PER_ELEMENT

    def kv_bytes(self, tokens: float) -> float:
        """KV cache of one sequence of this many tokens, in bytes; windowed layers stop growing at their window."""
        if self.sliding_window_tokens is None:
            return self.kv_bytes_per_token * tokens
        growing = self.kv_bytes_per_token_beyond_window
        windowed = self.kv_bytes_per_token - growing
        return growing * tokens + windowed * min(tokens, self.sliding_window_tokens)

    def weight_bytes(self, precision: str) -> float:
        """Bytes of the weights at a precision.

        The size of the checkpoint where the catalog knows it. Otherwise every parameter at the precision's width, but
        embeddings and output head at 16 bits: quantized checkpoints leave them alone (nvidia/Llama-3.1-8B-Instruct-FP8
        is 9.1 GB, not 8.0).
        """
        if (gib := self.checkpoint_gib.get(precision)) is not None:
            return gib * 2**30
        parameters = self.parameters_billion * 1e9
        embeddings = self.vocabulary_size * self.hidden_size * (1 if self.tied_embeddings else 2)
        kept = min(float(embeddings), parameters)
        return (parameters - kept) * bytes_per_parameter(precision) + kept * max(2.0, bytes_per_parameter(precision))

    def routed_expert_bytes(self, precision: str) -> float:
        """Bytes of the routed experts at a precision; 0 of a dense model.

        They hold what the parameters of one token leave over: `P - P_active = (E - k) * P_expert`.
        """
        if not self.experts or not self.experts_per_token or self.experts_per_token >= self.experts:
            return 0.0
        idle = (self.parameters_billion - self.active_parameters_billion) * 1e9
        routed = idle * self.experts / (self.experts - self.experts_per_token)
        return min(routed * bytes_per_parameter(precision), self.weight_bytes(precision))

    def holds(self, input_tokens: float, output_tokens: float) -> bool:
        """Tell whether a prompt and its answer fit into the context window together."""
        return input_tokens + output_tokens <= self.max_context_tokens


def resolve_model(name: str, *, field: str = "model.name") -> Model:
    """The model behind any of its names: Hugging Face id, NIM name, or the name a server gives it.

    Case, and the difference between `-`, `_`, `.` and spaces, do not matter. Raises `UnknownModel` (naming `field`)
    with the nearest names.
    """
    found = _index().find(name)
    if found is None and fold(name).rpartition("/")[2].startswith(_HOSTED):
        problem = f"{name!r} is a model whose weights are not published, so it cannot be deployed"
        raise UnknownModel(field, problem, "choose one that `firsttoken models` lists")
    if found is None:
        advice = _index().advice(name, "firsttoken models")
        raise UnknownModel(field, f"unknown model {name!r}", f"{advice} or give its config.json as model.architecture")
    return found


def models() -> tuple[Model, ...]:
    """Every model of the catalog."""
    return _index().entries


@cache
def _index() -> Index[Model]:
    return Index([_model(entry) for entry in read_entries("models")], implied=_implied_names)


def _model(entry: dict[str, Any]) -> Model:
    parsed = {
        "attention": Attention(entry["attention"]),
        "published_precisions": MappingProxyType(entry["published_precisions"]),
        "checkpoint_gib": MappingProxyType(entry["checkpoint_gib"]),
        "aliases": tuple(entry["aliases"]),
    }
    return Model(**entry | parsed)


def _implied_names(model: Model) -> list[str]:
    """The name without its owner: what model repositories and `--served-model-name` mostly use."""
    return [model.name.partition("/")[2]]
