"""Precisions of weights: their names and what one parameter costs in memory."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from firsttoken_sizing.catalog._names import fold
from firsttoken_sizing.errors import InvalidInput

BYTES_PER_PARAMETER: Mapping[str, float] = MappingProxyType(
    {
        "FP16": 2.0,
        "BF16": 2.0,
        "FP8": 1.0,
        "INT8": 1.0,
        # 4 bits and their scales: one 16-bit scale for 128 weights (AWQ and GPTQ with group size 128) ...
        "INT4": 0.5 + 2 / 128,
        # ... and one 8-bit scale for 16 (NVFP4) or 32 (OCP MX specification 1.0) weights.
        "NVFP4": 0.5 + 1 / 16,
        "MXFP4": 0.5 + 1 / 32,
    }
)
"""Bytes of one quantized parameter with its share of the scales."""

_ALIASES = {
    "float16": "FP16",
    "half": "FP16",
    "bfloat16": "BF16",
    "fp8-block": "FP8",
    "fp8-e4m3": "FP8",
    "w8a8": "INT8",
    "int4-wo": "INT4",
    "int4-awq": "INT4",
    "w4a16": "INT4",
    "fp4": "NVFP4",
}


def resolve_precision(name: str, *, field: str = "model.precision") -> str:
    """Canonical name of a precision (`fp8` -> `FP8`). Raises `InvalidInput` with the known names."""
    folded = fold(name)
    canonical = _ALIASES.get(folded, folded.upper())
    if canonical not in BYTES_PER_PARAMETER:
        raise InvalidInput(field, f"unknown precision {name!r}", f"use one of {', '.join(BYTES_PER_PARAMETER)}")
    return canonical


def bytes_per_parameter(precision: str) -> float:
    """Bytes of one quantized parameter. Raises `InvalidInput` for a name that is not canonical."""
    return BYTES_PER_PARAMETER[resolve_precision(precision)]
