"""Values as cells of a table for people: four digits, and a dash for what is not known."""

from __future__ import annotations

from firsttoken_sizing.profile import ConfigurationKey

UNKNOWN = "-"


def number(value: float | None) -> str:
    """Four significant digits; whole, with separators, from a thousand on."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def configuration_name(key: ConfigurationKey | None) -> str:
    """`H100-SXM-80GB FP8 TP2`; pipeline stages where there are several."""
    return UNKNOWN if key is None else f"{key.gpu} {key.precision} {parallelism(key)}"


def parallelism(key: ConfigurationKey) -> str:
    """`TP2`, `TP2 PP4`."""
    stages = f" PP{key.pipeline_parallel}" if key.pipeline_parallel > 1 else ""
    return f"TP{key.tensor_parallel}{stages}"
