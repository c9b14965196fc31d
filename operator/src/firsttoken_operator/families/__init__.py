"""The metric families: one file each, and this table.

To add one, write its file and give it a place here. It is then looked for in every Prometheus and read by `replay
--prometheus`; where it has a page, `firsttoken emulate` publishes it.
"""

from firsttoken_operator.families.dynamo import DYNAMO
from firsttoken_operator.families.family import Metric, MetricFamily, MetricKind, Series, token_bounds
from firsttoken_operator.families.nim1 import NIM1
from firsttoken_operator.families.overview import FAMILY, overview_query
from firsttoken_operator.families.promql import NO_BOUND
from firsttoken_operator.families.sglang import SGLANG
from firsttoken_operator.families.signals import (
    BY_BOUND,
    FAILED,
    FRESHNESS,
    OUTCOME,
    PART,
    SERVED,
    SIGNAL,
    Arrivals,
    Signal,
    TokenPart,
)
from firsttoken_operator.families.symptoms import SYMPTOM, Symptom, symptoms_query
from firsttoken_operator.families.triton import TRITON
from firsttoken_operator.families.triton_trtllm import TRITON_TRTLLM
from firsttoken_operator.families.triton_vllm import TRITON_VLLM
from firsttoken_operator.families.trtllm_serve import TRTLLM_SERVE
from firsttoken_operator.families.vllm import VLLM

__all__ = [
    "BY_BOUND",
    "EMULATED",
    "FAILED",
    "FAMILIES",
    "FAMILY",
    "FRESHNESS",
    "NIM1",
    "NO_BOUND",
    "OUTCOME",
    "PART",
    "SERVED",
    "SIGNAL",
    "SYMPTOM",
    "TRITON",
    "VLLM",
    "Arrivals",
    "Metric",
    "MetricFamily",
    "MetricKind",
    "Series",
    "Signal",
    "Symptom",
    "TokenPart",
    "family_called",
    "overview_query",
    "symptoms_query",
    "token_bounds",
]

FAMILIES: tuple[MetricFamily, ...] = (
    VLLM,
    SGLANG,
    DYNAMO,
    TRITON_TRTLLM,
    TRITON_VLLM,
    TRITON,
    TRTLLM_SERVE,
    NIM1,
)
"""Families in the order in which they are looked for: a pod that exposes two is read as the first."""

EMULATED: tuple[MetricFamily, ...] = tuple(family for family in FAMILIES if family.page)
"""Families that `firsttoken emulate` publishes."""

_BY_NAME = {family.name: family for family in FAMILIES}


def family_called(name: str) -> MetricFamily | None:
    """The family of a sample; None where it has none."""
    return _BY_NAME.get(name)
