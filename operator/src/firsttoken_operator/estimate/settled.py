"""Whether what was measured over a window is of one fleet: otherwise it says nothing of its replicas."""

from __future__ import annotations

import math

from firsttoken_operator.domain import Metrics, Target, Tick
from firsttoken_operator.estimate.memory import ResourceMemory


def is_settled(memory: ResourceMemory, tick: Tick, target: Target, metrics: Metrics) -> bool:
    """Whether the window shows one fleet: nothing came, went or changed in it."""
    in_transition = target.starting or target.terminating or target.rollout or target.ready < target.replicas
    changes = [at for at in (memory.changed_seconds, memory.ready_changed_seconds) if at is not None]
    settled = tick.clock_seconds - max(changes, default=-math.inf) > metrics.window_seconds
    return settled and not in_transition and target.ready > 0
