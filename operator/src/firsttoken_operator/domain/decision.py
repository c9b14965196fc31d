"""Decisions of a tick, everything needed to explain them, and what is judged before it is written as a condition."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from firsttoken_operator.domain.reasons import Reason
from firsttoken_sizing.performance.table import Operating


class Outcome(StrEnum):
    """Kind of a decision (label of `firsttoken_decisions_total`)."""

    UP = "up"
    DOWN = "down"
    STEADY = "steady"
    """Valid data asked for no change, or for less than may be given back yet."""
    HELD = "held"
    """Nothing was changed because something is unknown or forbids it."""


@dataclass(frozen=True, slots=True)
class Prediction:
    """The sizing model at N-1, N and N+1 replicas under the live load; None where there is no such size."""

    n_minus_1: Operating | None
    n: Operating | None
    n_plus_1: Operating | None


@dataclass(frozen=True, slots=True)
class Decision:
    """One resource at one tick: from how many replicas to how many, and why.

    `recommended` is what the data asked for before limits and damping. `limited_by` names what kept `to_replicas` away
    from it. `limit` is the upper bound in force. `unmet_replicas` is what a cap withheld.
    """

    uid: str
    namespace: str
    name: str
    outcome: Outcome
    from_replicas: int
    to_replicas: int
    reason: Reason
    message: str
    gpus_per_replica: int
    capacity_factor: float
    metrics_health: Reason
    recommended: int | None = None
    limited_by: Reason | None = None
    limit: int | None = None
    unmet_replicas: int = 0
    arrival_requests_per_second: float | None = None
    prediction: Prediction | None = None
    forecast_requests_per_second: float | None = None
    """Largest rate expected before a new pod would be ready; None: there is no forecast."""
    forecast_method: str = ""
    """Way in which it was made, in one word of CamelCase; empty: there is no forecast."""
    input_tokens: float | None = None
    """Measured mean prompt, tokens; None: not measured."""
    output_tokens: float | None = None
    """Measured mean output, tokens; None: not measured."""
    replica_speed: float = 1.0
    """The part of `capacity_factor` that is the replicas' speed as a multiple of the modeled one."""
    late_budgets_spent: float | None = None
    """Late requests of about the last day as a multiple of those aimed at; None: there is no limit to be late for."""
    capacity_samples: int | None = None
    """Number of measurements that `capacity_factor` stands on; None: not known."""
    metrics_lost_seconds: float | None = None
    """Time without usable metrics; None: there are some, or nothing is there to be measured."""
    sleeps: bool = False
    """True where there are no replicas because `minReplicas: 0` allowed that, also where it has been raised since."""
    raising_requests_per_second: float | None = None
    """Arrivals from which on there would be more replicas; None: not whatever arrives, or it is not known."""
    shortage: str = ""
    """Words of its pool about GPUs that it withholds; empty: nothing beside the reason."""
    announcement: str = ""
    """The change in one sentence, for Events and the list in the status; empty: nothing changes."""
    from_standby: int = 0
    """Pods on standby now, beside `from_replicas`."""
    to_standby: int = 0
    """Pods on standby that there are to be, beside `to_replicas`."""

    @property
    def changes(self) -> bool:
        """True where other replicas are to answer than now."""
        return self.to_replicas != self.from_replicas

    @property
    def from_pods(self) -> int:
        """Replicas that the target has (`spec.replicas`), those on standby included."""
        return self.from_replicas + self.from_standby

    @property
    def to_pods(self) -> int:
        """Replicas that the target is to have, those on standby included."""
        return self.to_replicas + self.to_standby

    @property
    def resizes(self) -> bool:
        """True where replicas would be written (if the mode allows it): waking a pod alone is none."""
        return self.to_pods != self.from_pods


class ConditionType(StrEnum):
    """The conditions of an InferenceDeployment, and those of a GPUPool."""

    READY = "Ready"
    SIZING_READY = "SizingReady"
    SLA_FEASIBLE = "SLAFeasible"
    METRICS_HEALTHY = "MetricsHealthy"
    SLA_MET = "SLAMet"
    CAPACITY_AVAILABLE = "CapacityAvailable"
    SCALING_ACTIVE = "ScalingActive"
    SCALING_LIMITED = "ScalingLimited"
    CALIBRATED = "Calibrated"
    ROLLOUT_PENDING = "RolloutPending"
    SETTINGS_MATCH = "SettingsMatch"
    OVERLAPPING = "Overlapping"
    """Condition of a GPUPool alone, which has CapacityAvailable too."""


@dataclass(frozen=True, slots=True)
class Judgement:
    """One condition: whether it holds (None: unknown), and why."""

    kind: ConditionType
    holds: bool | None
    reason: Reason
    message: str
