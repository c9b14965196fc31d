"""`engineSettings`: settings of an engine in place of its own, of a deployment and of what was measured."""

from __future__ import annotations

from enum import StrEnum
from typing import Any

from firsttoken_operator.api.base import ApiModel, Int, optional
from firsttoken_sizing.declared import AS_INSTALLED, DeclaredSettings
from firsttoken_sizing.engines.spec import SIXTEEN_BITS


class KvCacheType(StrEnum):
    """Number format of the KV cache."""

    FP8 = "FP8"


class EngineSettingsSpec(ApiModel):
    """Settings of the engine in place of those that it has as it is installed: sized with, and rendered."""

    max_batch_size: Int | None = optional(
        "Most sequences that run at once.", unit="sequences", absent="that of the engine's release", ge=1, le=65_536
    )
    max_batched_tokens: Int | None = optional(
        "Tokens of one step; with ChunkedPrefill also the largest chunk of a prompt.",
        unit="tokens",
        absent="that of the engine's release",
        ge=16,
        le=1_048_576,
    )
    kv_cache_type: KvCacheType | None = optional(
        "Number format of the KV cache.", absent="that of the checkpoint, or 16 bits, as the engine has it"
    )
    gpu_memory_percent: Int | None = optional(
        "Share of a GPU's memory that the engine takes, in the meaning of its own option (gpu_memory_utilization, "
        "mem_fraction_static, free_gpu_memory_fraction).",
        unit="percent",
        absent="that of the engine",
        ge=1,
        le=99,
    )


def declared_settings(spec: EngineSettingsSpec | None) -> DeclaredSettings:
    """Settings of an engine as a resource declares them."""
    if spec is None:
        return AS_INSTALLED
    return DeclaredSettings(
        max_batch=spec.max_batch_size,
        tokens_per_step=spec.max_batched_tokens,
        kv_cache_bits=None if spec.kv_cache_type is None else SIXTEEN_BITS // 2,
        memory_share=None if spec.gpu_memory_percent is None else spec.gpu_memory_percent / 100,
    )


def settings_document(settings: DeclaredSettings) -> dict[str, Any]:
    """The settings as plain YAML values; `declared_settings` is the inverse."""
    bits, share = settings.kv_cache_bits, settings.memory_share
    document = {
        "maxBatchSize": settings.max_batch,
        "maxBatchedTokens": settings.tokens_per_step,
        "kvCacheType": None if bits is None else _TYPES.get(bits, f"{bits} bits"),
        "gpuMemoryPercent": None if share is None else round(100 * share),
    }
    return {name: value for name, value in document.items() if value is not None}


_TYPES = {SIXTEEN_BITS // 2: KvCacheType.FP8.value}
