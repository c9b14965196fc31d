"""Frozen values that observe, decide and act exchange. Knows no I/O."""

from firsttoken_operator.domain.decision import ConditionType, Decision, Judgement, Outcome, Prediction
from firsttoken_operator.domain.ending import ENDPOINT_REMOVAL_SECONDS, Ending
from firsttoken_operator.domain.gpu_pools import Excluded, Exclusion, PoolSnapshot, Provisioning, Server, Tenant
from firsttoken_operator.domain.measurement import (
    MAXIMUM_ERROR_SHARE,
    Health,
    Idle,
    Measurement,
    Missing,
    Shortcoming,
    Value,
    health_of,
    measured,
)
from firsttoken_operator.domain.metrics import Metrics
from firsttoken_operator.domain.pods import CostChange, Hindrances, ReplicaPod
from firsttoken_operator.domain.reasons import POOL_LIMITS, Reason
from firsttoken_operator.domain.rollout import RolloutPolicy, RolloutTerms
from firsttoken_operator.domain.snapshot import (
    Claims,
    FailedWrite,
    FleetSnapshot,
    Opening,
    Owner,
    ResourceSnapshot,
    ScaleDown,
    ScalingMode,
    ScalingPolicy,
    Sized,
    Target,
    TargetMissing,
    Unsized,
)
from firsttoken_operator.domain.target_kinds import DEPLOYMENT, TargetKind
from firsttoken_operator.domain.times import (
    UNKNOWN_TIME_TO_READY_SECONDS,
    UNKNOWN_TIME_TO_WAKE_SECONDS,
    Tick,
    Timing,
    lead_seconds,
    ready_seconds,
)
from firsttoken_operator.domain.ttft import LateShare, TtftInterval

__all__ = [
    "DEPLOYMENT",
    "ENDPOINT_REMOVAL_SECONDS",
    "MAXIMUM_ERROR_SHARE",
    "POOL_LIMITS",
    "UNKNOWN_TIME_TO_READY_SECONDS",
    "UNKNOWN_TIME_TO_WAKE_SECONDS",
    "Claims",
    "ConditionType",
    "CostChange",
    "Decision",
    "Ending",
    "Excluded",
    "Exclusion",
    "FailedWrite",
    "FleetSnapshot",
    "Health",
    "Hindrances",
    "Idle",
    "Judgement",
    "LateShare",
    "Measurement",
    "Metrics",
    "Missing",
    "Opening",
    "Outcome",
    "Owner",
    "PoolSnapshot",
    "Prediction",
    "Provisioning",
    "Reason",
    "ReplicaPod",
    "ResourceSnapshot",
    "RolloutPolicy",
    "RolloutTerms",
    "ScaleDown",
    "ScalingMode",
    "ScalingPolicy",
    "Server",
    "Shortcoming",
    "Sized",
    "Target",
    "TargetKind",
    "TargetMissing",
    "Tenant",
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
