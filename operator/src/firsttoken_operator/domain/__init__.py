"""Frozen values that observe, decide and act exchange. Knows no I/O."""

from firsttoken_operator.domain.conditions import ConditionType, Judgement
from firsttoken_operator.domain.decision import Decision, Outcome, Prediction
from firsttoken_operator.domain.health import MAXIMUM_ERROR_SHARE, Health, health_of
from firsttoken_operator.domain.measurement import Idle, Measurement, Missing, Value, measured
from firsttoken_operator.domain.reasons import POOL_LIMITS, Reason
from firsttoken_operator.domain.snapshot import (
    Claims,
    FleetSnapshot,
    LateShare,
    Metrics,
    Owner,
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
from firsttoken_operator.domain.times import UNKNOWN_TIME_TO_READY_SECONDS, Tick, Timing, lead_seconds, ready_seconds

__all__ = [
    "MAXIMUM_ERROR_SHARE",
    "POOL_LIMITS",
    "UNKNOWN_TIME_TO_READY_SECONDS",
    "Claims",
    "ConditionType",
    "Decision",
    "FleetSnapshot",
    "Health",
    "Idle",
    "Judgement",
    "LateShare",
    "Measurement",
    "Metrics",
    "Missing",
    "Outcome",
    "Owner",
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
    "Timing",
    "TtftInterval",
    "Unsized",
    "Value",
    "health_of",
    "lead_seconds",
    "measured",
    "ready_seconds",
]
