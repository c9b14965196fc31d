"""`spec.sizing`: how the sizing reads its measurements, and the engine that it assumes."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from firsttoken_operator.api.base import ApiModel, Int, described
from firsttoken_operator.api.quantities import LongName
from firsttoken_sizing.engines import Engine
from firsttoken_sizing.workload import Arrivals, Batching


class SpeculativeDecodingSpec(ApiModel):
    """Tokens are proposed cheaply (a draft head, n-grams) and checked by the model in one step."""

    draft_tokens: Annotated[Int, Field(ge=1, le=16), described("Tokens proposed at a time.", unit="tokens")]
    acceptance_percent: Annotated[
        Int,
        Field(ge=0, le=100),
        described("How often a proposed token is right; engines report it.", unit="percent of proposed tokens"),
    ]


class SizingSpec(ApiModel):
    """How the sizing reads its measurements."""

    arrivals: Annotated[
        Arrivals,
        described(
            "Poisson: independent users, as in production. ClosedLoop: reads a benchmark curve at fixed concurrency, "
            "two to three times more conservative."
        ),
    ] = Arrivals.POISSON
    benchmarks: Annotated[
        tuple[LongName, ...],
        Field(max_length=32),
        described(
            "Names of BenchmarkProfiles to prefer where several describe the same configuration.",
            absent="every one that matches",
        ),
    ] = ()
    engine: Annotated[
        Engine | None,
        described(
            "Engine whose step times and scheduler are assumed.",
            absent="that of runtime.type, else the one that the model was benchmarked on, else TensorRT-LLM",
        ),
    ] = None
    speculative_decoding: Annotated[
        SpeculativeDecodingSpec | None,
        described("Speculative decoding as the engine is set up.", absent="one token a step"),
    ] = None
    batching: Annotated[
        tuple[Batching, ...],
        Field(max_length=len(Batching)),
        described(
            "Ways of batching that the engine may be set to; the cheapest wins, ties in this order.",
            absent="the engine's default",
        ),
    ] = ()
