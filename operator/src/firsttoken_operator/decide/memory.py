"""What the decision remembers between ticks: explicit, frozen, and only ever a reason to be more careful.

Nothing here is needed after a restart: an empty memory forbids every scale-down until a full stabilization window of
this process's own fresh samples has passed.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

MAX_TICKS_PER_STEP = 2.0
"""One tick advances the logical clock by at most this many intervals, whatever the machine's clock did."""


@dataclass(frozen=True, slots=True)
class DemandSample:
    """Raw demand of one tick, requests a second."""

    at_seconds: float
    requests_per_second: float


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
    healthy_since_seconds: float | None = None
    """Start of the unbroken run of trustworthy samples; None: the last one was not."""
    lost_since_seconds: float | None = None
    """Start of the metrics loss that has not ended; None: there is none."""
    demands: tuple[DemandSample, ...] = ()
    decreases: tuple[Decrease, ...] = ()
    capacity_factor: float = 1.0
    """What live TTFT taught about the sized capacity (1 = as sized; it only tightens)."""
    advised_replicas: int | None = None
    """The last size that rested on data: what whoever scales on our advice must go on reading when data is lost."""
    ttft_missed_since_seconds: float | None = None
    """Since when TTFT has been above the SLA, tick after tick, although the model says it should not be."""


@dataclass(frozen=True, slots=True)
class Memory:
    """Memory of the fleet. `clock_seconds` is the logical clock: it never runs backwards and never jumps ahead."""

    clock_seconds: float = 0.0
    last_now_seconds: float | None = None
    resources: Mapping[str, ResourceMemory] = field(default_factory=lambda: MappingProxyType({}))

    def advance(self, now_seconds: float, tick_seconds: float) -> float:
        """The logical clock at `now_seconds`: a clock that jumps never brings a scale-down earlier."""
        if self.last_now_seconds is None:
            return self.clock_seconds
        elapsed = now_seconds - self.last_now_seconds
        return self.clock_seconds + min(max(elapsed, 0.0), MAX_TICKS_PER_STEP * tick_seconds)
