"""The metric families: one file each, and this table.

To add one, write its file and give it a place here. It is then looked for in every Prometheus, read by `replay
--prometheus`, and published by `firsttoken emulate`.
"""

from firsttoken_operator.families.family import Metric, MetricFamily, MetricKind, Series, token_bounds
from firsttoken_operator.families.nim1 import NIM1
from firsttoken_operator.families.signals import (
    DETECTION,
    FAILED,
    SERVED,
    SUPPLEMENTS,
    UP_QUERY,
    Signal,
    TokenPart,
)
from firsttoken_operator.families.vllm import VLLM

__all__ = [
    "DETECTION",
    "FAILED",
    "FAMILIES",
    "NIM1",
    "SERVED",
    "SUPPLEMENTS",
    "UP_QUERY",
    "VLLM",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "Series",
    "Signal",
    "TokenPart",
    "token_bounds",
]

FAMILIES: tuple[MetricFamily, ...] = (VLLM, NIM1)
"""Families in the order in which they are looked for: a pod that exposes two belongs to the first."""
