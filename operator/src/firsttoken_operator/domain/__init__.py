"""Frozen values that observe, decide and act exchange. Knows no I/O."""

from firsttoken_operator.domain.decision import Decision, Outcome, Prediction
from firsttoken_operator.domain.measurement import Idle, Measurement, Missing, Value, measured
from firsttoken_operator.domain.reasons import Reason
from firsttoken_operator.domain.snapshot import (
    FleetSnapshot,
    LateShare,
    Metrics,
    PoolSnapshot,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    ScalingPolicy,
    Sized,
    Target,
    TargetMissing,
    TtftInterval,
    Unsized,
)
from firsttoken_operator.domain.starts import UNKNOWN_TIME_TO_READY_SECONDS, lead_seconds, ready_seconds
from firsttoken_operator.domain.tick import Tick

__all__ = [
    "UNKNOWN_TIME_TO_READY_SECONDS",
    "Decision",
    "FleetSnapshot",
    "Idle",
    "LateShare",
    "Measurement",
    "Metrics",
    "Missing",
    "Outcome",
    "PoolSnapshot",
    "Prediction",
    "Reason",
    "ResourceSnapshot",
    "ScaleDown",
    "ScalingMode",
    "ScalingPolicy",
    "Sized",
    "Target",
    "TargetMissing",
    "Tick",
    "TtftInterval",
    "Unsized",
    "Value",
    "lead_seconds",
    "measured",
    "ready_seconds",
]
