"""What is judged of a resource or a pool, before it is written as a condition of the Kubernetes API."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from firsttoken_operator.domain.reasons import Reason


class ConditionType(StrEnum):
    """The conditions of an InferenceDeployment."""

    READY = "Ready"
    SIZING_READY = "SizingReady"
    SLA_FEASIBLE = "SLAFeasible"
    METRICS_HEALTHY = "MetricsHealthy"
    SLA_MET = "SLAMet"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    SCALING_ACTIVE = "ScalingActive"
    SCALING_LIMITED = "ScalingLimited"
    CALIBRATED = "Calibrated"


@dataclass(frozen=True, slots=True)
class Judgement:
    """One condition: whether it holds (None: unknown), and why."""

    kind: ConditionType
    holds: bool | None
    reason: Reason
    message: str
