"""Cells that reports share: values in a table (four digits, a dash for what is not known), and the latencies."""

from __future__ import annotations

from firsttoken_sizing.band import Band
from firsttoken_sizing.profile import ConfigurationKey
from firsttoken_sizing.request import Basis, Sizing
from firsttoken_sizing.workload import Limit, Percentile, Sla

UNKNOWN = "-"
VERDICTS = {True: "yes", False: "no", None: UNKNOWN}
LATENCIES = (
    ("TTFT", "ttft", "time_to_first_token"),
    ("ITL", "itl", "inter_token_latency"),
    ("E2E", "end_to_end", "end_to_end"),
)
"""Names of each latency, its field in a point or a sizing, and that of its limit in an SLA."""


def limited(sla: Sla) -> tuple[tuple[str, str, Limit | None], ...]:
    """Each latency: what it is called, its field, and its limit."""
    return tuple((metric, field, getattr(sla, limit)) for metric, field, limit in LATENCIES)


def word(statistic: Percentile) -> str:
    """The statistic in a heading: `mean`, `P95`."""
    return "mean" if statistic is Percentile.MEAN else statistic.value


def number(value: float | None) -> str:
    """Four significant digits; whole, with separators, from a thousand on."""
    if value is None:
        return UNKNOWN
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.4g}"


def certainty(basis: Basis | None, band: Band | None) -> str:
    """`Fitted (-12 to +20 %)`; of a measured point how well that benchmark repeats, which is not its accuracy."""
    if basis is None or band is None:
        return UNKNOWN
    if basis is Basis.MEASURED:
        return f"{basis.value}, repeats ±{band.percent:.1g} %"
    return f"{basis.value} ({band.text})"


def replicas_range(sizing: Sizing) -> str:
    """`39 (37 to 43)`: as sized, and at both ends of the band; one number where they agree."""
    if sizing.replicas_low == sizing.replicas_high:
        return str(sizing.replicas)
    return f"{sizing.replicas} ({sizing.replicas_low} to {sizing.replicas_high})"


def configuration_name(key: ConfigurationKey | None) -> str:
    """`H100-SXM-80GB FP8 TP2`; pipeline stages where there are several."""
    return UNKNOWN if key is None else f"{key.gpu} {key.precision} {parallelism(key)}"


def parallelism(key: ConfigurationKey) -> str:
    """`TP2`, `TP2 PP4`, `TP8 DP8`: pipeline stages and groups of attention where there are several."""
    stages = f" PP{key.pipeline_parallel}" if key.pipeline_parallel > 1 else ""
    groups = f" DP{key.attention_data_parallel}" if key.attention_data_parallel > 1 else ""
    return f"TP{key.tensor_parallel}{groups}{stages}"
