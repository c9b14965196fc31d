"""What the decision remembers between ticks: explicit and frozen.

Nothing here is needed after a restart: an empty memory forbids every scale-down until a full stabilization window of
this process's own fresh samples has passed. What is restored from status and history only makes us more careful.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType

from firsttoken_operator.estimate.forecast import ForecastState

MAX_TICKS_PER_STEP = 2.0
"""One tick advances the logical clock by at most this many intervals, whatever the machine's clock did."""

MINIMUM_FACTOR, MAXIMUM_FACTOR = 0.5, 2.0
"""Bounds of the learned capacity as a share of the sized one; at either it is `Pegged`."""
DOUBTED_TICKS = 20.0
"""The modeled speed is believed as much as so many measurements."""
IDLE_FILL = 0.5
"""Load as a share of the sized capacity up to which there is no queue."""
MODEL_ERROR = 0.1
"""Of the modeled speed (logarithm): live requests are not all of one length, as the model takes them to be."""
TAIL_REQUESTS = 50
"""A tail of fewer requests is noise."""


@dataclass(frozen=True, slots=True)
class DemandSample:
    """What one tick asked for: the load with its noise removed, the backlog with it, in declared requests a second."""

    at_seconds: float
    requests_per_second: float


@dataclass(frozen=True, slots=True)
class Calibration:
    """What live traffic taught: how fast replicas are (`service`), and how long their tail of TTFT is (`capacity`)."""

    tail_factor: float = 1.0
    """On the capacity of a replica, beside its speed: what the share of late first tokens taught."""
    tightened: float = 1.0
    """On top of it for now, at most 1: what jumps and bad hours take, and quiet ones give back."""
    hours: float = 0.0
    """Of replicas near their capacity that it stands on."""
    log_speed: float = 0.0
    """Natural logarithm of the speed as a multiple of the modeled one, averaged."""
    speed_ticks: float = 0.0
    """Ticks that it stands on."""
    floor_share: float = 0.0
    """First tokens that are late on nearly idle replicas, 0..1: what no replica helps."""
    floor_requests: float = 0.0
    """Requests that this share stands on."""
    late_requests: float = 0.0
    """Late first tokens of about the last day, less what idle replicas show. What long prompts foretell is not excused
    here: a share of all requests is promised."""
    judged_requests: float = 0.0
    """All first tokens of that time."""

    @property
    def speed(self) -> float:
        """Speed of a replica as a multiple of the modeled one, drawn towards that while little was measured.

        What lies within the model's own error is not believed to be another speed.
        """
        measured = self.log_speed * self.speed_ticks / (self.speed_ticks + DOUBTED_TICKS)
        return math.exp(math.copysign(max(abs(measured) - MODEL_ERROR, 0.0), measured))

    @property
    def factor(self) -> float:
        """The learned capacity as a share of the sized one; 1 is as sized."""
        return min(max(self.tail_factor * self.tightened * self.speed, MINIMUM_FACTOR), MAXIMUM_FACTOR)


@dataclass(frozen=True, slots=True)
class Decrease:
    """GPUs that were seen to be given back, whoever did it."""

    at_seconds: float
    gpus: int


@dataclass(frozen=True, slots=True)
class ResourceMemory:
    """Memory of one resource, on the logical clock. Starts empty with every new target, process or leader."""

    target_uid: str
    sized_key: str
    replicas: int
    changed_seconds: float | None = None
    """When `replicas` was last seen to change."""
    ready: int | None = None
    ready_changed_seconds: float | None = None
    """When the number of ready pods was last seen to change."""
    healthy_since_seconds: float | None = None
    """Start of the unbroken run of trustworthy samples; None: the last one was not."""
    lost_since_seconds: float | None = None
    """Start of the metrics loss that has not ended; None: there is none."""
    demands: tuple[DemandSample, ...] = ()
    decreases: tuple[Decrease, ...] = ()
    calibration: Calibration = Calibration()
    forecast: ForecastState | None = None
    live_work_ratio: float | None = None
    """What a live request costs in declared ones, by its tokens, smoothed; None: their lengths were not seen yet."""
    missed_since_seconds: float | None = None
    """Since when too many first tokens have been late, tick after tick, on a fleet that does not change."""
    queued_seconds: float | None = None
    """When requests were last seen waiting."""
    late_share: float | None = None
    """Late first tokens, 0..1, smoothed over the stabilization window; None: none were counted yet."""
    advised_replicas: int | None = None
    """The last size that rested on data: what whoever scales on our advice must go on reading when data is lost."""

    @property
    def work_ratio(self) -> float:
        """What a live request costs in declared ones; one where lengths are not measured."""
        return 1.0 if self.live_work_ratio is None else self.live_work_ratio

    @property
    def capacity_factor(self) -> float:
        """The learned capacity as a share of the sized one."""
        return self.calibration.factor


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the fleet. `clock_seconds` is the logical clock: it never runs backwards and never jumps ahead."""

    clock_seconds: float = 0.0
    last_now_seconds: float | None = None
    resources: Mapping[str, ResourceMemory] = field(default_factory=lambda: MappingProxyType({}))

    def seeded(self, resources: Mapping[str, ResourceMemory]) -> Memory:
        """The same with other memories of these resources, by uid."""
        return replace(self, resources=MappingProxyType({**self.resources, **resources})) if resources else self

    def advance(self, now_seconds: float, tick_seconds: float) -> float:
        """The logical clock at `now_seconds`: a clock that jumps never brings a scale-down earlier."""
        if self.last_now_seconds is None:
            return self.clock_seconds
        elapsed = now_seconds - self.last_now_seconds
        return self.clock_seconds + min(max(elapsed, 0.0), MAX_TICKS_PER_STEP * tick_seconds)
