"""Memory of the decision between ticks: explicit and frozen.

Nothing here is needed after a restart: an empty memory forbids every scale-down until a full stabilization window of
this process's own fresh samples has passed. What is restored from status and history only makes us more careful.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from firsttoken_operator.estimate.calibration import Calibration
from firsttoken_operator.estimate.config import MemoryConfig
from firsttoken_operator.estimate.demand import DemandState, LoadSample
from firsttoken_operator.estimate.forecast import ForecastState


@dataclass(frozen=True, slots=True)
class Decrease:
    """GPUs that were seen to be given back, and not by another writer as far as that is known."""

    at_seconds: float
    gpus: int


@dataclass(frozen=True, slots=True)
class ResourceMemory:
    """Memory of one resource, on the logical clock. Starts empty with every new target, process or leader."""

    target_uid: str
    sized_key: str
    replicas: int
    changed_seconds: float | None = None
    """Time when `replicas` was last seen to change."""
    ready: int | None = None
    ready_changed_seconds: float | None = None
    """Time when the number of ready pods was last seen to change."""
    rollout_still_since_seconds: float | None = None
    """Time since when a rollout has made no pod ready; None: there is no rollout."""
    healthy_since_seconds: float | None = None
    """Start of the unbroken run of trustworthy samples; None: the last one was not."""
    lost_since_seconds: float | None = None
    """Start of the metrics loss that has not ended; None: there is none."""
    violating_since_seconds: float | None = None
    """Start of the unbroken run of ticks with a miss rate above the set-point; None: the last one was not."""
    queued_seconds: float | None = None
    """Time when requests were last seen waiting."""
    loads: tuple[LoadSample, ...] = ()
    """Target loads of the stabilization window."""
    asked: tuple[LoadSample, ...] = ()
    """Those of the last two rate windows."""
    decreases: tuple[Decrease, ...] = ()
    demand: DemandState = field(default_factory=DemandState)
    calibration: Calibration = field(default_factory=Calibration)
    forecast: ForecastState | None = None
    miss_rate: float | None = None
    """First tokens that were late, 0..1, smoothed over the stabilization window; None: none were counted yet."""
    sleeps: bool = False
    """True where the target is at 0 replicas because `minReplicas: 0` allowed that, also if it no longer does."""
    advised_replicas: int | None = None
    """The last size that rested on data: what a scaler on our advice must go on reading when data is lost."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the fleet. `clock_seconds` is the logical clock: it never runs backwards and never jumps ahead."""

    clock_seconds: float = 0.0
    last_now_seconds: float | None = None
    resources: Mapping[str, ResourceMemory] = field(default_factory=lambda: MappingProxyType({}))

    def seeded(self, resources: Mapping[str, ResourceMemory]) -> Memory:
        """The same with other memories of these resources, by uid."""
        return replace(self, resources=MappingProxyType({**self.resources, **resources})) if resources else self

    def advance(self, now_seconds: float, tick_seconds: float, config: MemoryConfig) -> float:
        """The logical clock at `now_seconds`: a clock that jumps never brings a scale-down earlier."""
        if self.last_now_seconds is None:
            return self.clock_seconds
        elapsed = now_seconds - self.last_now_seconds
        return self.clock_seconds + min(max(elapsed, 0.0), config.most_ticks_per_step * tick_seconds)
