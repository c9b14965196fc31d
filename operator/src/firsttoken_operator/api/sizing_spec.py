"""`spec.sizing`: how the sizing reads its measurements, and the engine that it assumes."""

from __future__ import annotations

from firsttoken_operator.api.base import ApiModel, Int, described, optional
from firsttoken_operator.api.engine_settings import EngineSettingsSpec
from firsttoken_operator.api.quantities import LongName, ShortText
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.workload import Arrivals, Batching, DraftMethod


class SpeculativeDecodingSpec(ApiModel):
    """Tokens are proposed cheaply and checked by the model in one step."""

    draft_tokens: Int = described("Tokens proposed at a time.", unit="tokens", ge=1, le=16)
    acceptance_percent: Int = described(
        "How often a proposed token is right; engines report it.", unit="percent of proposed tokens", ge=0, le=100
    )
    method: DraftMethod = described(
        "NGram: look-up in the prompt. MTP: layers of the checkpoint that predict further tokens, as DeepSeek V3 has.",
        default=DraftMethod.N_GRAM,
    )


class SizingSpec(ApiModel):
    """Settings of the sizing: how it reads its measurements."""

    arrivals: Arrivals = described(
        "Poisson: independent users, as in production. ClosedLoop: reads a benchmark curve at fixed concurrency, "
        "two to three times more conservative.",
        default=Arrivals.POISSON,
    )
    benchmarks: tuple[LongName, ...] = described(
        "Names of BenchmarkProfiles to prefer where several describe the same configuration.",
        default=(),
        absent="every one that matches",
        max_length=32,
    )
    engine: Engine | None = optional(
        "Engine whose step times and scheduler are assumed.",
        absent="that of runtime.type, else the one that the model was benchmarked on, else TensorRT-LLM",
    )
    engine_release: ShortText | None = optional(
        "Calibrated release of the engine whose step times are assumed: 2025 (also of 2026), 2024 (TensorRT-LLM), "
        "0.15 (vLLM).",
        absent="the newest that each configuration was measured with",
    )
    speculative_decoding: SpeculativeDecodingSpec | None = optional(
        "Speculative decoding as the engine is set up.", absent="one token a step"
    )
    engine_settings: EngineSettingsSpec | None = optional(
        "Settings of the engine that differ from those that it has as it is installed.", absent="none differs"
    )
    batching: tuple[Batching, ...] = described(
        "Ways of batching that the engine may be set to; the cheapest wins, ties in this order.",
        default=(),
        absent="the engine's default",
        max_length=len(Batching),
    )
